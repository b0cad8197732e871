"""Reviews due kickouts, from the database or from a state that was folded in memory.

Both ways give the same review, because it depends only on what was known when the kickout became
due. See docs/explanation/kickouts.md#held-for-a-person.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from oracle.domain.blocks import BEFORE_EVERYTHING, BlockRange, Position
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.reports.kickout_review import (
    CountedScore,
    KickoutPolicy,
    KickoutReview,
    compute_evidence_range,
    find_creators,
    find_first_block,
    get_counted_limit,
    review_kickout,
    select_counted_entries,
)
from oracle.domain.reports.target_words import ScoringContext, build_scoring_context
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupResult, Node
from oracle.indexer.folded_state import FoldedState
from oracle.store.database import UnitOfWork


@dataclass(slots=True)
class KickoutReviewCache:
    """The reviews of open intervals, so that each interval is reviewed once.

    Clear the cache after a rewind or a refold, which may change what the reviews depend on.
    """

    policy: KickoutPolicy
    _reviews: dict[Address, tuple[Position, KickoutReview]] = field(default_factory=dict)

    def get_or_load(self, uow: UnitOfWork, node: Node) -> KickoutReview:
        """Return the review of a node whose kickout is due as of the database's state."""
        opened_at = _get_opening(node)
        cached = self._reviews.get(node.address)
        if cached is not None and cached[0] == opened_at:
            return cached[1]
        review = load_kickout_review(uow, node, self.policy)
        self._reviews[node.address] = opened_at, review
        return review

    def discard(self, node: Address) -> None:
        """Discard the review of a node whose kickout is no longer due."""
        self._reviews.pop(node, None)

    def clear(self) -> None:
        self._reviews.clear()


def load_kickout_review(uow: UnitOfWork, node: Node, policy: KickoutPolicy) -> KickoutReview:
    """Review the kickout of a node whose kickout is due, from the stored scores and tasks.

    The database may be ahead of the state of `node`, but must be folded with the same rules.
    """
    opened_at = _get_opening(node)
    entries = load_counted_entries(uow, node, opened_at, policy.rules)
    scores = find_first_blocks(uow, entries)
    blocks = compute_evidence_range(scores, opened_at)
    return review_kickout(
        scores,
        load_creators(uow, entries, opened_at),
        policy,
        has_dead_letter=uow.dead_letters.has_open(blocks.first, blocks.last),
    )


def load_counted_entries(
    uow: UnitOfWork, node: Node, opened_at: Position, rules: Rules
) -> list[ScoreEntry]:
    """Return the stored scores that counted when an interval of a node opened, oldest first.

    Under legacy rules, the interval must be the one of the node's window.
    """
    limit = get_counted_limit(node, rules)
    entries = uow.scores.list_for_node_at(node.address, opened_at, limit)
    return select_counted_entries(entries, node, opened_at, rules)


def load_creators(
    uow: UnitOfWork, entries: Sequence[ScoreEntry], opened_at: Position
) -> dict[TaskKey, Address]:
    """Return the creators of the scored tasks that were known when an interval opened, by task."""
    tasks = uow.tasks.get_many([entry.task for entry in entries])
    return find_creators(tasks.values(), opened_at)


def find_first_blocks(uow: UnitOfWork, entries: Sequence[ScoreEntry]) -> list[CountedScore]:
    """Return stored scores with the first block that each of them depends on."""
    results_by_position: dict[Position, list[GroupResult]] = {}
    for result in uow.results.list_closed_at([entry.at for entry in entries]):
        results_by_position.setdefault(result.closed_at, []).append(result)
    task_keys = {entry.task for entry in entries}
    for results in results_by_position.values():
        task_keys.update(member.task for result in results for member in result.members)
    tasks = uow.tasks.get_many(task_keys)
    return [
        CountedScore(entry, find_first_block(entry, results_by_position.get(entry.at, ()), tasks))
        for entry in entries
    ]


def build_folded_context(
    uow: UnitOfWork, state: FoldedState, time: int, policy: KickoutPolicy
) -> ScoringContext:
    """Return the scoring context of a state that was folded in memory.

    `time` is the time of the state's last block. Reviews of kickouts read from `uow`.
    """

    def review_kickout_of_node(node: Node) -> KickoutReview:
        return review_folded_kickout(uow, state, node, policy)

    nodes = state.fold.ledger.nodes
    return build_scoring_context(nodes, time, policy.rules, review_kickout_of_node)


def review_folded_kickout(
    uow: UnitOfWork, state: FoldedState, node: Node, policy: KickoutPolicy
) -> KickoutReview:
    """Review the kickout of a node of a folded state whose kickout is due.

    Only what lies before the state's snapshot is read from the database.
    """
    opened_at = _get_opening(node)
    scores = list(state.score_history.get_due_scores(node))
    if state.snapshot_block is not None and len(scores) < get_counted_limit(node, policy.rules):
        scores = _add_earlier_scores(uow, state.snapshot_block, node, scores, policy.rules)
    entries = [score.entry for score in scores]
    tasks = state.fold.ledger.tasks
    scored_tasks = {entry.task: tasks[entry.task] for entry in entries if entry.task in tasks}
    earlier_keys = [entry.task for entry in entries if entry.task not in tasks]
    scored_tasks |= uow.tasks.get_many(earlier_keys)
    return review_kickout(
        scores,
        find_creators(scored_tasks.values(), opened_at),
        policy,
        has_dead_letter=_has_dead_letter(uow, state, compute_evidence_range(scores, opened_at)),
    )


def _add_earlier_scores(
    uow: UnitOfWork,
    snapshot_block: int,
    node: Node,
    scores: Sequence[CountedScore],
    rules: Rules,
) -> list[CountedScore]:
    """Add stored scores up to the snapshot to those that were folded after it."""
    opened_at = _get_opening(node)
    after_snapshot = Position(snapshot_block + 1, *BEFORE_EVERYTHING[1:])
    earlier_entries = uow.scores.list_for_node_at(
        node.address, min(opened_at, after_snapshot), get_counted_limit(node, rules)
    )
    all_entries = [*earlier_entries, *(score.entry for score in scores)]
    counted_seqs = {
        entry.seq for entry in select_counted_entries(all_entries, node, opened_at, rules)
    }
    counted_earlier = [entry for entry in earlier_entries if entry.seq in counted_seqs]
    return [*find_first_blocks(uow, counted_earlier), *scores]


def _has_dead_letter(uow: UnitOfWork, state: FoldedState, blocks: BlockRange) -> bool:
    if any(blocks.first <= number <= blocks.last for number in state.dead_letter_blocks):
        return True
    last_stored = min(blocks.last, -1 if state.snapshot_block is None else state.snapshot_block)
    return uow.dead_letters.has_open(blocks.first, last_stored)


def _get_opening(node: Node) -> Position:
    if node.kickout_due_since is None:
        raise ValueError(f"{node.address}: no kickout is due")
    return node.kickout_due_since
