"""Tracks, while a history is folded, exclusions and due kickouts and since when they last."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from lab.backtest.results import DueInterval, ExclusionInterval, NetworkKick
from oracle.domain.events.network_events import DomainEvent, NodeKickedOut
from oracle.domain.fixed_point import DECAY_BITS
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import Address
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node

# H is one again after this many seconds, whatever the rules
# (docs/reference/scoring-rules.md#numbers).
_HEALED = 1 << DECAY_BITS


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """The counted part of a history: from a block on, and between two block times."""

    first_block: int
    from_time: int
    to_time: int

    def seconds(self, since: int, until: int | None) -> int:
        """Return how many seconds of an interval are inside; 0 if time went backwards."""
        end = self.to_time if until is None else min(until, self.to_time)
        return max(0, end - max(since, self.from_time))


def over_at(node: Node, time: int, rules: Rules) -> int:
    """Return the first second from `time` on at which an excluded node has recovered.

    Without events H only rises, so bisection finds that second.
    """
    low, high = time, max(time, node.since) + _HEALED
    while low < high:
        middle = (low + high) // 2
        if is_excluded(node, middle, rules):
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(slots=True)
class _Open:
    block: int
    since: int
    # The end of the exclusion if no event comes before.
    over: int


class Exclusions:
    """Intervals of exclusion, which begin with an event and end with one or by recovery."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._open: dict[Address, _Open] = {}
        self._closed: list[tuple[Address, _Open, int]] = []

    def look(self, node: Node, event: DomainEvent) -> None:
        """Open or close the interval of a node that an event has just changed."""
        known = self._open.get(node.address)
        if known is not None and known.over <= event.time:
            self._close(node.address, known.over)
            known = None
        if not is_excluded(node, event.time, self._rules):
            if known is not None:
                self._close(node.address, event.time)
            return
        if known is None:
            known = self._open[node.address] = _Open(event.at.block, event.time, event.time)
        known.over = over_at(node, event.time, self._rules)

    def _close(self, address: Address, time: int) -> None:
        self._closed.append((address, self._open.pop(address), time))

    def within(self, counted: HistoryRange) -> tuple[ExclusionInterval, ...]:
        """Return the intervals that overlap the counted range, ordered by their start."""
        ended = [(address, interval, interval.over) for address, interval in self._open.items()]
        intervals = [
            _interval(address, interval, over, counted)
            for address, interval, over in self._closed + ended
        ]
        return tuple(
            sorted(
                (interval for interval in intervals if interval.seconds),
                key=lambda interval: (interval.since, interval.block, interval.node),
            )
        )


def _interval(
    address: Address, known: _Open, over: int, counted: HistoryRange
) -> ExclusionInterval:
    until = over if over <= counted.to_time else None
    return ExclusionInterval(
        node=address,
        block=known.block,
        since=known.since,
        until=until,
        seconds=counted.seconds(known.since, until),
        began_before=known.block < counted.first_block,
    )


class Kickouts:
    """Intervals in which kickouts were due, and the kickouts that the network executed."""

    def __init__(self) -> None:
        self._open: dict[Address, DueInterval] = {}
        self._closed: dict[Address, list[DueInterval]] = {}
        self._kicks: list[NetworkKick] = []
        # Nodes with an open interval before the newest event.
        self._due_before: set[Address] = set()

    def note_intervals(self, changes: Iterable[KickoutDue], event: DomainEvent) -> None:
        """Open and close the intervals that an event opened and closed."""
        self._due_before = set(self._open)
        for change in changes:
            if change.closed_at is None:
                self._open[change.node] = _opened(change, event)
            else:
                self._close(change, event)

    def record_kickout(self, event: NodeKickedOut) -> None:
        """Record a kickout by the network, after the intervals of the same event."""
        was_due = event.node in self._due_before
        kick = NetworkKick(event.node, event.at.block, event.time, was_due)
        self._kicks.append(kick)
        self._answer(kick)

    def _close(self, change: KickoutDue, event: DomainEvent) -> None:
        known = self._open.pop(change.node)
        over = known._replace(closed_block=event.at.block, closed_time=event.time)
        self._closed.setdefault(change.node, []).append(over)

    def _answer(self, kick: NetworkKick) -> None:
        """Mark the node's closed intervals as ended by the network's kickout."""
        self._closed[kick.node] = [
            due._replace(kicked_block=kick.block, kicked_time=kick.time)
            if due.kicked_block is None
            else due
            for due in self._closed.get(kick.node, ())
        ]

    def within(self, counted: HistoryRange) -> tuple[DueInterval, ...]:
        """Return the intervals that overlap the counted range, in order of their opening."""
        first = counted.first_block
        due = [*chain.from_iterable(self._closed.values()), *self._open.values()]
        return tuple(
            sorted(
                (
                    each._replace(began_before=each.block < first)
                    for each in due
                    if each.closed_block is None or each.closed_block >= first
                ),
                key=lambda each: (each.block, each.node),
            )
        )

    def kicks(self, counted: HistoryRange) -> tuple[NetworkKick, ...]:
        """Return the network's own kickouts in the counted range."""
        return tuple(kick for kick in self._kicks if kick.block >= counted.first_block)


def _opened(change: KickoutDue, event: DomainEvent) -> DueInterval:
    return DueInterval(
        node=change.node,
        block=event.at.block,
        time=event.time,
        closed_block=None,
        closed_time=None,
        kicked_block=None,
        kicked_time=None,
        began_before=False,
    )
