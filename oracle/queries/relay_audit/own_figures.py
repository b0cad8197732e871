"""Derives scores from a relay's rows by the relay's rules, with the daemon's own reader and fold.

See docs/reference/crynux-relay.md#expected-figures.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.feed.relay_groups import MAX_ID_GAP, find_validation_groups, slice_rows_by_id
from oracle.chain.feed.relay_reader import (
    SEARCH_IDS,
    FeedSpan,
    RelayReader,
    collect_start_row_ids,
    collect_submitted_results,
    find_unreadable_reason,
)
from oracle.domain.events.network_events import (
    DomainEvent,
    GroupValidated,
    NodeJoined,
    NodeKickedOut,
    TaskTimedOut,
)
from oracle.domain.feed_rows import FeedRow
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_pool_mean,
    compute_reliability,
    is_excluded,
)
from oracle.domain.state import Membership, Node
from oracle.systems.crynux.crynux_rule_sets import RELAY

# All rows get the same block number, because only their order matters here.
_BLOCK = 1


@dataclass(slots=True)
class DerivedNode:
    """The figures derived for a node from feed rows.

    Every integer except `derived_count` is the id of a feed row. `derived_count` is the number of
    zero scores that were derived because the node was silent. `possible_zero_rows` are the rows of
    groups that may have given the node a 0. `unplaced_rows` are the node's rows that fit two
    groups, so they may have given it any score. `unknown_until` is the node's last row without a
    known time. `ambiguous_at` is the last row near which two groups could not be distinguished.
    `unknown_until` and `ambiguous_at` are 0 if there is no such row.
    """

    address: Address
    state: Node
    scores: list[ScoreEntry] = field(default_factory=list)
    changes: list[ReliabilityChange] = field(default_factory=list)
    due_intervals: list[KickoutDue] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    kicked_at: list[int] = field(default_factory=list)
    ended_at: list[int] = field(default_factory=list)
    possible_zero_rows: list[int] = field(default_factory=list)
    unplaced_rows: list[int] = field(default_factory=list)
    joined_at: int = 0
    unknown_until: int = 0
    ambiguous_at: int = 0
    derived_count: int = 0

    @property
    def is_member(self) -> bool:
        return self.state.membership is Membership.MEMBER

    @property
    def has_known_times(self) -> bool:
        """Whether the time of every row since the node joined is known."""
        return self.joined_at > self.unknown_until

    def compute_long_term_score(self) -> float:
        """Return the node's long-term score, Q_long / 10."""
        return compute_long_term_score(self.state, RELAY, 0) / UNIT

    def compute_long_term_score_bounds(self) -> tuple[float, float]:
        """Return the bounds of the long-term score (Q_long / 10) that the rows allow."""
        possible_zero_scores = [(row, RELAY.absent_score) for row in self.possible_zero_rows]
        min_score = min(RELAY.rank_scores)
        max_score = max(RELAY.rank_scores)
        possible_scores = [
            self._compute_score_with_extras([]),
            self._compute_score_with_extras(possible_zero_scores),
            self._compute_score_with_extras(
                [*possible_zero_scores, *((row, min_score) for row in self.unplaced_rows)]
            ),
            self._compute_score_with_extras([(row, max_score) for row in self.unplaced_rows]),
        ]
        return min(possible_scores), max(possible_scores)

    def _compute_score_with_extras(self, extra_scores: Sequence[tuple[int, int]]) -> float:
        """Return the long-term score (Q_long / 10) with additional scores.

        Each additional score is a pair of a row id and a score.
        """
        if not extra_scores:
            return self.compute_long_term_score()
        dated_scores = sorted(
            [*((entry.at.log, entry.score) for entry in self.scores), *extra_scores]
        )
        pool = bytes(score for _, score in dated_scores[-RELAY.pool_size :])
        return compute_pool_mean(pool, self.state.prior, RELAY) / UNIT

    def compute_reliability(self, time: float) -> float:
        """Return the node's reliability at `time`, in seconds of the relay's clock."""
        return compute_reliability(self.state, int(time), RELAY) / UNIT

    def is_excluded_at(self, time: float) -> bool:
        """Return whether the node is excluded at `time`, in seconds of the relay's clock."""
        return is_excluded(self.state, int(time), RELAY)

    def has_rows_between(self, after_id: int, last_id: int) -> bool:
        """Return whether the node has a row with an id in (`after_id`, `last_id`]."""
        return bisect_right(self.rows, after_id) < bisect_right(self.rows, last_id)


@dataclass(frozen=True, slots=True)
class DerivedFigures:
    """The figures derived for each node, and the rows that they were derived from.

    `nodeless_task_count` is the number of tasks that had started before the first row.
    """

    nodes: Mapping[Address, DerivedNode]
    row_count: int
    first_id: int
    last_id: int
    nodeless_task_count: int


