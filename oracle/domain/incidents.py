"""Finds incidents by counting task ends with integers while events are applied.

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
CreatorAndNode = tuple[Address | None, Address]
_MINUTE_SECONDS = 60
# The length of the tested window, and of the preceding period that gives the usual timeout rate.
WINDOW_MINUTES = 15
BASELINE_MINUTES = 24 * 60
# The usual timeout rate is computed from at least `_MIN_BASELINE_TASKS` ended tasks, and is at
# least one timeout in that many. If fewer tasks ended in a day, one timeout is assumed for each
# `_TASKS_PER_ASSUMED_TIMEOUT` missing tasks, so that many failures in a young network are not
# mistaken for an incident.
_MIN_BASELINE_TASKS = 500
_TASKS_PER_ASSUMED_TIMEOUT = 10
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
        """Return whether the incident marks a timeout of a creator's task at a block time.

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
    matching_incidents = (
        incident for incident in incidents if incident.marks(time, creator, known_at)
    )
    return next(matching_incidents, None)


class TaskEndCounts:
    """The number of task ends for one creator, or for all creators together.

    `counts_by_node` maps a node to the numbers of its ends and timeouts. `failed_node_count` is
    the number of nodes with a timeout. `healthy_node_count` is the number of those that answered a
    task of another creator; it is not counted for all creators together.
    """

    __slots__ = (
        "_max_tasks_per_node",
        "counts_by_node",
        "ends",
        "failed_node_count",
        "healthy_node_count",
        "timeouts",
    )

    def __init__(self) -> None:
        self.ends = self.timeouts = self.failed_node_count = self.healthy_node_count = 0
        self.counts_by_node: dict[Address, list[int]] = {}
        # None if the maximum must be recomputed, because a task of the node with the maximum has
        # left the window.
        self._max_tasks_per_node: int | None = 0

    @property
    def max_tasks_per_node(self) -> int:
        """The largest number of task ends of any node."""
        if self._max_tasks_per_node is None:
            self._max_tasks_per_node = max(
                (ends for ends, _ in self.counts_by_node.values()), default=0
            )
        return self._max_tasks_per_node

    def add(self, node: Address, ends: int, timeouts: int) -> None:
        """Add ended tasks of a node.

        Negative numbers remove ended tasks.
        """
        node_counts = self.counts_by_node.get(node)
        if node_counts is None:
            node_counts = self.counts_by_node[node] = [0, 0]
        task_count_before, timeout_count_before = node_counts
        task_count_after = task_count_before + ends
        timeout_count_after = timeout_count_before + timeouts
        self.ends += ends
        if task_count_after:
            node_counts[0], node_counts[1] = task_count_after, timeout_count_after
        else:
            del self.counts_by_node[node]
        if timeouts:
            self.timeouts += timeouts
            self.failed_node_count += (timeout_count_after > 0) - (timeout_count_before > 0)
        if self._max_tasks_per_node is not None:
            if task_count_after > self._max_tasks_per_node:
                self._max_tasks_per_node = task_count_after
            elif ends < 0 and task_count_before == self._max_tasks_per_node:
                self._max_tasks_per_node = None

    def has_answered(self, node: Address) -> bool:
        """Return whether the node answered any of the tasks."""
        node_counts = self.counts_by_node.get(node)
        return node_counts is not None and node_counts[0] > node_counts[1]


