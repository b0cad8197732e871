"""Converts events to rows of the table `events`, and back without loss.

A file may come from an untrusted source, so rows that are not a valid event are rejected. See
docs/reference/parquet.md#events.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oracle.domain.blocks import Position
from oracle.domain.events.event_fields import (
    FieldKind,
    build_events,
    get_field_kinds,
    get_required_fields,
)
from oracle.domain.events.network_events import (
    FIELD_KINDS,
    NAME_BY_TYPE,
    TYPE_BY_NAME,
    DomainEvent,
)
from oracle.errors import InputError
from oracle.queries.parquet.parquet_tables import COLUMN_BY_FIELD, SCHEMAS, ExportTable

_SCHEMA = SCHEMAS[ExportTable.EVENTS]
_POSITION_COLUMNS = (*Position._fields, "time", "time_ms", "type")
_FIELD_COLUMNS = tuple(_SCHEMA.names[len(_POSITION_COLUMNS) :])
_FIELD_BY_COLUMN = {column: field for field, column in COLUMN_BY_FIELD.items()}
_KIND_BY_COLUMN: Mapping[str, FieldKind] = {
    COLUMN_BY_FIELD.get(name, name): kind for name, kind in FIELD_KINDS.items()
}
_HEX_DIGITS_BY_COLUMN = {
    name: kind.hex_digits for name, kind in _KIND_BY_COLUMN.items() if kind.hex_digits
}


# Columns of each event type. The columns of its required fields come first.
_COLUMNS_BY_TYPE = {
    name: tuple(COLUMN_BY_FIELD.get(field, field) for field in get_field_kinds(event_type))
    for name, event_type in TYPE_BY_NAME.items()
}


def build_event_batch(events: Sequence[DomainEvent]) -> pa.RecordBatch:
    """Convert events to rows of the table `events`, in the given order."""
    blocks, txs, logs, sub_indexes = zip(*(event.at for event in events), strict=True)
    times_and_milliseconds = (
        [event.time for event in events],
        [event.time_ms for event in events],
    )
    position_columns = (blocks, txs, logs, sub_indexes, *times_and_milliseconds)
    values_by_column: dict[str, list[Any]] = {
        name: [None] * len(events) for name in _FIELD_COLUMNS
    }
    # The columns are filled event by event, because each event type uses only a few of them.
    for row, event in enumerate(events):
        for column in _COLUMNS_BY_TYPE[NAME_BY_TYPE[type(event)]]:
            value = getattr(event, _FIELD_BY_COLUMN.get(column, column))
            if value is not None:
                values_by_column[column][row] = value
    columns = [*position_columns, [NAME_BY_TYPE[type(event)] for event in events]]
    columns += [_encode_column(values, name) for name, values in values_by_column.items()]
    return pa.record_batch(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )


def _encode_column(values: list[Any], name: str) -> list[Any]:
    to_column = _KIND_BY_COLUMN[name].to_column
    if to_column is None:
        return values
    return [None if value is None else to_column(value) for value in values]


def decode_event_batch(batch: pa.RecordBatch) -> Iterator[DomainEvent]:
    """Yield the events encoded in the rows of a batch.

    Raises:
        InputError: a row is not a valid event, because its type is unknown, a required field is
            null, or a value is invalid.
    """
    for name, digits in _HEX_DIGITS_BY_COLUMN.items():
        _check_hex_column(batch.column(name), name, digits)
    try:
        yield from _decode_rows(batch)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"invalid event row: {type(error).__name__}: {error}") from None


def _decode_rows(batch: pa.RecordBatch) -> Iterator[DomainEvent]:
    for name in _POSITION_COLUMNS:
        if name != "time_ms" and batch.column(name).null_count:
            raise ValueError(f"{name} is missing")
    type_column = batch.column("type")
    type_by_row: list[str] = type_column.to_pylist()
    events_by_type = {
        name: iter(_decode_events_of_type(batch, type_column, name)) for name in set(type_by_row)
    }
    return map(next, map(events_by_type.__getitem__, type_by_row))


def _decode_events_of_type(batch: pa.RecordBatch, types: pa.Array, name: str) -> list[DomainEvent]:
    """Return the events of one type, in the order of their rows."""
    event_type = TYPE_BY_NAME[name]
    type_columns = _COLUMNS_BY_TYPE[name]
    type_rows = batch.select([*_POSITION_COLUMNS[:-1], *type_columns]).filter(
        pc.equal(types, name)
    )
    for required_column in type_columns[: len(get_required_fields(event_type))]:
        if type_rows.column(required_column).null_count:
            raise ValueError(f"{required_column} of {name} is missing")
    columns = {
        column: _decode_column(type_rows.column(column), column)
        for column in type_rows.schema.names
    }
    if type_rows.column("time_ms").null_count < len(type_rows):
        _check_milliseconds(columns["time"], columns["time_ms"])
    position_values = [columns.pop(column) for column in Position._fields]
    fields = {_FIELD_BY_COLUMN.get(column, column): values for column, values in columns.items()}
    return build_events(event_type, {"at": list(map(Position, *position_values)), **fields})


def _check_milliseconds(seconds: list[int], milliseconds: list[int | None]) -> None:
    for time, time_ms in zip(seconds, milliseconds, strict=True):
        if time_ms is not None and time_ms // 1000 != time:
            raise ValueError(
                f"time_ms: {time_ms} is not within the second given by `time` ({time})"
            )


def _decode_column(column: pa.Array, name: str) -> list[Any]:
    """Return the values of a column as event values; nulls stay None."""
    present_values: list[Any] = column.drop_null().to_pylist()
    kind = _KIND_BY_COLUMN.get(name)
    if kind is not None and kind.from_column is not None:
        present_values = list(map(kind.from_column, present_values))
    if len(present_values) == len(column):
        return present_values
    decoded_values: list[Any] = [None] * len(column)
    if present_values:
        valid_indices = pc.indices_nonzero(column.is_valid()).to_pylist()
        for row, value in zip(valid_indices, present_values, strict=True):
            decoded_values[row] = value
    return decoded_values


def _check_hex_column(column: pa.Array, name: str, digits: int) -> None:
    """Raise InputError if a value is not `0x` followed by this many hex digits."""
    is_valid = pc.match_substring_regex(column, f"^0x[0-9a-f]{{{digits}}}$")
    if pc.all(is_valid).as_py() is False:
        raise InputError(f"invalid event row: {name} must be 0x and {digits} hex digits")
