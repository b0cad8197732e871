"""The file format of events: JSON lines, parsed strictly and encoded canonically.

See docs/reference/events-and-jsonl.md#the-file-format.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events import jsonl_fields as spelled
from oracle.domain.events.event_fields import field_kinds_of, required_fields_of
from oracle.domain.events.event_names import FIELD_KINDS, NAMES, TYPES
from oracle.domain.events.jsonl_fields import Spelling
from oracle.domain.events.network_events import DomainEvent, TaskCreated
from oracle.domain.feed_rows import is_of_feed
from oracle.domain.ids import ZERO_HASH, TaskKey
from oracle.errors import InputError

_LONGEST_QUOTE = 80
_MOST_BRACKETS = 1_000


def json_object(line: str) -> dict[str, object]:
    """Return the JSON object of a line, which must not repeat a key.

    Raises:
        ValueError: not an object, or nested too deep; the message gives the fault.
    """
    # No event nests as deep. An imported library raises the interpreter's recursion limit beyond
    # what its stack bears, so RecursionError is no protection.
    if line.count("[") + line.count("{") > _MOST_BRACKETS:
        raise ValueError("broken JSON: too many brackets")
    try:
        said = _DECODER.decode(line)
    except _RepeatedKeyError as error:
        raise ValueError(f"{error}: given twice") from None
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "cannot be read"
        raise ValueError(f"broken JSON: {reason}") from None
    if not isinstance(said, dict):
        raise ValueError(f"not an object: {quoted(said)}")  # noqa: TRY004 - the line is at fault
    return said


class _RepeatedKeyError(ValueError):
    """A key occurs twice in one object."""


class _EndlessInteger(NamedTuple):
    """An integer with more digits than Python parses; every field rejects it by name."""

    digits: str


def _integer(digits: str) -> int | _EndlessInteger:
    try:
        return int(digits)
    except ValueError:
        return _EndlessInteger(digits)


def _reject_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    said = dict(pairs)
    if len(said) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return said


# NaN and Infinity become floats, which every field rejects too.
_DECODER = json.JSONDecoder(object_pairs_hook=_reject_repeated_keys, parse_int=_integer)


def quoted(value: object) -> str:
    """Return a value as JSON text, truncated if it is long."""
    text = value.digits if isinstance(value, _EndlessInteger) else json.dumps(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


_PLACE: Mapping[str, Spelling] = {
    "block": spelled.INT63,
    "tx": spelled.TX_INDEX,
    "log": spelled.LOG_INDEX,
    "sub": spelled.INT63,
    "time": spelled.INT63,
    "time_ms": spelled.INT63,
}
_TIMES = ("time", "time_ms")
# Omitted if 0.
_OPTIONAL_PLACE = ("tx", "sub")


class _Shape(NamedTuple):
    """The fields of one event type: its own fields in encoding order, and all allowed fields."""

    name: str
    kind: type[DomainEvent]
    own: Mapping[str, Spelling]
    allowed: Mapping[str, Spelling]
    required: tuple[str, ...]


def _shape_of(kind: type[DomainEvent]) -> _Shape:
    own = {name: field.codec for name, field in field_kinds_of(kind).items()}
    required = ("block", "log", "time", *required_fields_of(kind))
    return _Shape(NAMES[kind], kind, own, {**_PLACE, **own}, required)


_SHAPES = {name: _shape_of(kind) for name, kind in TYPES.items()}


def parse_events(lines: Iterable[str]) -> list[DomainEvent]:
    """Parse a file of events and return them sorted by position.

    Raises:
        InputError: the first fault, with its line and field; or there is no event.
    """
    events: list[DomainEvent] = []
    seen = _LineIndex({}, {})
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = parse_event(line)
            seen.add(event, number)
        except ValueError as error:
            raise InputError(f"line {number}: {error}") from None
        events.append(event)
    if not events:
        raise InputError("no events: the file is empty")
    events.sort(key=lambda event: event.at)
    return events


class NotInOrderError(Exception):
    """A file's events are invalid or unsorted; `parse_events` sorts or rejects them."""


def events_in_order(lines: Iterable[str]) -> Iterator[DomainEvent]:
    """Yield the events of a file as `parse_events` returns them, without keeping any.

    Raises:
        NotInOrderError: at the first line that is invalid or out of order. Events yielded before
            must be discarded, because an event may follow that belongs before them.
    """
    last: DomainEvent | None = None
    for line in lines:
        if not line.strip():
            continue
        try:
            event = parse_event(line)
        except ValueError:
            raise NotInOrderError from None
        if last is not None and not _may_follow(event, last):
            raise NotInOrderError
        last = event
        yield event


