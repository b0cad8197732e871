"""Declares the position and the time that all events have, and the kinds of their other fields.

An event's field is annotated with a kind, as in `stake: WeiAmount | None = None`. The JSON-lines
codec, the columns of an export and the tables of docs/reference/events-and-jsonl.md are derived
from this annotation. Position and time are explained in
docs/reference/events-and-jsonl.md#position-and-time.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from functools import cache, lru_cache
from itertools import repeat
from typing import Annotated, Any, get_args

from oracle.domain.blocks import Position
from oracle.domain.events import jsonl_fields as codecs
from oracle.domain.events.jsonl_fields import INT63_MAX, FieldCodec
from oracle.domain.ids import Address, GroupKey, TaskKey


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event at its position, with the time of its block in whole seconds.

    `time_ms` is the time in whole milliseconds, within the second `time`, or None if the source
    reports seconds only. Scores never use `time_ms`.
    """

    at: Position
    time: int
    time_ms: int | None = field(default=None, kw_only=True)

    @property
    def timestamp_ms(self) -> int:
        """Return the event's time in milliseconds, or the start of its second if not known."""
        return self.time * 1000 if self.time_ms is None else self.time_ms


class ColumnType(StrEnum):
    """The type of a column in an exported file."""

    WHOLE = "int64"
    FLAG = "bool"
    TEXT = "string"
    TEXTS = "list of strings"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FieldKind:
    """A kind of event field, with its valid values and their encoding."""

    codec: FieldCodec
    column: ColumnType
    # The text for docs/reference/events-and-jsonl.md#types.
    description: str
    # Functions that convert a value to and from its column value; None if they are the same.
    to_column: Callable[[Any], Any] | None = None
    from_column: Callable[[Any], Any] | None = None
    # True if numbers may have up to 256 bits, which do not fit into an integer column or a
    # MessagePack integer.
    is_wide: bool = False
    # The number of hex digits after `0x`; 0 if the value is not hex.
    hex_digits: int = 0
    # The enumeration that the field's values belong to, or None.
    enum: type[StrEnum] | None = None


@lru_cache(maxsize=256)
def format_version(version: tuple[int, int, int]) -> str:
    """Return a version as text, such as `1.2.3`."""
    return ".".join(map(str, version))


@lru_cache(maxsize=256)
def parse_version(text: str) -> tuple[int, int, int]:
    """Parse a version in the format of `format_version`."""
    major, minor, patch = text.split(".")
    return int(major), int(minor), int(patch)


def _clamp_to_int64(number: int) -> int:
    """Limit a number to the maximum of an int64 column."""
    return number if number <= INT63_MAX else INT63_MAX  # noqa: FURB136 - min() is slower


def build_enum_field_kind(enum: type[StrEnum]) -> FieldKind:
    """Return the kind of fields that hold a member of this enumeration."""
    return FieldKind(
        codec=codecs.build_enum_codec(enum),
        column=ColumnType.TEXT,
        description=", ".join(f"`{member.value}`" for member in enum),
        to_column=str,
        from_column={member.value: member for member in enum}.__getitem__,
        enum=enum,
    )


