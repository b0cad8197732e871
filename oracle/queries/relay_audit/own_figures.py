"""Figures derived from a relay's rows by its own rules, using the product's reader and fold.

See docs/reference/crynux-relay.md#expected-figures.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oracle.chain.feed.relay_groups import NEAR, groups_in, rows_between
from oracle.chain.feed.relay_reader import (
    REACH,
    FeedSpan,
    RelayReader,
    scores_in,
    starts_in,
    why_unreadable,
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
from oracle.domain.scoring.node_scores import is_excluded, long_term, reliability_at
from oracle.domain.scoring.score_window import mean_of
from oracle.domain.state.node import Membership, Node
from oracle.systems.crynux.crynux_rule_sets import RELAY

# All rows are put in one block, because only their order matters here.
_BLOCK = 1


@dataclass(slots=True)
class OwnNode:
    """The derived data of one node; all ids are of rows.

    `derived_count` counts zeros of silent members. `possible_zero_rows`: rows of groups that may
    have given the node a 0. `unplaced_rows`: its own rows that fit two groups, and so may have
    given it any score. `unknown_until`: the last of its rows without a known time; `ambiguous_at`:
    the last row near which two groups could not be told apart; 0 if there is none.
    """

    address: Address
    state: Node
    scores: list[ScoreEntry] = field(default_factory=list)
    changes: list[ReliabilityChange] = field(default_factory=list)
    due: list[KickoutDue] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    kicked_at: list[int] = field(default_factory=list)
    ended_at: list[int] = field(default_factory=list)
    possible: list[int] = field(default_factory=list)
    unplaced: list[int] = field(default_factory=list)
    joined_at: int = 0
    unknown_until: int = 0
    doubted_at: int = 0
    derived: int = 0

    @property
    def is_member(self) -> bool:
        return self.state.membership is Membership.MEMBER

    @property
    def has_known_times(self) -> bool:
        """Return whether the time of every row since the node joined was observed."""
        return self.joined_at > self.unknown_until

    def long_term(self) -> float:
        """Return Q_long / 10."""
        return long_term(self.state, RELAY, 0) / UNIT

    def long_term_bounds(self) -> tuple[float, float]:
        """Return the bounds of Q_long / 10 over all scores that the rows leave open."""
        zeros = [(row, RELAY.absent_score) for row in self.possible]
        worst, best = min(RELAY.rank_scores), max(RELAY.rank_scores)
        tried = [
            self._long_term_with([]),
            self._long_term_with(zeros),
            self._long_term_with([*zeros, *((row, worst) for row in self.unplaced)]),
            self._long_term_with([(row, best) for row in self.unplaced]),
        ]
        return min(tried), max(tried)

    def _long_term_with(self, more: Sequence[tuple[int, int]]) -> float:
        """Return Q_long / 10 with extra scores, each with the id of its row."""
        if not more:
            return self.long_term()
        given = sorted([*((entry.at.log, entry.score) for entry in self.scores), *more])
        pool = bytes(score for _, score in given[-RELAY.pool_size :])
        return mean_of(pool, self.state.prior, RELAY) / UNIT

    def health_at(self, time: float) -> float:
        """Return H at a second of the relay's clock."""
        return reliability_at(self.state, int(time), RELAY) / UNIT

    def is_excluded_at(self, time: float) -> bool:
        """Return whether the node is excluded from tasks at a second of the relay's clock."""
        return is_excluded(self.state, int(time), RELAY)

    def has_rows_in(self, above: int, until: int) -> bool:
        """Return whether a row with an id above `after_id`, up to `last_id`, is about the node."""
        return bisect_right(self.rows, above) < bisect_right(self.rows, until)


@dataclass(frozen=True, slots=True)
class OwnFigures:
    """All nodes, and the row count and first and last row ids of their stream."""

    nodes: Mapping[Address, OwnNode]
    rows: int
    first_id: int
    last_id: int
    headless: int


