"""Converts events to rows of the table `events` and back without loss.

See docs/reference/parquet.md#events. A file may come from anybody: rows that are no event are
refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from oracle.domain.blocks import Position
from oracle.domain.events.event_fields import FieldKind, field_kinds_of, required_fields_of
from oracle.domain.events.event_names import FIELD_KINDS, NAMES, TYPES
from oracle.domain.events.events_from_columns import events_from
from oracle.domain.events.network_events import DomainEvent
from oracle.errors import InputError
from oracle.queries.parquet.parquet_tables import COLUMN_OF, SCHEMAS, ExportTable

_SCHEMA = SCHEMAS[ExportTable.EVENTS]
_PLACE = (*Position._fields, "time", "time_ms", "type")
_OWN = tuple(_SCHEMA.names[len(_PLACE) :])
_FIELD_OF = {column: field for field, column in COLUMN_OF.items()}
_KIND_OF: Mapping[str, FieldKind] = {
    COLUMN_OF.get(name, name): kind for name, kind in FIELD_KINDS.items()
}
_HEX = {name: kind.hex_digits for name, kind in _KIND_OF.items() if kind.hex_digits}


class _Kind(NamedTuple):
    """The columns of one event type; the first `required_count` of them must not be null."""

    make: type[DomainEvent]
    columns: tuple[str, ...]
    required: int


def _kind_of(kind: type[DomainEvent]) -> _Kind:
    columns = tuple(COLUMN_OF.get(name, name) for name in field_kinds_of(kind))
    return _Kind(kind, columns, len(required_fields_of(kind)))


_KINDS = {name: _kind_of(kind) for name, kind in TYPES.items()}


def batch_of(events: Sequence[DomainEvent]) -> pa.RecordBatch:
    """Return events as rows of the table, in their order."""
    blocks, txs, logs, subs = zip(*(event.at for event in events), strict=True)
    times = ([event.time for event in events], [event.time_ms for event in events])
    place = (blocks, txs, logs, subs, *times)
    own: dict[str, list[Any]] = {name: [None] * len(events) for name in _OWN}
    # Filled event by event, because each type uses only a few of the columns.
    for row, event in enumerate(events):
        for column in _KINDS[NAMES[type(event)]].columns:
            value = getattr(event, _FIELD_OF.get(column, column))
            if value is not None:
                own[column][row] = value
    columns = [*place, [NAMES[type(event)] for event in events]]
    columns += [_written(values, name) for name, values in own.items()]
    return pa.record_batch(
        [pa.array(values, each.type) for values, each in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )


def _written(values: list[Any], name: str) -> list[Any]:
    write = _KIND_OF[name].to_column
    if write is None:
        return values
    return [None if value is None else write(value) for value in values]


def events_of(batch: pa.RecordBatch) -> Iterator[DomainEvent]:
    """Yield the events of rows of the table.

    Raises:
        InputError: a row is no event: its type is unknown, a required field is null, or a value is
            invalid.
    """
    for name, digits in _HEX.items():
        _check_hex(batch.column(name), name, digits)
    try:
        yield from _read(batch)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(f"a row of events is none: {type(error).__name__}: {error}") from None


def _read(batch: pa.RecordBatch) -> Iterator[DomainEvent]:
    for name in _PLACE:
        if name != "time_ms" and batch.column(name).null_count:
            raise ValueError(f"{name} is missing")
    types = batch.column("type")
    order: list[str] = types.to_pylist()
    by_kind = {name: iter(_events_of_type(batch, types, name)) for name in set(order)}
    return map(next, map(by_kind.__getitem__, order))


def _events_of_type(batch: pa.RecordBatch, types: pa.Array, name: str) -> list[DomainEvent]:
    """Return the events of one type, in order."""
    kind = _KINDS[name]
    rows = batch.select([*_PLACE[:-1], *kind.columns]).filter(pc.equal(types, name))
    for required in kind.columns[: kind.required]:
        if rows.column(required).null_count:
            raise ValueError(f"{required} of {name} is missing")
    columns = {each: _values(rows.column(each), each) for each in rows.schema.names}
    if rows.column("time_ms").null_count < len(rows):
        _check_milliseconds(columns["time"], columns["time_ms"])
    place = [columns.pop(each) for each in Position._fields]
    fields = {_FIELD_OF.get(each, each): values for each, values in columns.items()}
    made: type[DomainEvent] = kind.make
    return events_from(made, {"at": list(map(Position, *place)), **fields})


def _check_milliseconds(seconds: list[int], milliseconds: list[int | None]) -> None:
    for time, ms in zip(seconds, milliseconds, strict=True):
        if ms is not None and ms // 1000 != time:
            raise ValueError(f"time_ms {ms} does not lie in the second of time, {time}")


def _values(column: pa.Array, name: str) -> list[Any]:
    """Return a column as a list of event values; null values cost nothing."""
    there: list[Any] = column.drop_null().to_pylist()
    kind = _KIND_OF.get(name)
    if kind is not None and kind.from_column is not None:
        there = list(map(kind.from_column, there))
    if len(there) == len(column):
        return there
    values: list[Any] = [None] * len(column)
    if there:
        rows = pc.indices_nonzero(column.is_valid()).to_pylist()
        for row, value in zip(rows, there, strict=True):
            values[row] = value
    return values


def _check_hex(column: pa.Array, name: str, digits: int) -> None:
    """Check a whole column at once, because every event of a history is checked."""
    good = pc.match_substring_regex(column, f"^0x[0-9a-f]{{{digits}}}$")
    if pc.all(good).as_py() is False:
        raise InputError(f"a row of events is none: {name} must be 0x and {digits} hex digits")
