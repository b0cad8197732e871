"""Events as rows of msgpack, one list for each kind, and back, exactly.

Typed on the way back: what is no event of ours is refused, never taken for one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from oracle.domain.events.network_events import DomainEvent, NodeEvent, TaskEvent
from oracle.domain.events.oracle_events import ContractEvent, SettingEvent
from oracle.domain.logs import DeadLetter

_WORD = 32
# A field that is given by its name alone: the last of a row.
_IN_NO_PLACE = "time_ms"


class EventRows(msgspec.Struct, frozen=True, array_like=True):
    """Events in order: the kind of each, a byte, and by kind the rows of its events."""

    kinds: bytes
    rows: dict[int, msgspec.Raw]


def _word(value: int | None) -> bytes | None:
    return None if value is None else value.to_bytes(_WORD)


def _amount(value: bytes | None) -> int | None:
    return None if value is None else int.from_bytes(value)


def _narrowed(words: Iterable[tuple[int, int]]) -> list[tuple[int, bytes]]:
    return [(at, word.to_bytes(_WORD)) for at, word in words]


def _widened(words: Iterable[tuple[int, bytes]]) -> tuple[tuple[int, int], ...]:
    return tuple((at, int.from_bytes(word)) for at, word in words)


# Fields of up to 256 bits: their type in a row, and how they get there and back.
_WIDE: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "stake": (bytes | None, _word, _amount),
    "fee": (bytes | None, _word, _amount),
    "words": (tuple[tuple[int, bytes], ...], _narrowed, _widened),
}


class _Kind(NamedTuple):
    """One class of events, made of a row by `make`; `wide` are the places of its wide fields."""

    made: type
    make: Callable[..., Any]
    fields: Callable[[Any], tuple[Any, ...]]
    wide: tuple[tuple[int, Callable[..., Any], Callable[..., Any]], ...]
    decoder: msgspec.msgpack.Decoder[list[tuple[Any, ...]]]

    @classmethod
    def of(cls, made: type) -> "_Kind":
        hints = get_type_hints(made)
        names = sorted(hints, key=_IN_NO_PLACE.__eq__)
        kinds = tuple(_WIDE[name][0] if name in _WIDE else hints[name] for name in names)
        wide = tuple((at, *_WIDE[name][1:]) for at, name in enumerate(names) if name in _WIDE)
        row: Any = tuple.__class_getitem__(kinds)
        decoder = msgspec.msgpack.Decoder(list[row])
        make = _timed(made) if _IN_NO_PLACE in names else made
        return cls(made, make, attrgetter(*names), wide, decoder)

    def row(self, event: object) -> Sequence[Any]:
        row = self.fields(event)
        if not self.wide:
            return row
        changed = list(row)
        for at, narrow, _ in self.wide:
            changed[at] = narrow(changed[at])
        return changed

    def events(self, given: msgspec.Raw) -> Iterator[Any]:
        make, wide = self.make, self.wide
        for row in self.decoder.decode(given):
            if not wide:
                yield make(*row)
                continue
            changed = list(row)
            for at, _, widen in wide:
                changed[at] = widen(changed[at])
            yield make(*changed)


def _timed(made: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes an event of a row that ends with its milliseconds: hardly any has them."""

    def make(*row: Any) -> Any:  # noqa: ANN401  # an event of this class
        *given, ms = row
        return made(*given) if ms is None else made(*given, time_ms=ms)

    return make


def _classes(*unions: object) -> Iterator[type]:
    for union in unions:
        yield from get_args(union) or (union,)


@cache
def _kinds() -> tuple[_Kind, ...]:
    """Return every kind of event, in an order that all workers of one version share."""
    found = set(_classes(NodeEvent, TaskEvent, DomainEvent, SettingEvent, ContractEvent))
    classes = sorted(found | {DeadLetter}, key=lambda each: each.__name__)
    return tuple(_Kind.of(each) for each in classes)


@cache
def _numbers() -> dict[type, int]:
    return {kind.made: number for number, kind in enumerate(_kinds())}


def rows_of(events: Sequence[object]) -> EventRows:
    """Return the events, or dead letters, as rows.

    Raises:
        OverflowError: a number is larger than its field is known to get.
    """
    numbers, kinds = _numbers(), _kinds()
    order = bytes(numbers[type(event)] for event in events)
    by_kind: dict[int, list[Sequence[Any]]] = {number: [] for number in set(order)}
    for number, event in zip(order, events, strict=True):
        by_kind[number].append(kinds[number].row(event))
    encode = msgspec.msgpack.encode
    return EventRows(order, {number: msgspec.Raw(encode(by_kind[number])) for number in by_kind})


def events_of(given: EventRows) -> list[Any]:
    """Return what `rows_of` was given.

    Raises:
        ValueError: it is not that.
    """
    kinds = _kinds()
    if any(number >= len(kinds) for number in given.rows):
        raise ValueError("events of a kind that we do not know")
    by_kind = {number: kinds[number].events(rows) for number, rows in given.rows.items()}
    try:
        events = [next(by_kind[number]) for number in given.kinds]
    except (KeyError, StopIteration):
        raise ValueError("fewer events than were announced") from None
    if any(next(rest, None) is not None for rest in by_kind.values()):
        raise ValueError("more events than were announced")
    return events
