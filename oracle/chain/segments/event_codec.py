"""Encodes events as msgpack columns, grouped by class, and decodes them without loss.

Decoding is typed: data that is not a known event is rejected.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from oracle.domain.events.event_fields import build_events
from oracle.domain.events.network_events import FIELD_KINDS, DomainEvent, NodeEvent, TaskEvent
from oracle.domain.events.oracle_events import ContractEvent, SettingEvent
from oracle.domain.logs import DeadLetter

_WORD = 32


class EventRows(msgspec.Struct, frozen=True, array_like=True):
    """Events in order, stored as columns per class.

    There is one class number (a byte) per event, and the columns of each class.
    """

    class_numbers: bytes
    columns_by_class: dict[int, msgspec.Raw]


def _encode_words(values: Iterable[int | None]) -> list[bytes | None]:
    return [None if value is None else value.to_bytes(_WORD) for value in values]


def _decode_words(values: list[bytes | None]) -> list[int | None]:
    return [None if value is None else int.from_bytes(value) for value in values]


# Fields of up to 256 bits, encoded as bytes.
_WIDE_FIELDS = frozenset(
    {*(name for name, kind in FIELD_KINDS.items() if kind.is_wide), "signer_bitmap"}
)


class _EventClassCodec(NamedTuple):
    """The codec for one class of events.

    `get_fields` returns the values of an event's fields. `wide_fields` are the indexes of the
    fields of up to 256 bits, which are encoded as bytes.
    """

    event_class: type
    field_names: tuple[str, ...]
    get_fields: Callable[[Any], tuple[Any, ...]]
    wide_fields: tuple[int, ...]
    decoder: msgspec.msgpack.Decoder[tuple[list[Any], ...]]

    @classmethod
    def build(cls, event_class: type) -> "_EventClassCodec":
        hints = get_type_hints(event_class)
        column_types = [
            bytes | None if name in _WIDE_FIELDS else field_type
            for name, field_type in hints.items()
        ]
        wide_fields = tuple(index for index, name in enumerate(hints) if name in _WIDE_FIELDS)
        columns: Any = tuple.__class_getitem__(
            tuple(list.__class_getitem__(column_type) for column_type in column_types)
        )
        decoder = msgspec.msgpack.Decoder(columns)
        return cls(event_class, tuple(hints), attrgetter(*hints), wide_fields, decoder)

    def encode_columns(self, events: Sequence[object]) -> msgspec.Raw:
        field_columns: list[Any] = list(zip(*map(self.get_fields, events), strict=True))
        for index in self.wide_fields:
            field_columns[index] = _encode_words(field_columns[index])
        return msgspec.Raw(msgspec.msgpack.encode(field_columns))

    def decode_columns(self, encoded: msgspec.Raw) -> Iterator[Any]:
        """Decode the events of one class.

        Raises:
            ValueError: the columns have different lengths or wrong types.
        """
        columns: list[Any] = list(self.decoder.decode(encoded))
        for index in self.wide_fields:
            columns[index] = _decode_words(columns[index])
        return iter(
            build_events(self.event_class, dict(zip(self.field_names, columns, strict=True)))
        )


def _iterate_event_classes(*unions: object) -> Iterator[type]:
    for union in unions:
        yield from get_args(union) or (union,)


@cache
def _list_event_codecs() -> tuple[_EventClassCodec, ...]:
    """Return the codecs of all event classes.

    The order is the same in all workers of a version.
    """
    event_classes = set(
        _iterate_event_classes(NodeEvent, TaskEvent, DomainEvent, SettingEvent, ContractEvent)
    )
    sorted_classes = sorted(
        event_classes | {DeadLetter}, key=lambda event_class: event_class.__name__
    )
    return tuple(_EventClassCodec.build(event_class) for event_class in sorted_classes)


@cache
def _get_event_class_numbers() -> dict[type, int]:
    return {codec.event_class: number for number, codec in enumerate(_list_event_codecs())}


def encode_events(events: Sequence[object]) -> EventRows:
    """Encode events or dead letters as columns.

    Raises:
        OverflowError: a number is larger than the maximum of its field.
    """
    number_by_class = _get_event_class_numbers()
    codecs = _list_event_codecs()
    class_numbers = bytes(map(number_by_class.__getitem__, map(type, events)))
    events_by_class: dict[int, list[object]] = {number: [] for number in set(class_numbers)}
    for number, event in zip(class_numbers, events, strict=True):
        events_by_class[number].append(event)
    return EventRows(
        class_numbers,
        {
            number: codecs[number].encode_columns(class_events)
            for number, class_events in events_by_class.items()
        },
    )


def decode_events(rows: EventRows) -> list[Any]:
    """Decode events that `encode_events` encoded.

    Raises:
        ValueError: the rows are malformed.
    """
    codecs = _list_event_codecs()
    if any(number >= len(codecs) for number in rows.columns_by_class):
        raise ValueError("the rows refer to an unknown event class")
    iterator_by_class = {
        number: codecs[number].decode_columns(columns)
        for number, columns in rows.columns_by_class.items()
    }
    try:
        events = list(map(next, map(iterator_by_class.__getitem__, rows.class_numbers)))
    except KeyError:
        raise ValueError("the rows contain fewer events than announced") from None
    if len(events) < len(rows.class_numbers):
        raise ValueError("the rows contain fewer events than announced")
    if any(next(iterator, None) is not None for iterator in iterator_by_class.values()):
        raise ValueError("the rows contain more events than announced")
    return events
