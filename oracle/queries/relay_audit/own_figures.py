"""What follows from a relay's rows by its own rules: the product's reader and the product's fold.

See docs/explanation/relay-audit.md#our-side.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from oracle.chain.feed.relay_groups import NEAR, groups_in
from oracle.chain.feed.relay_reader import (
    AROUND,
    FeedSpan,
    RelayReader,
    score_in,
    why_unreadable,
)
from oracle.domain.events.network_events import DomainEvent, NodeJoined, NodeKickedOut
from oracle.domain.feed_rows import FeedRow
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.fold.working_set import KickoutDue, ReliabilityChange, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.node_scores import is_excluded, long_term, reliability_at
from oracle.domain.state.node import Membership, Node
from oracle.queries.relay_audit.silent_members import Completed, completed
from oracle.systems.crynux.crynux_rule_sets import RELAY

_AT_ONCE = 500
# All rows stand in one block: only their order counts here.
_BLOCK = 1


@dataclass(slots=True)
class OwnNode:
    """What we know of one node. Ids are of rows; `assumed` counts zeros of silent members.

    `unknown_until`: the last of its rows whose time nobody knows, `doubted_at`: the last one
    beside which a group could not be told from another; 0 where there is none.
    """

    address: Address
    state: Node
    scores: list[ScoreEntry] = field(default_factory=list)
    changes: list[ReliabilityChange] = field(default_factory=list)
    due: list[KickoutDue] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    kicked_at: list[int] = field(default_factory=list)
    ended_at: list[int] = field(default_factory=list)
    joined_at: int = 0
    unknown_until: int = 0
    doubted_at: int = 0
    assumed: int = 0

    @property
    def is_member(self) -> bool:
        return self.state.membership is Membership.MEMBER

    @property
    def has_known_times(self) -> bool:
        """Whether everything since it joined came while somebody looked at a clock."""
        return self.joined_at > self.unknown_until

    def long_term(self) -> float:
        """Return Q_long / 10."""
        return long_term(self.state, RELAY, 0) / UNIT

    def health_at(self, time: float) -> float:
        """Return H at the relay's second."""
        return reliability_at(self.state, int(time), RELAY) / UNIT

    def is_excluded_at(self, time: float) -> bool:
        """Tell whether it is to get no task."""
        return is_excluded(self.state, int(time), RELAY)

    def has_rows_in(self, above: int, until: int) -> bool:
        """Tell whether anything was said of it between two ids, the second included."""
        return bisect_right(self.rows, above) < bisect_right(self.rows, until)


@dataclass(frozen=True, slots=True)
class OwnFigures:
    """All nodes, and the stream they come from: rows and the ids of its first and last."""

    nodes: Mapping[Address, OwnNode]
    rows: int
    first_id: int
    last_id: int
    headless: int


def own_figures(
    rows: Sequence[FeedRow], times: Mapping[int, int], *, guesses: bool = True
) -> OwnFigures:
    """Fold a stream's rows, in order of id; `times` are the relay's seconds, where known.

    `guesses` False: groups are what the rows say, as the daemon folds them.
    """
    timed = list(_timed(rows, times))
    read = _read(timed)
    whole = completed(read.events, read.ambiguous) if guesses else Completed(read.events)
    fold = Fold(RELAY)
    fold.many(whole.events)
    changes = fold.drain()
    nodes = {address: OwnNode(address, state) for address, state in fold.ledger.nodes.items()}
    for score in changes.scores:
        nodes[score.node].scores.append(score)
        nodes[score.node].assumed += score.task in whole.assumed
    for change in changes.reliability:
        nodes[change.node].changes.append(change)
    for interval in changes.kickouts:
        nodes[interval.node].due.append(interval)
    runners = {key: task.node for key, task in fold.ledger.tasks.items() if task.node}
    _note_rows(nodes, timed, runners, times)
    _note_membership(nodes, whole.events)
    _note_doubts(nodes, read.ambiguous)
    for task, row in whole.contested.items():
        doubted = nodes[runners[task]]
        doubted.doubted_at = max(doubted.doubted_at, row)
    headless = sum(task.node is None for task in fold.ledger.tasks.values())
    ends = (rows[0].id, rows[-1].id) if rows else (0, 0)
    return OwnFigures(nodes, len(rows), *ends, headless)


def _timed(rows: Sequence[FeedRow], times: Mapping[int, int]) -> Iterator[FeedRow]:
    """Give every row a time that never falls, and a place."""
    latest = 0
    for row in rows:
        latest = max(latest, times.get(row.id, latest))
        yield replace(row, time=latest, block=_BLOCK)


@dataclass(slots=True)
class _Read:
    """What rows say, and the ids of those that could be of two groups."""

    events: list[DomainEvent] = field(default_factory=list)
    ambiguous: set[int] = field(default_factory=set)


def _read(rows: Sequence[FeedRow]) -> _Read:
    reader, read = RelayReader(), _Read()
    scores = {row.task: score for row in rows if (score := score_in(row)) is not None}
    identity = attrgetter("id")
    for first in range(0, len(rows), _AT_ONCE):
        part = rows[first : first + _AT_ONCE]
        low = bisect_left(rows, part[0].id - AROUND, key=identity)
        high = bisect_right(rows, part[-1].id + AROUND, key=identity)
        around = rows[low:high]
        read.events += reader.read(FeedSpan(part, around, scores))
        readable = [row for row in around if why_unreadable(row) is None]
        read.ambiguous |= {row.id for row in groups_in(readable, scores).ambiguous}
    return read


def _note_rows(
    nodes: Mapping[Address, OwnNode],
    rows: Sequence[FeedRow],
    runners: Mapping[TaskKey, Address],
    times: Mapping[int, int],
) -> None:
    """Note which rows are about whom: a task's by who runs it, whoever is named."""
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
    """A group that was left out is within `NEAR` ids of the rows that it was left out for."""
    for node in nodes.values():
        for number in ambiguous:
            if node.has_rows_in(number - NEAR - 1, number + NEAR):
                node.doubted_at = max(node.doubted_at, number)


def by_group(nodes: Mapping[Address, OwnNode]) -> dict[int, list[ScoreEntry]]:
    """Return the scores that one group gave, by the id of its first row."""
    found: dict[int, list[ScoreEntry]] = defaultdict(list)
    for node in nodes.values():
        for score in node.scores:
            found[score.at.log].append(score)
    return found
