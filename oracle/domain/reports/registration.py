"""Chooses the nodes that a round registers and their indexes, identically for every reporter.

A node has no index until its lane first differs from "unknown". The round that first reports the
lane registers the node (docs/explanation/reports.md#registration).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import IndexReuse, Registrations
from oracle.domain.fold.working_set import FALL_CAUSES, Changes
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import DO_NOT_SELECT, LANES_PER_WORD
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.node_scores import is_excluded
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node

# Number of consecutive accepted rounds with a closed lane before its index is reused.
CLOSED_ROUNDS = 2


class Newcomer(NamedTuple):
    """A node that waits for an index; newcomers are sorted by their fields.

    `at` is the position of the event that first made the node reportable. `place` is the index of
    the node's task in a group that scored several nodes at that position.
    """

    at: Position
    member_index: int
    node: Address


def is_reportable(node: Node, time: int, rules: Rules, min_scores: int) -> bool:
    """Return whether the lane of a node differs from "unknown" at `time`.

    A member is reportable if it has `min_scores` scores, or if it is excluded, so that consumers
    learn of an exclusion at once. Other nodes are not registered, because an index costs the
    transmitter gas.
    """
    if node.membership is not Membership.MEMBER:
        return False
    return node.scored >= min_scores or is_excluded(node, time, rules)


class FirstEvents:
    """The event that first made each node reportable, collected while events are folded."""

    def __init__(self, min_scores: int) -> None:
        self._min_scores = min_scores
        self._scored: dict[Address, tuple[Position, int]] = {}
        self._penalized: dict[Address, Position] = {}

    def dump_rows(
        self,
    ) -> tuple[list[tuple[Address, Position, int]], list[tuple[Address, Position]]]:
        """Return all collected events as two lists: events by scores, and penalties."""
        scored = [(node, at, place) for node, (at, place) in self._scored.items()]
        return scored, list(self._penalized.items())

    def restore(
        self,
        scored: Iterable[tuple[Address, Position, int]],
        penalized: Iterable[tuple[Address, Position]],
    ) -> None:
        """Restore the state that `dump_rows` returned."""
        self._scored = {node: (at, place) for node, at, place in scored}
        self._penalized = dict(penalized)

    def record_changes(self, changes: Changes) -> None:
        """Record the changes folded since the last call, in order."""
        place_by_task = {
            (result.closed_at, member.task): place
            for result in changes.results
            for place, member in enumerate(result.members)
        }
        for score in changes.scores:
            if score.seq == self._min_scores:
                self._scored[score.node] = score.at, place_by_task.get((score.at, score.task), 0)
        for change in changes.reliability:
            if change.cause in FALL_CAUSES:
                self._penalized.setdefault(change.node, change.at)

    def find_newcomer(self, node: Address) -> Newcomer | None:
        """Return the node as a newcomer by its score or first penalty, or None if it has neither.

        A penalty, such as that of a timeout, counts because it may exclude the node.
        """
        scored = self._scored.get(node)
        if scored is not None:
            return Newcomer(*scored, node)
        penalized = self._penalized.get(node)
        return None if penalized is None else Newcomer(penalized, 0, node)


def find_reusable_indexes(
    rounds: Rounds, time: int, filter_members: Callable[[Sequence[Address]], set[Address]]
) -> list[int]:
    """Return the indexes that may be reused, ascending.

    An index may be reused if at least `CLOSED_ROUNDS` accepted rounds closed its lane, its holder
    is not a member, and no kickout of the holder can still be executed.

    Args:
        rounds: the contract's state at the as-of block.
        time: the time of that block.
        filter_members: returns which of the given nodes are members at that block.
    """
    closed_entries = [
        entry
        for entry in rounds.indexes.values()
        if entry.closed_in is not None
        and rounds.head.round - entry.closed_in + 1 >= CLOSED_ROUNDS
        and rounds.get_lane(entry.index) == DO_NOT_SELECT
        and not _has_pending_kickout(rounds, entry.node, time)
    ]
    current_members = filter_members([entry.node for entry in closed_entries])
    return sorted(entry.index for entry in closed_entries if entry.node not in current_members)


def _has_pending_kickout(rounds: Rounds, node: Address, time: int) -> bool:
    kick = rounds.get_live_kick(node)
    return kick is not None and time <= kick.dies_at


def choose_registrations(
    rounds: Rounds, newcomers: Iterable[Newcomer], free_indexes: Sequence[int], max_words: int
) -> Registrations:
    """Assign indexes to the first newcomers: the free indexes in order, then new ones.

    Newcomers beyond the contract's limit for one round wait for the next round, which starts from
    the accepted state. Newcomers whose lanes do not fit into `max_words` words wait as well,
    because the contract rejects a round that registers a node without its lane.
    """
    max_count = max(
        0, min(rounds.limits.max_new_nodes, INDEX_SPACE - rounds.node_count + len(free_indexes))
    )
    max_count = min(
        max_count, _count_indexes_within_words(free_indexes, rounds.node_count, max_words)
    )
    new_nodes = [newcomer.node for newcomer in sorted(newcomers)[:max_count]]
    reused = tuple(
        IndexReuse(node, rounds.indexes[index].node)
        for node, index in zip(new_nodes, free_indexes, strict=False)
    )
    return Registrations(reused, tuple(new_nodes[len(reused) :]))


def _count_indexes_within_words(
    free_indexes: Sequence[int], node_count: int, max_words: int
) -> int:
    """Return how many indexes fit into `max_words` words: the free ones, then new ones."""
    word_indexes: set[int] = set()
    for place, index in enumerate(free_indexes):
        word_indexes.add(index // LANES_PER_WORD)
        if len(word_indexes) > max_words:
            return place
    # New indexes fill the partial word first, and whole words after it.
    partial_word = node_count // LANES_PER_WORD
    remaining_words = max_words - len(word_indexes) + (partial_word in word_indexes)
    return len(free_indexes) + max(
        0, (partial_word + remaining_words) * LANES_PER_WORD - node_count
    )


# A word's number has 3 bytes, and the contract counts nodes in 3 bytes.
INDEX_SPACE = (1 << 24) - 1