ADDRESS = FieldKind(
    codec=codecs.ADDRESS, column=ColumnType.TEXT, description="20 bytes of hex", hex_digits=40
)
HASH = FieldKind(
    codec=codecs.HASH, column=ColumnType.TEXT, description="32 bytes of hex", hex_digits=64
)
HASHES = FieldKind(
    codec=codecs.TASKS,
    column=ColumnType.TEXTS,
    description="a list of tasks of 32 bytes of hex, at least one",
    to_column=list,
    from_column=tuple,
)
AMOUNT = FieldKind(
    codec=codecs.WEI,
    column=ColumnType.TEXT,
    description="wei, a decimal string or a JSON integer, 0 to 2^256-1",
    to_column=str,
    from_column=int,
    is_wide=True,
)
TEXT = FieldKind(codec=codecs.TEXT, column=ColumnType.TEXT, description="text")
TEXTS = FieldKind(
    codec=codecs.TEXTS,
    column=ColumnType.TEXTS,
    description="a list of texts, may be empty",
    to_column=list,
    from_column=tuple,
)
GIGABYTES = FieldKind(
    codec=codecs.UINT32, column=ColumnType.WHOLE, description="whole GB, 0 to 2^32-1"
)
SECONDS = FieldKind(
    codec=codecs.INT63,
    column=ColumnType.WHOLE,
    description="whole seconds, 0 to 2^63-1",
    to_column=_clamp_to_int64,
)
COUNT = FieldKind(
    codec=codecs.AT_LEAST_ONE,
    column=ColumnType.WHOLE,
    description="a whole number, 1 to 2^63-1",
    to_column=_clamp_to_int64,
)
PLACE = FieldKind(
    codec=codecs.PLACE, column=ColumnType.WHOLE, description="0 to 2, the node's place in its task"
)
VERSION = FieldKind(
    codec=codecs.VERSION,
    column=ColumnType.TEXT,
    description="three integers, 0 to 2^32-1",
    to_column=format_version,
    from_column=parse_version,
)
FLAG = FieldKind(codec=codecs.BOOL, column=ColumnType.FLAG, description="true or false")

NodeAddress = Annotated[Address, ADDRESS]
TaskId = Annotated[TaskKey, HASH]
GroupId = Annotated[GroupKey, HASH]
TaskIds = Annotated[tuple[TaskKey, ...], HASHES]
WeiAmount = Annotated[int, AMOUNT]
Text = Annotated[str, TEXT]
Texts = Annotated[tuple[str, ...], TEXTS]
WholeGigabytes = Annotated[int, GIGABYTES]
Seconds = Annotated[int, SECONDS]
Count = Annotated[int, COUNT]
RoundPlace = Annotated[int, PLACE]
VersionTriple = Annotated[tuple[int, int, int], VERSION]
Flag = Annotated[bool, FLAG]

_TIMED_EVENT_FIELDS = frozenset(event_field.name for event_field in fields(TimedEvent))


def get_field_kinds(event_type: type[TimedEvent]) -> dict[str, FieldKind]:
    """Return the kind of each field except position and time, in encoding order.

    Raises:
        TypeError: a field is not annotated with a kind.
    """
    return {
        event_field.name: _get_field_kind(event_field)
        for event_field in fields(event_type)
        if event_field.name not in _TIMED_EVENT_FIELDS
    }


def get_required_fields(event_type: type[TimedEvent]) -> tuple[str, ...]:
    """Return the names of an event's required fields, without position and time."""
    own_fields = (
        event_field
        for event_field in fields(event_type)
        if event_field.name not in _TIMED_EVENT_FIELDS
    )
    return tuple(event_field.name for event_field in own_fields if event_field.default is MISSING)


def _get_field_kind(event_field: Field[Any]) -> FieldKind:
    for annotation in (event_field.type, *get_args(event_field.type)):
        for kind in getattr(annotation, "__metadata__", ()):
            if isinstance(kind, FieldKind):
                return kind
    raise TypeError(f"{event_field.name}: the annotation has no FieldKind")


def build_events(event_class: type, columns: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Build the events of one class from columns of field values.

    The class must have slots. Values are not checked, so the caller must pass values of the right
    types.

    Raises:
        ValueError: the columns do not match the fields, or their lengths differ.
    """
    setters = _get_field_setters(event_class)
    if columns.keys() != setters.keys():
        raise ValueError(
            f"{event_class.__name__}: the columns {', '.join(columns)} do not match its fields"
        )
    column_lengths = set(map(len, columns.values()))
    if len(column_lengths) != 1:
        raise ValueError("the event columns have different lengths")
    events: list[Any] = list(map(object.__new__, repeat(event_class, column_lengths.pop())))
    for name, column in columns.items():
        # The deque discards the results, because only the side effects of the calls are needed.
        deque(map(setters[name], events, column), maxlen=0)
    return events


@cache
def _get_field_setters(event_class: type) -> dict[str, Callable[[Any, Any], None]]:
    """Return the slot setter of each field of a dataclass that has slots."""
    return {field.name: getattr(event_class, field.name).__set__ for field in fields(event_class)}