def derive_figures_from_rows(
    rows: Sequence[FeedRow], time_by_row: Mapping[int, int]
) -> DerivedFigures:
    """Derive each node's figures by folding the feed's rows in the order of ids.

    `time_by_row` has the known times of rows, in seconds of the relay's clock.
    """
    timed_rows = list(_assign_row_times(rows, time_by_row))
    events, ambiguous_ids = _decode_rows(timed_rows)
    closed_groups = [event for event in events if isinstance(event, GroupValidated)]
    fold = Fold(RELAY)
    fold.fold_events(events)
    changes = fold.drain_changes()
    nodes = {address: DerivedNode(address, state) for address, state in fold.ledger.nodes.items()}
    derived_tasks = {task for event in closed_groups for task in event.derived or ()}
    for score in changes.scores:
        nodes[score.node].scores.append(score)
        nodes[score.node].derived_count += score.task in derived_tasks
    for change in changes.reliability:
        nodes[change.node].changes.append(change)
    for interval in changes.kickouts:
        nodes[interval.node].due_intervals.append(interval)
    node_by_task = {key: task.node for key, task in fold.ledger.tasks.items() if task.node}
    _assign_rows_to_nodes(nodes, timed_rows, node_by_task, time_by_row)
    _record_membership(nodes, events)
    _mark_ambiguous_nodes(nodes, ambiguous_ids)
    for event in closed_groups:
        for task in event.possible or ():
            nodes[node_by_task[task]].possible_zero_rows.append(event.at.log)
    ambiguous_rows = [row for row in rows if row.id in ambiguous_ids]
    timeouts = [
        event
        for event in events
        if isinstance(event, TaskTimedOut) and event.task not in derived_tasks
    ]
    _record_ambiguous_scores(nodes, ambiguous_rows, timeouts, node_by_task)
    nodeless_task_count = sum(task.node is None for task in fold.ledger.tasks.values())
    row_bounds = (rows[0].id, rows[-1].id) if rows else (0, 0)
    return DerivedFigures(nodes, len(rows), *row_bounds, nodeless_task_count)


def _assign_row_times(
    rows: Sequence[FeedRow], time_by_row: Mapping[int, int]
) -> Iterator[FeedRow]:
    """Give every row a block number and a time, so that times never decrease."""
    latest_time = 0
    for row in rows:
        latest_time = max(latest_time, time_by_row.get(row.id, latest_time))
        yield replace(row, time=latest_time, block=_BLOCK)


def _decode_rows(rows: Sequence[FeedRow]) -> tuple[list[DomainEvent], set[int]]:
    """Decode feed rows to events, and collect the ids of the rows that fit two groups."""
    score_by_task = collect_submitted_results(rows)
    start_ids = collect_start_row_ids(rows)
    # All rows are decoded as one span. The result is the same as with several spans, because the
    # decoder always looks at the rows around a row.
    feed_span = FeedSpan(rows, rows, score_by_task, start_ids)
    events = RelayReader().decode_span(feed_span) if rows else []
    readable_rows = [row for row in rows if find_unreadable_reason(row) is None]
    return events, {
        row.id for row in find_validation_groups(readable_rows, score_by_task).ambiguous
    }


def _assign_rows_to_nodes(
    nodes: Mapping[Address, DerivedNode],
    rows: Sequence[FeedRow],
    node_by_task: Mapping[TaskKey, Address],
    time_by_row: Mapping[int, int],
) -> None:
    """Record each row at its node, which is the node that runs the row's task."""
    for row in rows:
        running_node = node_by_task.get(TaskKey(row.task.lower()))
        node = nodes.get(running_node or Address(row.node.lower()))
        if node is None:
            continue
        node.rows.append(row.id)
        if row.kind.startswith("TaskEnd"):
            node.ended_at.append(row.id)
        if row.id not in time_by_row:
            node.unknown_until = row.id


def _record_membership(
    nodes: Mapping[Address, DerivedNode], events: Sequence[DomainEvent]
) -> None:
    for event in events:
        if isinstance(event, NodeJoined):
            nodes[event.node].joined_at = event.at.log
        elif isinstance(event, NodeKickedOut):
            nodes[event.node].kicked_at.append(event.at.log)


def _mark_ambiguous_nodes(
    nodes: Mapping[Address, DerivedNode], ambiguous_ids: Collection[int]
) -> None:
    """Mark the nodes with rows within `MAX_ID_GAP` ids of an ambiguous row.

    Near an ambiguous row, a group may have been left out.
    """
    for node in nodes.values():
        for row_id in ambiguous_ids:
            if node.has_rows_between(row_id - MAX_ID_GAP - 1, row_id + MAX_ID_GAP):
                node.ambiguous_at = max(node.ambiguous_at, row_id)


def _record_ambiguous_scores(
    nodes: Mapping[Address, DerivedNode],
    unplaced_rows: Sequence[FeedRow],
    timeouts: Iterable[TaskTimedOut],
    node_by_task: Mapping[TaskKey, Address],
) -> None:
    """Record scores that may be missing because two groups are indistinguishable.

    `unplaced_rows` are the rows that fit two groups. `timeouts` are the timeouts for which no zero
    score was derived.
    """
    for row in unplaced_rows:
        if (running_node := node_by_task.get(TaskKey(row.task.lower()))) is not None:
            nodes[running_node].unplaced_rows.append(row.id)
    for event in timeouts:
        later_rows = slice_rows_by_id(unplaced_rows, event.at.log, event.at.log + SEARCH_IDS)
        if later_rows and (running_node := node_by_task.get(event.task)) is not None:
            nodes[running_node].possible_zero_rows.append(later_rows[0].id)


def group_scores(nodes: Mapping[Address, DerivedNode]) -> dict[int, list[ScoreEntry]]:
    """Group the nodes' scores by task group, identified by the id of its first row."""
    scores_by_group: dict[int, list[ScoreEntry]] = defaultdict(list)
    for node in nodes.values():
        for score in node.scores:
            scores_by_group[score.at.log].append(score)
    return scores_by_group