class TaskEndWindow:
    """The task ends in a time window, by creator and in total."""

    def __init__(self) -> None:
        self.total_counts = TaskEndCounts()
        self.counts_by_creator: dict[Address | None, TaskEndCounts] = {}
        # For each node, the creators with a timeout there, and the number of creators with an
        # answer.
        self._failed_creators_by_node: dict[Address, set[Address | None]] = {}
        self._answered_creator_count_by_node: dict[Address, int] = {}

    def add(self, key: CreatorAndNode, ends: int, timeouts: int) -> None:
        """Add task ends of a node to the window.

        Negative numbers remove task ends.
        """
        creator, node = key
        failed_creators = self._failed_creators_by_node.get(node)
        if failed_creators is not None:
            self._adjust_healthy_node_counts(node, failed_creators, -1)
        creator_counts = self.counts_by_creator.get(creator)
        if creator_counts is None:
            creator_counts = self.counts_by_creator[creator] = TaskEndCounts()
        had_answered = creator_counts.has_answered(node)
        creator_counts.add(node, ends, timeouts)
        self.total_counts.add(node, ends, timeouts)
        has_answered = creator_counts.has_answered(node)
        if has_answered is not had_answered:
            answered_count = self._answered_creator_count_by_node.get(node, 0) + (
                1 if has_answered else -1
            )
            self._answered_creator_count_by_node[node] = answered_count
            if not answered_count:
                del self._answered_creator_count_by_node[node]
        if timeouts:
            self._update_failed_creators(creator, node, creator_counts)
        failed_creators = self._failed_creators_by_node.get(node)
        if failed_creators is not None:
            self._adjust_healthy_node_counts(node, failed_creators, 1)
        if not creator_counts.ends:
            del self.counts_by_creator[creator]

    def _update_failed_creators(
        self, creator: Address | None, node: Address, creator_counts: TaskEndCounts
    ) -> None:
        failed_creators = self._failed_creators_by_node.setdefault(node, set())
        node_counts = creator_counts.counts_by_node.get(node)
        if node_counts is not None and node_counts[1]:
            failed_creators.add(creator)
        else:
            failed_creators.discard(creator)
        if not failed_creators:
            del self._failed_creators_by_node[node]

    def _adjust_healthy_node_counts(
        self, node: Address, failed_creators: set[Address | None], step: int
    ) -> None:
        """Add `step` to `healthy_node_count` of the creators for whom the node is healthy.

        A node counts as healthy for a creator if the node answered a task of another creator.
        """
        answered_count = self._answered_creator_count_by_node.get(node, 0)
        for creator in failed_creators:
            creator_counts = self.counts_by_creator[creator]
            if answered_count > creator_counts.has_answered(node):
                creator_counts.healthy_node_count += step

    def count_failed_outside_worst_creator(self) -> int:
        """Count the nodes with a timeout in a task of any creator but the worst.

        The worst creator is the creator with the most timeouts.
        """
        worst_creator = max(
            self.counts_by_creator,
            key=lambda key: (self.counts_by_creator[key].timeouts, key or ""),
        )
        counts_by_node = self.total_counts.counts_by_node
        worst_creator_only_count = sum(
            0 < timeouts == counts_by_node[node][1]
            for node, (_, timeouts) in self.counts_by_creator[worst_creator].counts_by_node.items()
        )
        return self.total_counts.failed_node_count - worst_creator_only_count

    def count_failing_creators(self) -> int:
        """Count the creators with at least one timeout."""
        return sum(
            creator_counts.timeouts > 0 for creator_counts in self.counts_by_creator.values()
        )


