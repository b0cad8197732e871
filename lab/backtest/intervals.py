"""Tracks when nodes were excluded or due for a kickout while a history is processed."""

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
from oracle.domain.state import Node

# Under any rules, reliability (H) is back at 1 after this many seconds
# (docs/reference/scoring-rules.md#numbers).
_RECOVERY_SECONDS = 1 << DECAY_BITS


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """The counted part of a history, with its first block and its first and last time.

    Times are block times.
    """

    first_block: int
    from_time: int
    to_time: int

    def count_overlap_seconds(self, since: int, until_time: int | None) -> int:
        """Return how many seconds of an interval lie in the counted range.

        `until_time` is None if the interval has no end. The result is 0 if block times decrease.
        """
        end_time = self.to_time if until_time is None else min(until_time, self.to_time)
        return max(0, end_time - max(since, self.from_time))


def compute_exclusion_end(node: Node, time: int, rules: Rules) -> int:
    """Return the block time at which an excluded node has recovered.

    The result is the first such time that is not before `time`. Without further events, the
    reliability H can only rise, so bisection finds this second.
    """
    low_time = time
    high_time = max(time, node.since) + _RECOVERY_SECONDS
    while low_time < high_time:
        middle_time = (low_time + high_time) // 2
        if is_excluded(node, middle_time, rules):
            low_time = middle_time + 1
        else:
            high_time = middle_time
    return low_time


@dataclass(slots=True)
class _OpenExclusion:
    start_block: int
    start_time: int
    # Time at which the node will have recovered if no further event affects it.
    expected_end: int


class ExclusionTracker:
    """Tracks exclusion intervals.

    An interval begins with an event. It ends with an event, or between two events, in the second
    in which the node has recovered.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._open_by_node: dict[Address, _OpenExclusion] = {}
        self._closed_intervals: list[tuple[Address, _OpenExclusion, int]] = []

    def update_node(self, node: Node, event: DomainEvent) -> None:
        """Open or close the exclusion interval of a node after an event changed the node."""
        open_interval = self._open_by_node.get(node.address)
        if open_interval is not None and open_interval.expected_end <= event.time:
            self._close_interval(node.address, open_interval.expected_end)
            open_interval = None
        if not is_excluded(node, event.time, self._rules):
            if open_interval is not None:
                self._close_interval(node.address, event.time)
            return
        if open_interval is None:
            open_interval = self._open_by_node[node.address] = _OpenExclusion(
                event.at.block, event.time, event.time
            )
        open_interval.expected_end = compute_exclusion_end(node, event.time, self._rules)

    def _close_interval(self, address: Address, time: int) -> None:
        self._closed_intervals.append((address, self._open_by_node.pop(address), time))

    def list_intervals(self, history_range: HistoryRange) -> tuple[ExclusionInterval, ...]:
        """Return the intervals that overlap the counted range, ordered by their start."""
        open_intervals = [
            (address, interval, interval.expected_end)
            for address, interval in self._open_by_node.items()
        ]
        intervals = [
            _build_exclusion_interval(address, interval, end_time, history_range)
            for address, interval, end_time in self._closed_intervals + open_intervals
        ]
        return tuple(
            sorted(
                (interval for interval in intervals if interval.seconds),
                key=lambda interval: (interval.since, interval.block, interval.node),
            )
        )


def _build_exclusion_interval(
    address: Address, exclusion: _OpenExclusion, end_time: int, history_range: HistoryRange
) -> ExclusionInterval:
    ended_at = end_time if end_time <= history_range.to_time else None
    return ExclusionInterval(
        node=address,
        block=exclusion.start_block,
        since=exclusion.start_time,
        until=ended_at,
        seconds=history_range.count_overlap_seconds(exclusion.start_time, ended_at),
        began_before=exclusion.start_block < history_range.first_block,
    )


class KickoutTracker:
    """Tracks intervals of due kickouts, and kickouts by the network itself."""

    def __init__(self) -> None:
        self._open_by_node: dict[Address, DueInterval] = {}
        self._closed_by_node: dict[Address, list[DueInterval]] = {}
        self._kicks: list[NetworkKick] = []
        # Nodes whose interval was already open before the newest event.
        self._previously_due: set[Address] = set()

    def update_intervals(self, changes: Iterable[KickoutDue], event: DomainEvent) -> None:
        """Open and close intervals after the changes caused by an event."""
        self._previously_due = set(self._open_by_node)
        for change in changes:
            if change.closed_at is None:
                self._open_by_node[change.node] = _build_due_interval(change, event)
            else:
                self._close_interval(change, event)

    def record_network_kickout(self, event: NodeKickedOut) -> None:
        """Record a kickout by the network.

        `update_intervals` must be called first for the same event.
        """
        was_due = event.node in self._previously_due
        kick = NetworkKick(event.node, event.at.block, event.time, was_due)
        self._kicks.append(kick)
        self._record_kickout_in_intervals(kick)

    def _close_interval(self, change: KickoutDue, event: DomainEvent) -> None:
        open_interval = self._open_by_node.pop(change.node)
        closed_interval = open_interval._replace(
            closed_block=event.at.block, closed_time=event.time
        )
        self._closed_by_node.setdefault(change.node, []).append(closed_interval)

    def _record_kickout_in_intervals(self, kick: NetworkKick) -> None:
        """Add a kickout by the network to the node's closed intervals without a kickout."""
        self._closed_by_node[kick.node] = [
            interval._replace(kicked_block=kick.block, kicked_time=kick.time)
            if interval.kicked_block is None
            else interval
            for interval in self._closed_by_node.get(kick.node, ())
        ]

    def list_intervals(self, history_range: HistoryRange) -> tuple[DueInterval, ...]:
        """Return the intervals that overlap the counted range, ordered by their start."""
        first_block = history_range.first_block
        intervals = [
            *chain.from_iterable(self._closed_by_node.values()),
            *self._open_by_node.values(),
        ]
        return tuple(
            sorted(
                (
                    interval._replace(began_before=interval.block < first_block)
                    for interval in intervals
                    if interval.closed_block is None or interval.closed_block >= first_block
                ),
                key=lambda interval: (interval.block, interval.node),
            )
        )

    def list_network_kickouts(self, history_range: HistoryRange) -> tuple[NetworkKick, ...]:
        """Return the kickouts by the network itself within the counted range."""
        return tuple(kick for kick in self._kicks if kick.block >= history_range.first_block)


def _build_due_interval(change: KickoutDue, event: DomainEvent) -> DueInterval:
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