def _may_follow(event: DomainEvent, last: DomainEvent) -> bool:
    is_same_block = event.at.block == last.at.block and not is_of_feed(last.at)
    if is_same_block and event.time != last.time:
        return False
    return event.at > last.at


class _LineIndex(NamedTuple):
    """The line on which each position occurred, and each block's time."""

    positions: dict[Position, int]
    times: dict[int, tuple[int, int]]

    def add(self, event: DomainEvent, line: int) -> None:
        first = self.positions.setdefault(event.at, line)
        if first != line:
            block, tx, log, sub = event.at
            place = f"block {block}, tx {tx}, log {log}, sub {sub}"
            raise ValueError(f"log: the position of line {first} again ({place})")
        if is_of_feed(event.at):
            # An event of a feed has a time of its own, before its block's.
            return
        time, first = self.times.setdefault(event.at.block, (event.time, line))
        if time != event.time:
            raise ValueError(
                f"time: block {event.at.block} has the time {event.time} here"
                f" and {time} on line {first}"
            )


def parse_event(line: str) -> DomainEvent:
    """Parse one line.

    Raises:
        ValueError: the fault, with the field's name first if it concerns a field.
    """
    said = json_object(line)
    name = said.pop("type", None)
    if name is None:
        raise ValueError("type: missing")
    shape = _SHAPES.get(name) if isinstance(name, str) else None
    if shape is None:
        raise ValueError(f"type: {quoted(name)} is no type of event")
    values = _read_fields(shape, said)
    for key in shape.required:
        if key not in values:
            raise ValueError(f"{key}: missing")
    at = Position(
        values.pop("block"), values.pop("tx", 0), values.pop("log"), values.pop("sub", 0)
    )
    _check_milliseconds(values)
    return shape.kind(at=at, **values)


def parse_wanted_task(text: str) -> TaskCreated:
    """Parse a task request: one object with the fields of `task_created`.

    No field is required. `type`, position and time are allowed, as in an exported line; without
    them the task is created at position 0 and time 0. Without `task` its key is zero.

    Raises:
        ValueError: the fault, with the field's name first if it concerns a field.
    """
    said = json_object(text)
    name = said.pop("type", None)
    if name not in (None, NAMES[TaskCreated]):
        raise ValueError(f"type: must be {NAMES[TaskCreated]}, not {quoted(name)}")
    values = _read_fields(_SHAPES[NAMES[TaskCreated]], said)
    at = Position(*(values.pop(key, 0) for key in _PLACE if key not in _TIMES))
    values.setdefault("time", 0)
    _check_milliseconds(values)
    values.setdefault("task", TaskKey(ZERO_HASH))
    return TaskCreated(at=at, **values)


def _check_milliseconds(values: Mapping[str, Any]) -> None:
    ms = values.get("time_ms")
    if ms is not None and ms // 1000 != values["time"]:
        raise ValueError(f"time_ms: {ms} does not lie in the second of time, {values['time']}")


def field_value(field: str, value: object) -> object:
    """Parse the value of a field from a JSON or TOML value.

    Raises:
        ValueError: the value is invalid for this field, or there is no such field.
    """
    if field not in FIELD_KINDS:
        raise ValueError("is no field of any event")
    return FIELD_KINDS[field].codec.read(value)


def _read_fields(shape: _Shape, said: Mapping[str, object]) -> dict[str, Any]:
    """Parse every field that is present; null means absent."""
    values = {}
    for key, value in said.items():
        spelling = shape.allowed.get(key)
        if spelling is None:
            raise ValueError(f"{key}: no field of {shape.name}")
        if value is not None:
            values[key] = _read_field(spelling, key, value)
    return values


def _read_field(spelling: Spelling, key: str, value: object) -> Any:  # noqa: ANN401 - any field
    try:
        return spelling.read(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}, not {quoted(value)}") from None


def event_to_json(event: DomainEvent) -> str:
    """Encode one event as a line without its end, omitting absent and default values."""
    name = NAMES[type(event)]
    said: dict[str, object] = {"type": name}
    place = {**event.at._asdict(), "time": event.time, "time_ms": event.time_ms}
    for key in _PLACE:
        if place[key] is None:
            continue
        if place[key] or key not in _OPTIONAL_PLACE:
            said[key] = spelled.wire_int(place[key])
    for key, spelling in _SHAPES[name].own.items():
        value = getattr(event, key)
        if value is not None:
            said[key] = spelling.write(value)
    return json.dumps(said, separators=(",", ":"))
