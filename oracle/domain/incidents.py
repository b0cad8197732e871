"""Finds incidents by counting task ends with integers while events are folded.

A task ends at a node when the node answers, or when the task times out before that. The numbers of
ends in the last minutes are updated when an end enters or leaves the window, so that a test for an
incident only reads numbers. See docs/explanation/incidents.md for the rule and its reasons.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import comb
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.ids import Address

# The creator (None if unknown) and the node of a task.
EndKey = tuple[Address | None, Address]
_MINUTE_SECONDS = 60
# The length of the tested window, and of the preceding period that gives the usual timeout rate.
WINDOW_MINUTES = 15
BASELINE_MINUTES = 24 * 60
# The usual timeout rate is computed from at least `_MIN_BASELINE_ENDS` ends and is at least one
# timeout in that many. If a day has fewer ends, one in `_ASSUMED_TIMEOUTS` of the missing ends is
# taken as a timeout, so that a young network with many failures is not mistaken for an incident.
_MIN_BASELINE_ENDS = 500
_ASSUMED_TIMEOUTS = 10
_MIN_FAILED_NODES = 3
# An incident is reported only if its probability under the usual rate is at most one in this
# number.
_RARITY = 10**9


class Incident(NamedTuple):
    """A period in which timeouts were probably not the fault of nodes.

    `number` counts from 1, in the order in which the incidents were found. `creator` is the
    creator whose tasks timed out, or None for a network outage. `since` and `until` are block
    times, and the incident marks the timeouts between them, both included. `until` moves while the
    incident is open. `nodes` and `timeouts` are the maximum numbers of nodes with a timeout and of
    their timeouts in one window. `over_at` and `over_time` are None while the incident is open.
    """

    number: int
    creator: Address | None
    found_at: Position
    found_time: int
    since: int
    until: int
    nodes: int
    timeouts: int
    over_at: Position | None = None
    over_time: int | None = None

    @property
    def is_network_outage(self) -> bool:
        return self.creator is None

    def is_known_at(self, at: Position) -> bool:
        """Return whether the incident was found at or before this position."""
        return self.found_at <= at

    def marks(self, time: int, creator: Address | None, known_at: Position | None = None) -> bool:
        """Return whether a timeout of a creator's task at a given time lies in the incident.

        With `known_at`, the result is what was known at this position: an incident that was still
        open then marks every timeout since its start, up to this position.
        """
        if self.creator is not None and self.creator != creator:
            return False
        if known_at is None:
            return self.since <= time <= self.until
        was_over = self.over_at is not None and self.over_at <= known_at
        return self.is_known_at(known_at) and self.since <= time <= (
            self.until if was_over else time
        )


def find_incident_marking_timeout(
    incidents: Iterable[Incident],
    time: int,
    creator: Address | None,
    known_at: Position | None = None,
) -> Incident | None:
    """Return the first incident that covers a timeout, or None if none does.

    `time` is the block time of the timeout. `creator` and `known_at` have the same meaning as in
    `Incident.marks`.
    """
    marking = (incident for incident in incidents if incident.marks(time, creator, known_at))
    return next(marking, None)


class EndTotals:
    """The number of task ends for one creator, or for all creators together.

    `end_counts_by_node` maps a node to the numbers of its ends and timeouts. `failed_nodes` is the
    number of nodes with a timeout. `healthy_nodes` is the number of those that answered a task of
    another creator; it is not counted for all creators together.
    """

    __slots__ = (
        "_max_ends",
        "end_counts_by_node",
        "ends",
        "failed_nodes",
        "healthy_nodes",
        "timeouts",
    )

    def __init__(self) -> None:
        self.ends = self.timeouts = self.failed_nodes = self.healthy_nodes = 0
        self.end_counts_by_node: dict[Address, list[int]] = {}
        # The maximum is None if it must be recomputed, because a node that had it lost an end.
        self._max_ends: int | None = 0

    @property
    def max_ends(self) -> int:
        """The largest number of task ends of any node."""
        if self._max_ends is None:
            self._max_ends = max((ends for ends, _ in self.end_counts_by_node.values()), default=0)
        return self._max_ends

    def add(self, node: Address, ends: int, timeouts: int) -> None:
        """Add ended tasks of a node.

        Negative numbers remove ended tasks.
        """
        end_counts = self.end_counts_by_node.get(node)
        if end_counts is None:
            end_counts = self.end_counts_by_node[node] = [0, 0]
        ends_before, timeouts_before = end_counts
        ends_after = ends_before + ends
        timeouts_after = timeouts_before + timeouts
        self.ends += ends
        if ends_after:
            end_counts[0], end_counts[1] = ends_after, timeouts_after
        else:
            del self.end_counts_by_node[node]
        if timeouts:
            self.timeouts += timeouts
            self.failed_nodes += (timeouts_after > 0) - (timeouts_before > 0)
        if self._max_ends is not None:
            if ends_after > self._max_ends:
                self._max_ends = ends_after
            elif ends < 0 and ends_before == self._max_ends:
                self._max_ends = None

    def has_answered(self, node: Address) -> bool:
        """Return whether the node answered any of the tasks."""
        end_counts = self.end_counts_by_node.get(node)
        return end_counts is not None and end_counts[0] > end_counts[1]


class EndWindow:
    """The task ends in a time window, by creator and in total."""

    def __init__(self) -> None:
        self.all_ends = EndTotals()
        self.ends_by_creator: dict[Address | None, EndTotals] = {}
        # For each node, the creators with a timeout there, and the number of creators with an
        # answer.
        self._failed_creators_by_node: dict[Address, set[Address | None]] = {}
        self._answered_creator_count_by_node: dict[Address, int] = {}

    def add(self, key: EndKey, ends: int, timeouts: int) -> None:
        """Add task ends of a node to the window.

        Negative numbers remove task ends.
        """
        creator, node = key
        failed_creators = self._failed_creators_by_node.get(node)
        if failed_creators is not None:
            self._adjust_healthy_node_counts(node, failed_creators, -1)
        totals = self.ends_by_creator.get(creator)
        if totals is None:
            totals = self.ends_by_creator[creator] = EndTotals()
        had_answered = totals.has_answered(node)
        totals.add(node, ends, timeouts)
        self.all_ends.add(node, ends, timeouts)
        has_answered = totals.has_answered(node)
        if has_answered is not had_answered:
            answered_count = self._answered_creator_count_by_node.get(node, 0) + (
                1 if has_answered else -1
            )
            self._answered_creator_count_by_node[node] = answered_count
            if not answered_count:
                del self._answered_creator_count_by_node[node]
        if timeouts:
            self._update_failed_creators(creator, node, totals)
        failed_creators = self._failed_creators_by_node.get(node)
        if failed_creators is not None:
            self._adjust_healthy_node_counts(node, failed_creators, 1)
        if not totals.ends:
            del self.ends_by_creator[creator]

    def _update_failed_creators(
        self, creator: Address | None, node: Address, totals: EndTotals
    ) -> None:
        failed_creators = self._failed_creators_by_node.setdefault(node, set())
        end_counts = totals.end_counts_by_node.get(node)
        if end_counts is not None and end_counts[1]:
            failed_creators.add(creator)
        else:
            failed_creators.discard(creator)
        if not failed_creators:
            del self._failed_creators_by_node[node]

    def _adjust_healthy_node_counts(
        self, node: Address, failed_creators: set[Address | None], step: int
    ) -> None:
        """Add `step` to `healthy_nodes` of the creators for whom the node is healthy.

        A node counts as healthy for a creator if the node answered a task of another creator.
        """
        answered_count = self._answered_creator_count_by_node.get(node, 0)
        for creator in failed_creators:
            totals = self.ends_by_creator[creator]
            if answered_count > totals.has_answered(node):
                totals.healthy_nodes += step

    def count_failed_outside_worst_creator(self) -> int:
        """Count the nodes with a timeout in a task of any creator but the worst.

        The worst creator is the creator with the most timeouts.
        """
        worst_creator = max(
            self.ends_by_creator, key=lambda key: (self.ends_by_creator[key].timeouts, key or "")
        )
        end_counts_by_node = self.all_ends.end_counts_by_node
        worst_creator_only_count = sum(
            0 < timeouts == end_counts_by_node[node][1]
            for node, (_, timeouts) in self.ends_by_creator[
                worst_creator
            ].end_counts_by_node.items()
        )
        return self.all_ends.failed_nodes - worst_creator_only_count

    def count_failing_creators(self) -> int:
        """Count the creators with at least one timeout."""
        return sum(totals.timeouts > 0 for totals in self.ends_by_creator.values())


@dataclass(slots=True)
class EndMinute:
    """The task ends in one minute of block time.

    The minute begins at `minute` times 60 seconds. `ends_by_key` has the ends and timeouts of each
    creator and node; it is empty after the minute has left the window.
    """

    minute: int
    ends: int = 0
    timeouts: int = 0
    ends_by_key: dict[EndKey, tuple[int, int]] = field(default_factory=dict)


def _copy_minute(row: EndMinute) -> EndMinute:
    return EndMinute(row.minute, row.ends, row.timeouts, dict(row.ends_by_key))


@dataclass(slots=True)
class IncidentRows:
    """The detector's rows by key.

    None means that the row does not exist. The rows are either changes to store, or the rows as
    they were before a block.
    """

    minutes: dict[int, EndMinute | None] = field(default_factory=dict)
    incidents: dict[int, Incident | None] = field(default_factory=dict)

    def list_incidents(self) -> dict[int, Incident]:
        """Return the existing incident rows, keyed by number."""
        return {number: row for number, row in self.incidents.items() if row is not None}


class IncidentDetector:
    """Tracks the ends of tasks, and detects incidents.

    The size of the state is bounded, because it only has the ends of 15 minutes, two numbers for
    each minute of a day, and the open incidents. `pre_images` collects rows as they were before
    the current block, or is None.
    """

    def __init__(
        self,
        minutes: Iterable[EndMinute] = (),
        open_incidents: Iterable[Incident] = (),
        incident_count: int = 0,
    ) -> None:
        """Continue from stored rows.

        `minutes` are in ascending order, and `open_incidents` are all open incidents.
        `incident_count` is the number of all incidents so far.
        """
        self.changes = IncidentRows()
        self.pre_images: IncidentRows | None = None
        self.incident_count = incident_count
        self._open_incident_by_creator = {
            incident.creator: incident for incident in open_incidents
        }
        self._counts = EndWindow()
        # The minutes of the window and of the day before it, oldest first.
        self._window = deque[EndMinute]()
        self._baseline = deque[EndMinute]()
        self._baseline_ends = self._baseline_timeouts = 0
        for row in minutes:
            if row.ends_by_key:
                self._window.append(row)
                for key, (ends, timeouts) in row.ends_by_key.items():
                    self._counts.add(key, ends, timeouts)
            else:
                self._add_to_baseline(row)

    @property
    def minutes(self) -> list[EndMinute]:
        """All stored minutes, oldest first."""
        return [*self._baseline, *self._window]

    @property
    def open_incidents(self) -> list[Incident]:
        """The open incidents, in the order in which they were found."""
        return sorted(self._open_incident_by_creator.values())

    def drain_changes(self) -> IncidentRows:
        """Return the rows changed since the last call, and clear the changes."""
        changes = self.changes
        self.changes = IncidentRows()
        return changes

    def record_end(self, at: Position, time: int, key: EndKey, *, is_timeout: bool) -> None:
        """Count the end of a task at a node, which may open or close an incident.

        `time` is the block time of the event at position `at`. If the block time goes backwards,
        the end counts in the newest minute.
        """
        minute = time // _MINUTE_SECONDS
        if not self._window or minute > self._window[-1].minute:
            self._begin_minute(minute, at, time)
        row = self._window[-1]
        self._record_minute_change(row.minute, row)
        ends, timeouts = row.ends_by_key.get(key, (0, 0))
        row.ends_by_key[key] = ends + 1, timeouts + is_timeout
        row.ends += 1
        row.timeouts += is_timeout
        self._counts.add(key, 1, int(is_timeout))
        if is_timeout:
            creator = key[0]
            if creator is not None:
                self._check_creator_for_incident(creator, at, time)
            self._check_network_for_incident(at, time)

    def _begin_minute(self, minute: int, at: Position, time: int) -> None:
        """Begin a new minute.

        Older minutes leave the window or the baseline day, and old incidents end.
        """
        while self._window and self._window[0].minute <= minute - WINDOW_MINUTES:
            self._move_row_to_baseline(self._window.popleft())
        oldest_minute = minute - WINDOW_MINUTES - BASELINE_MINUTES
        while self._baseline and self._baseline[0].minute <= oldest_minute:
            oldest_row = self._baseline.popleft()
            self._baseline_ends -= oldest_row.ends
            self._baseline_timeouts -= oldest_row.timeouts
            self._record_minute_change(oldest_row.minute, oldest_row, is_removed=True)
        self._window.append(EndMinute(minute))
        self._record_minute_change(minute, None)
        for incident in self.open_incidents:
            if incident.until // _MINUTE_SECONDS <= minute - WINDOW_MINUTES:
                self._save_incident(incident._replace(over_at=at, over_time=time))

    def _move_row_to_baseline(self, row: EndMinute) -> None:
        self._record_minute_change(row.minute, row)
        for key, (ends, timeouts) in row.ends_by_key.items():
            self._counts.add(key, -ends, -timeouts)
        row.ends_by_key = {}
        self._add_to_baseline(row)

    def _add_to_baseline(self, row: EndMinute) -> None:
        self._baseline.append(row)
        self._baseline_ends += row.ends
        self._baseline_timeouts += row.timeouts

    def _record_minute_change(
        self, minute: int, row: EndMinute | None, *, is_removed: bool = False
    ) -> None:
        """Record that a minute changes, and keep its old row.

        `row` is None if the minute is new.
        """
        pre_images = self.pre_images
        if pre_images is not None and minute not in pre_images.minutes:
            pre_images.minutes[minute] = None if row is None else _copy_minute(row)
        self.changes.minutes[minute] = None if is_removed else row or self._window[-1]

    def _check_creator_for_incident(self, creator: Address, at: Position, time: int) -> None:
        totals = self._counts.ends_by_creator[creator]
        if self._update_confirmed_incident(creator, totals):
            return
        if (
            2 * totals.timeouts >= totals.ends
            and 3 * totals.healthy_nodes >= 2 * totals.failed_nodes
            and self._is_unlikely_by_chance(totals.failed_nodes, totals)
        ):
            self._confirm_incident(creator, totals, at, time)

    def _check_network_for_incident(self, at: Position, time: int) -> None:
        totals = self._counts.all_ends
        if self._update_confirmed_incident(None, totals) or 4 * totals.failed_nodes < len(
            totals.end_counts_by_node
        ):
            return
        failed_nodes = self._counts.count_failed_outside_worst_creator()
        if (
            4 * failed_nodes >= len(totals.end_counts_by_node)
            and self._counts.count_failing_creators() >= _MIN_FAILED_NODES
            and self._is_unlikely_by_chance(failed_nodes, totals)
        ):
            self._confirm_incident(None, totals, at, time)

    def _is_unlikely_by_chance(self, failed_nodes: int, totals: EndTotals) -> bool:
        """Return whether so many failed nodes are too unlikely to be chance.

        Too unlikely means at most one in 10^9 windows. The bound is the number of ways to choose
        these nodes, times the probability that each of them times out on one of `max_ends` tasks.
        """
        missing_ends = max(0, _MIN_BASELINE_ENDS - self._baseline_ends)
        ends = self._baseline_ends + missing_ends
        timeouts = self._baseline_timeouts + missing_ends // _ASSUMED_TIMEOUTS
        chance_numerator = totals.max_ends * max(timeouts, ends // _MIN_BASELINE_ENDS)
        node_count = len(totals.end_counts_by_node)
        if (
            failed_nodes < _MIN_FAILED_NODES
            or node_count * chance_numerator >= failed_nodes * ends
        ):
            # The bound below would be at least 1, because comb(n, k) is at least (n / k)^k.
            return False
        probability_bound: int = (
            comb(node_count, failed_nodes) * chance_numerator**failed_nodes * _RARITY
        )
        probability_limit: int = ends**failed_nodes
        return probability_bound < probability_limit

    def _update_confirmed_incident(self, creator: Address | None, totals: EndTotals) -> bool:
        """Raise the figures of an incident that was already confirmed in this minute.

        Return False if there is no such incident; the caller then runs the statistical test.
        """
        open_incident = self._open_incident_by_creator.get(creator)
        minute = self._window[-1].minute
        if open_incident is None or open_incident.until // _MINUTE_SECONDS != minute:
            return False
        if totals.failed_nodes > open_incident.nodes or totals.timeouts > open_incident.timeouts:
            self._save_incident(_raise_incident_figures(open_incident, totals))
        return True

    def _confirm_incident(
        self, creator: Address | None, totals: EndTotals, at: Position, time: int
    ) -> None:
        """Open an incident, or extend the open incident to the end of this minute."""
        minute = self._window[-1].minute
        end_time = (minute + 1) * _MINUTE_SECONDS - 1
        open_incident = self._open_incident_by_creator.get(creator)
        if open_incident is None:
            self.incident_count += 1
            start_time = (minute + 1 - WINDOW_MINUTES) * _MINUTE_SECONDS
            open_incident = Incident(
                self.incident_count, creator, at, time, start_time, end_time, 0, 0
            )
        self._save_incident(
            _raise_incident_figures(open_incident, totals)._replace(until=end_time)
        )

    def _save_incident(self, incident: Incident) -> None:
        pre_images = self.pre_images
        if pre_images is not None:
            pre_images.incidents.setdefault(
                incident.number, self._open_incident_by_creator.get(incident.creator)
            )
        self.changes.incidents[incident.number] = incident
        if incident.over_at is None:
            self._open_incident_by_creator[incident.creator] = incident
        else:
            del self._open_incident_by_creator[incident.creator]


def _raise_incident_figures(incident: Incident, totals: EndTotals) -> Incident:
    return incident._replace(
        nodes=max(incident.nodes, totals.failed_nodes),
        timeouts=max(incident.timeouts, totals.timeouts),
    )
