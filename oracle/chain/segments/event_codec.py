"""Encodes events as msgpack columns, grouped by class, and decodes them without loss.

Decoding is typed: data that is not a known event is rejected.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from oracle.domain.events.events_from_columns import events_from
from oracle.domain.events.network_events import DomainEvent, NodeEvent, TaskEvent
from oracle.domain.events.oracle_events import ContractEvent, SettingEvent
from oracle.domain.logs import DeadLetter

_WORD = 32


class EventRows(msgspec.Struct, frozen=True, array_like=True):
    """Events in order: one class number (a byte) per event, and the columns of each class."""

    kinds: bytes
    columns: dict[int, msgspec.Raw]


def _words(values: Iterable[int | None]) -> list[bytes | None]:
    return [None if value is None else value.to_bytes(_WORD) for value in values]


def _amounts(values: list[bytes | None]) -> list[int | None]:
    return [None if value is None else int.from_bytes(value) for value in values]


def _narrowed(rounds: Iterable[Iterable[tuple[int, int]]]) -> list[list[tuple[int, bytes]]]:
    return [[(at, word.to_bytes(_WORD)) for at, word in words] for words in rounds]


def _widened(rounds: Iterable[Iterable[tuple[int, bytes]]]) -> list[tuple[tuple[int, int], ...]]:
    return [tuple((at, int.from_bytes(word)) for at, word in words) for words in rounds]


# Fields of up to 256 bits: encoded type, and the encoder and decoder of a column.
_WIDE: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "stake": (bytes | None, _words, _amounts),
    "fee": (bytes | None, _words, _amounts),
    "words": (tuple[tuple[int, bytes], ...], _narrowed, _widened),
}


class _Kind(NamedTuple):
    """One class of events; `get_fields` returns the values of its fields.

    `wide_fields` has index, encoder and decoder of each wide field.
    """

    made: type
    names: tuple[str, ...]
    fields: Callable[[Any], tuple[Any, ...]]
    wide: tuple[tuple[int, Callable[..., Any], Callable[..., Any]], ...]
    decoder: msgspec.msgpack.Decoder[tuple[list[Any], ...]]

    @classmethod
    def of(cls, made: type) -> "_Kind":
        hints = get_type_hints(made)
        kinds = [_WIDE[name][0] if name in _WIDE else kind for name, kind in hints.items()]
        wide = tuple((at, *_WIDE[name][1:]) for at, name in enumerate(hints) if name in _WIDE)
        columns: Any = tuple.__class_getitem__(tuple(list.__class_getitem__(one) for one in kinds))
        decoder = msgspec.msgpack.Decoder(columns)
        return cls(made, tuple(hints), attrgetter(*hints), wide, decoder)

    def columns(self, events: Sequence[object]) -> msgspec.Raw:
        columns: list[Any] = list(zip(*map(self.fields, events), strict=True))
        for at, narrow, _ in self.wide:
            columns[at] = narrow(columns[at])
        return msgspec.Raw(msgspec.msgpack.encode(columns))

    def events(self, given: msgspec.Raw) -> Iterator[Any]:
        """Decode the events of one class.

        Raises:
            ValueError: columns of different lengths, or of other types.
        """
        columns: list[Any] = list(self.decoder.decode(given))
        for at, _, widen in self.wide:
            columns[at] = widen(columns[at])
        return iter(events_from(self.made, dict(zip(self.names, columns, strict=True))))


def _classes(*unions: object) -> Iterator[type]:
    for union in unions:
        yield from get_args(union) or (union,)


@cache
def _kinds() -> tuple[_Kind, ...]:
    """Return all event classes, in an order that workers of one version share."""
    found = set(_classes(NodeEvent, TaskEvent, DomainEvent, SettingEvent, ContractEvent))
    classes = sorted(found | {DeadLetter}, key=lambda each: each.__name__)
    return tuple(_Kind.of(each) for each in classes)


@cache
def _numbers() -> dict[type, int]:
    return {kind.made: number for number, kind in enumerate(_kinds())}


def rows_of(events: Sequence[object]) -> EventRows:
    """Encode events, or dead letters, as columns.

    Raises:
        OverflowError: a number is larger than the maximum of its field.
    """
    numbers, kinds = _numbers(), _kinds()
    order = bytes(map(numbers.__getitem__, map(type, events)))
    by_kind: dict[int, list[object]] = {number: [] for number in set(order)}
    for number, event in zip(order, events, strict=True):
        by_kind[number].append(event)
    return EventRows(
        order, {number: kinds[number].columns(found) for number, found in by_kind.items()}
    )


def events_of(given: EventRows) -> list[Any]:
    """Decode the events that `encode_events` encoded.

    Raises:
        ValueError: the rows are malformed.
    """
    kinds = _kinds()
    if any(number >= len(kinds) for number in given.columns):
        raise ValueError("events of a kind that we do not know")
    by_kind = {number: kinds[number].events(found) for number, found in given.columns.items()}
    try:
        events = list(map(next, map(by_kind.__getitem__, given.kinds)))
    except KeyError:
        raise ValueError("fewer events than were announced") from None
    if len(events) < len(given.kinds):
        raise ValueError("fewer events than were announced")
    if any(next(rest, None) is not None for rest in by_kind.values()):
        raise ValueError("more events than were announced")
    return events