def compute_figures_from_rows(rows: Sequence[FeedRow], times: Mapping[int, int]) -> OwnFigures:
    """Fold a stream's rows as the daemon does, in order of id.

    `time_by_row`: the relay's seconds of rows, where known.
    """
    timed = list(_timed(rows, times))
    read = _read(timed)
    fold = Fold(RELAY)
    fold.many(read.events)
    changes = fold.drain()
    nodes = {address: OwnNode(address, state) for address, state in fold.ledger.nodes.items()}
    derived = {task for event in read.closed for task in event.derived or ()}
    for score in changes.scores:
        nodes[score.node].scores.append(score)
        nodes[score.node].derived += score.task in derived
    for change in changes.reliability:
        nodes[change.node].changes.append(change)
    for interval in changes.kickouts:
        nodes[interval.node].due.append(interval)
    runners = {key: task.node for key, task in fold.ledger.tasks.items() if task.node}
    _note_rows(nodes, timed, runners, times)
    _note_membership(nodes, read.events)
    _note_doubts(nodes, read.ambiguous)
    for event in read.closed:
        for task in event.possible or ():
            nodes[runners[task]].possible.append(event.at.log)
    _note_unplaced(nodes, rows, read, runners)
    headless = sum(task.node is None for task in fold.ledger.tasks.values())
    ends = (rows[0].id, rows[-1].id) if rows else (0, 0)
    return OwnFigures(nodes, len(rows), *ends, headless)


def _timed(rows: Sequence[FeedRow], times: Mapping[int, int]) -> Iterator[FeedRow]:
    """Yield every row with a non-decreasing time, and a position."""
    latest = 0
    for row in rows:
        latest = max(latest, times.get(row.id, latest))
        yield replace(row, time=latest, block=_BLOCK)


@dataclass(slots=True)
class _Read:
    """The events of rows, and the ids of rows that fit two groups."""

    events: list[DomainEvent] = field(default_factory=list)
    ambiguous: set[int] = field(default_factory=set)

    @property
    def closed(self) -> Iterator[GroupValidated]:
        return (event for event in self.events if isinstance(event, GroupValidated))


def _read(rows: Sequence[FeedRow]) -> _Read:
    reader, read = RelayReader(), _Read()
    scores, starts = scores_in(rows), starts_in(rows)
    # All rows at once: how a row is decoded depends on the rows around it, but not on the span.
    read.events = reader.read(FeedSpan(rows, rows, scores, starts)) if rows else []
    readable = [row for row in rows if why_unreadable(row) is None]
    read.ambiguous = {row.id for row in groups_in(readable, scores).ambiguous}
    return read


def _note_rows(
    nodes: Mapping[Address, OwnNode],
    rows: Sequence[FeedRow],
    runners: Mapping[TaskKey, Address],
    times: Mapping[int, int],
) -> None:
    """Assign each row to its node; a task's rows belong to the node that runs it."""
    for row in rows:
        runner = runners.get(TaskKey(row.task.lower()))
        node = nodes.get(runner or Address(row.node.lower()))
        if node is None:
            continue
        node.rows.append(row.id)
        if row.kind.startswith("TaskEnd"):
            node.ended_at.append(row.id)
        if row.id not in times:
            node.unknown_until = row.id


def _note_membership(nodes: Mapping[Address, OwnNode], events: Sequence[DomainEvent]) -> None:
    for event in events:
        if isinstance(event, NodeJoined):
            nodes[event.node].joined_at = event.at.log
        elif isinstance(event, NodeKickedOut):
            nodes[event.node].kicked_at.append(event.at.log)


def _note_doubts(nodes: Mapping[Address, OwnNode], ambiguous: Collection[int]) -> None:
    """Mark the nodes within `NEAR` ids of ambiguous rows, where a group was left out."""
    for node in nodes.values():
        for number in ambiguous:
            if node.has_rows_in(number - NEAR - 1, number + NEAR):
                node.doubted_at = max(node.doubted_at, number)


def _note_unplaced(
    nodes: Mapping[Address, OwnNode],
    rows: Sequence[FeedRow],
    read: _Read,
    runners: Mapping[TaskKey, Address],
) -> None:
    """Record the scores that may be missing because two groups could not be told apart."""
    derived = {task for event in read.closed for task in event.derived or ()}
    unplaced = [row for row in rows if row.id in read.ambiguous]
    for row in unplaced:
        if (runner := runners.get(TaskKey(row.task.lower()))) is not None:
            nodes[runner].unplaced.append(row.id)
    for event in read.events:
        if not isinstance(event, TaskTimedOut) or event.task in derived:
            continue
        later = rows_between(unplaced, event.at.log, event.at.log + REACH)
        if later and (runner := runners.get(event.task)) is not None:
            nodes[runner].possible.append(later[0].id)


def by_group(nodes: Mapping[Address, OwnNode]) -> dict[int, list[ScoreEntry]]:
    """Return the scores of each group, by the id of its first row."""
    found: dict[int, list[ScoreEntry]] = defaultdict(list)
    for node in nodes.values():
        for score in node.scores:
            found[score.at.log].append(score)
    return found