@dataclass(slots=True)
class EndMinute:
    """The task ends in one minute of block time.

    The minute begins at `minute` times 60 seconds. `ends_by_key` has the ends and timeouts of each
    creator and node; it is empty after the minute has left the window.
    """

    minute: int
    ends: int = 0
    timeouts: int = 0
    ends_by_key: dict[CreatorAndNode, tuple[int, int]] = field(default_factory=dict)


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
        """Create a detector that continues from stored rows.

        `minutes` are in ascending order, and `open_incidents` are all open incidents.
        `incident_count` is the number of all incidents so far.
        """
        self.changes = IncidentRows()
        self.pre_images: IncidentRows | None = None
        self.incident_count = incident_count
        self._open_incident_by_creator = {
            incident.creator: incident for incident in open_incidents
        }
        self._counts = TaskEndWindow()
        # The minutes of the window and of the day before it, oldest first.
        self._window = deque[EndMinute]()
        self._baseline = deque[EndMinute]()
        self._baseline_task_count = self._baseline_timeout_count = 0
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

    def record_end(
        self, at: Position, time: int, key: CreatorAndNode, *, is_timeout: bool
    ) -> None:
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
        """Begin a new minute, and drop outdated minutes.

        Older minutes leave the window or the baseline day, and old incidents end.
        """
        while self._window and self._window[0].minute <= minute - WINDOW_MINUTES:
            self._move_row_to_baseline(self._window.popleft())
        oldest_minute = minute - WINDOW_MINUTES - BASELINE_MINUTES
        while self._baseline and self._baseline[0].minute <= oldest_minute:
            oldest_row = self._baseline.popleft()
            self._baseline_task_count -= oldest_row.ends
            self._baseline_timeout_count -= oldest_row.timeouts
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
        self._baseline_task_count += row.ends
        self._baseline_timeout_count += row.timeouts

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
        creator_counts = self._counts.counts_by_creator[creator]
        if self._update_confirmed_incident(creator, creator_counts):
            return
        if (
            2 * creator_counts.timeouts >= creator_counts.ends
            and 3 * creator_counts.healthy_node_count >= 2 * creator_counts.failed_node_count
            and self._is_unlikely_by_chance(creator_counts.failed_node_count, creator_counts)
        ):
            self._confirm_incident(creator, creator_counts, at, time)

    def _check_network_for_incident(self, at: Position, time: int) -> None:
        network_counts = self._counts.total_counts
        if self._update_confirmed_incident(
            None, network_counts
        ) or 4 * network_counts.failed_node_count < len(network_counts.counts_by_node):
            return
        failed_node_count = self._counts.count_failed_outside_worst_creator()
        if (
            4 * failed_node_count >= len(network_counts.counts_by_node)
            and self._counts.count_failing_creators() >= _MIN_FAILED_NODES
            and self._is_unlikely_by_chance(failed_node_count, network_counts)
        ):
            self._confirm_incident(None, network_counts, at, time)

    def _is_unlikely_by_chance(self, failed_node_count: int, task_counts: TaskEndCounts) -> bool:
        """Return whether so many failed nodes are too unlikely to be chance.

        Too unlikely means at most one in 10^9 windows. The bound is the number of ways to choose
        these nodes, times the probability that each of them times out on one of
        `max_tasks_per_node` tasks.
        """
        missing_task_count = max(0, _MIN_BASELINE_TASKS - self._baseline_task_count)
        baseline_task_count = self._baseline_task_count + missing_task_count
        baseline_timeout_count = (
            self._baseline_timeout_count + missing_task_count // _TASKS_PER_ASSUMED_TIMEOUT
        )
        chance_numerator = task_counts.max_tasks_per_node * max(
            baseline_timeout_count, baseline_task_count // _MIN_BASELINE_TASKS
        )
        node_count = len(task_counts.counts_by_node)
        if (
            failed_node_count < _MIN_FAILED_NODES
            or node_count * chance_numerator >= failed_node_count * baseline_task_count
        ):
            # The bound below would be at least 1, because comb(n, k) is at least (n / k)^k.
            return False
        probability_bound: int = (
            comb(node_count, failed_node_count) * chance_numerator**failed_node_count * _RARITY
        )
        probability_limit: int = baseline_task_count**failed_node_count
        return probability_bound < probability_limit

    def _update_confirmed_incident(
        self, creator: Address | None, task_counts: TaskEndCounts
    ) -> bool:
        """Raise the figures of an incident that was already confirmed in this minute.

        Return False if there is no such incident; the caller then runs the statistical test.
        """
        open_incident = self._open_incident_by_creator.get(creator)
        minute = self._window[-1].minute
        if open_incident is None or open_incident.until // _MINUTE_SECONDS != minute:
            return False
        if (
            task_counts.failed_node_count > open_incident.nodes
            or task_counts.timeouts > open_incident.timeouts
        ):
            self._save_incident(_raise_incident_counts(open_incident, task_counts))
        return True

    def _confirm_incident(
        self, creator: Address | None, task_counts: TaskEndCounts, at: Position, time: int
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
            _raise_incident_counts(open_incident, task_counts)._replace(until=end_time)
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


def _raise_incident_counts(incident: Incident, task_counts: TaskEndCounts) -> Incident:
    return incident._replace(
        nodes=max(incident.nodes, task_counts.failed_node_count),
        timeouts=max(incident.timeouts, task_counts.timeouts),
    )
