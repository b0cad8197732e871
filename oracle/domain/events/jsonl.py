"""Parses events from JSON lines strictly, and encodes them canonically.

See docs/reference/events-and-jsonl.md#the-file-format.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events import jsonl_fields
from oracle.domain.events.event_fields import get_field_kinds, get_required_fields
from oracle.domain.events.jsonl_fields import FieldCodec
from oracle.domain.events.network_events import (
    FIELD_KINDS,
    NAME_BY_TYPE,
    TYPE_BY_NAME,
    DomainEvent,
    TaskCreated,
)
from oracle.domain.feed_rows import is_feed_position
from oracle.domain.ids import ZERO_HASH, TaskKey
from oracle.errors import InputError

_MAX_QUOTE_CHARS = 80
_MAX_BRACKETS = 1_000


def parse_json_object(line: str) -> dict[str, object]:
    """Parse a line as a JSON object without duplicate keys.

    Raises:
        ValueError: the line is not a JSON object, contains a key twice, or has too many brackets.
    """
    # No valid event has this many brackets. RecursionError does not protect against deep nesting,
    # because an imported library raises the recursion limit beyond what the stack can hold.
    if line.count("[") + line.count("{") > _MAX_BRACKETS:
        raise ValueError("invalid JSON: the line has too many brackets")
    try:
        decoded_value = _DECODER.decode(line)
    except _RepeatedKeyError as error:
        raise ValueError(f"{error}: the key is given twice") from None
    except ValueError as error:
        fault_text = error.msg if isinstance(error, json.JSONDecodeError) else "cannot be read"
        raise ValueError(f"invalid JSON: {fault_text}") from None
    if not isinstance(decoded_value, dict):
        raise ValueError(f"expected a JSON object, not {quote_value(decoded_value)}")  # noqa: TRY004 - the line is at fault
    return decoded_value


class _RepeatedKeyError(ValueError):
    """A JSON object contains the same key more than once."""


class _OversizedInteger(NamedTuple):
    """An integer with too many digits for Python's `int`.

    The codecs of all fields reject it.
    """

    digits: str


def _parse_integer(digits: str) -> int | _OversizedInteger:
    try:
        return int(digits)
    except ValueError:
        return _OversizedInteger(digits)


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value_by_key = dict(pairs)
    if len(value_by_key) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return value_by_key


# NaN and Infinity become floats, which every field's codec rejects.
_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_keys, parse_int=_parse_integer)


def quote_value(value: object) -> str:
    """Return a value as JSON text, truncated if it is long."""
    value_text = value.digits if isinstance(value, _OversizedInteger) else json.dumps(value)
    return (
        value_text if len(value_text) <= _MAX_QUOTE_CHARS else f"{value_text[:_MAX_QUOTE_CHARS]}…"
    )


_POSITION_CODECS: Mapping[str, FieldCodec] = {
    "block": jsonl_fields.INT63,
    "tx": jsonl_fields.TX_INDEX,
    "log": jsonl_fields.LOG_INDEX,
    "sub": jsonl_fields.INT63,
    "time": jsonl_fields.INT63,
    "time_ms": jsonl_fields.INT63,
}
_TIME_KEYS = ("time", "time_ms")
# These keys are omitted from a line if their value is 0.
_OPTIONAL_POSITION_KEYS = ("tx", "sub")


class _EventSchema(NamedTuple):
    """The codecs for the fields of an event type.

    `own_codecs` is in the order of encoding, without position and time; `allowed_codecs` has all
    fields.
    """

    name: str
    event_type: type[DomainEvent]
    own_codecs: Mapping[str, FieldCodec]
    allowed_codecs: Mapping[str, FieldCodec]
    required_keys: tuple[str, ...]


def _build_schema(event_type: type[DomainEvent]) -> _EventSchema:
    own_codecs = {name: field.codec for name, field in get_field_kinds(event_type).items()}
    required_keys = ("block", "log", "time", *get_required_fields(event_type))
    return _EventSchema(
        NAME_BY_TYPE[event_type],
        event_type,
        own_codecs,
        {**_POSITION_CODECS, **own_codecs},
        required_keys,
    )


_SCHEMA_BY_NAME = {name: _build_schema(kind) for name, kind in TYPE_BY_NAME.items()}


def parse_events(lines: Iterable[str]) -> list[DomainEvent]:
    """Parse the lines of an event file, and return the events sorted by position.

    Raises:
        InputError: a line is invalid (the message names line and field), or there is no event.
    """
    events: list[DomainEvent] = []
    line_index = _LineIndex({}, {})
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = parse_event(line)
            line_index.add(event, number)
        except ValueError as error:
            raise InputError(f"line {number}: {error}") from None
        events.append(event)
    if not events:
        raise InputError("the file contains no events")
    events.sort(key=lambda event: event.at)
    return events


class OutOfOrderError(Exception):
    """A line of an event file is invalid, or the events of the file are not sorted."""


def iter_ordered_events(lines: Iterable[str]) -> Iterator[DomainEvent]:
    """Yield the events of a sorted file one at a time, to save memory.

    Raises:
        OutOfOrderError: a line is invalid or out of order. The caller must discard the events
            yielded so far, because a later line may belong before them.
    """
    last_event: DomainEvent | None = None
    for line in lines:
        if not line.strip():
            continue
        try:
            event = parse_event(line)
        except ValueError:
            raise OutOfOrderError from None
        if last_event is not None and not _is_in_order(event, last_event):
            raise OutOfOrderError
        last_event = event
        yield event


def _is_in_order(event: DomainEvent, last_event: DomainEvent) -> bool:
    is_same_block = event.at.block == last_event.at.block and not is_feed_position(last_event.at)
    if is_same_block and event.time != last_event.time:
        return False
    return event.at > last_event.at


class _LineIndex(NamedTuple):
    """The line numbers at which positions and blocks first appear, with the block times.

    The index finds lines that contradict an earlier line.
    """

    positions: dict[Position, int]
    times: dict[int, tuple[int, int]]

    def add(self, event: DomainEvent, line: int) -> None:
        first_line = self.positions.setdefault(event.at, line)
        if first_line != line:
            block, tx, log, sub = event.at
            position_text = f"block {block}, tx {tx}, log {log}, sub {sub}"
            raise ValueError(
                f"log: duplicate position ({position_text}), first seen on line {first_line}"
            )
        if is_feed_position(event.at):
            # A feed event has its own time, which is before the time of its block.
            return
        time, first_line = self.times.setdefault(event.at.block, (event.time, line))
        if time != event.time:
            raise ValueError(
                f"time: block {event.at.block} has time {event.time}, but {time} on line"
                f" {first_line}"
            )


def parse_event(line: str) -> DomainEvent:
    """Parse one line as an event.

    Raises:
        ValueError: the line is invalid; the message starts with the field's name, if any.
    """
    record = parse_json_object(line)
    name = record.pop("type", None)
    if name is None:
        raise ValueError("type: the field is missing")
    schema = _SCHEMA_BY_NAME.get(name) if isinstance(name, str) else None
    if schema is None:
        raise ValueError(f"type: unknown event type {quote_value(name)}")
    field_values = _parse_fields(schema, record)
    for key in schema.required_keys:
        if key not in field_values:
            raise ValueError(f"{key}: the field is missing")
    position = Position(
        field_values.pop("block"),
        field_values.pop("tx", 0),
        field_values.pop("log"),
        field_values.pop("sub", 0),
    )
    _check_milliseconds(field_values)
    return schema.event_type(at=position, **field_values)


def parse_task_request(text: str) -> TaskCreated:
    """Parse a task request: a JSON object with optional fields of `task_created`.

    `type`, position and time are allowed, so that an exported line is valid. Without position and
    time the task is created at position 0 and time 0. Without `task` its key is zero.

    Raises:
        ValueError: the text is invalid; the message starts with the field's name, if any.
    """
    record = parse_json_object(text)
    name = record.pop("type", None)
    if name not in (None, NAME_BY_TYPE[TaskCreated]):
        raise ValueError(f"type: must be {NAME_BY_TYPE[TaskCreated]}, not {quote_value(name)}")
    field_values = _parse_fields(_SCHEMA_BY_NAME[NAME_BY_TYPE[TaskCreated]], record)
    position = Position(
        *(field_values.pop(key, 0) for key in _POSITION_CODECS if key not in _TIME_KEYS)
    )
    field_values.setdefault("time", 0)
    _check_milliseconds(field_values)
    field_values.setdefault("task", TaskKey(ZERO_HASH))
    return TaskCreated(at=position, **field_values)


def _check_milliseconds(values: Mapping[str, Any]) -> None:
    milliseconds = values.get("time_ms")
    if milliseconds is not None and milliseconds // 1000 != values["time"]:
        raise ValueError(
            f"time_ms: {milliseconds} is not within the second given by `time` ({values['time']})"
        )


def parse_field_value(field: str, value: object) -> object:
    """Parse the value of an event field from a JSON or TOML value.

    Raises:
        ValueError: the value is invalid for this field, or no event has the field.
    """
    if field not in FIELD_KINDS:
        raise ValueError("unknown event field")
    return FIELD_KINDS[field].codec.decode(value)


def _parse_fields(schema: _EventSchema, record: Mapping[str, object]) -> dict[str, Any]:
    """Parse every field of a record; a null field counts as absent."""
    field_values = {}
    for key, value in record.items():
        codec = schema.allowed_codecs.get(key)
        if codec is None:
            raise ValueError(f"{key}: {schema.name} has no such field")
        if value is not None:
            field_values[key] = _parse_field(codec, key, value)
    return field_values


def _parse_field(codec: FieldCodec, key: str, value: object) -> Any:  # noqa: ANN401 - any field
    try:
        return codec.decode(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}, not {quote_value(value)}") from None


def event_to_json(event: DomainEvent) -> str:
    """Encode an event as one line of JSON, without absent and default values.

    The result has no line break.
    """
    name = NAME_BY_TYPE[type(event)]
    record: dict[str, object] = {"type": name}
    position_values = {**event.at._asdict(), "time": event.time, "time_ms": event.time_ms}
    for key in _POSITION_CODECS:
        if position_values[key] is None:
            continue
        if position_values[key] or key not in _OPTIONAL_POSITION_KEYS:
            record[key] = jsonl_fields.encode_int(position_values[key])
    for key, codec in _SCHEMA_BY_NAME[name].own_codecs.items():
        field_value = getattr(event, key)
        if field_value is not None:
            record[key] = codec.encode(field_value)
    return json.dumps(record, separators=(",", ":"))
