"""Reviews due kickouts, from the database or from a state that was folded in memory.

Both sources give the same review, because a review depends only on events up to the time at which
the kickout became due. See docs/explanation/kickouts.md#held-for-a-person.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from oracle.domain.blocks import BEFORE_EVERYTHING, BlockRange, Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.incidents import Incident
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.kickout_review import (
    CountedScore,
    KickoutReview,
    collect_task_creators,
    compute_evidence_block_range,
    count_incident_scores,
    find_first_block_of_score,
    find_unanswered_scores,
    get_max_score_count,
    review_kickout,
    select_counted_entries,
)
from oracle.domain.roots.node_leaves import LeafRow, ScoringContext, build_scoring_context
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupResult, Node, Task
from oracle.indexer.folded_state import FoldedState
from oracle.store.database import UnitOfWork


class KickoutReviewCache:
    """A cache of reviews of open kickout intervals, each of which is reviewed only once.

    A rewind drops only the reviews of intervals that opened above its block. In a mass outage
    thousands of kickouts are due, and each review takes some milliseconds.
    """

    def __init__(self, policy: KickoutPolicy) -> None:
        self._policy = policy
        self._review_by_node: dict[Address, tuple[Position, KickoutReview]] = {}
        self._rewrite_count = self._final_block = -1

    def refresh(self, uow: UnitOfWork) -> None:
        """Drop all reviews if another process rewound the state, or if it was refolded.

        Call this before the first `get_or_load_review` of a block.
        """
        rewrite_count = uow.bookmarks.get_rewrite_count()
        cursor = uow.cursor.get()
        if rewrite_count != self._rewrite_count:
            self.clear()
        self._rewrite_count = rewrite_count
        if cursor is not None and cursor.final_number is not None:
            self._final_block = cursor.final_number

    def follow_rewind(self, uow: UnitOfWork, ancestor: int) -> None:
        """Drop the reviews of intervals that opened above the block of a rewind.

        This block is `ancestor`.
        """
        if uow.bookmarks.get_rewrite_count() == self._rewrite_count + 1:
            self._drop_reviews_above(ancestor)
            self._rewrite_count += 1

    def get_or_load_review(self, uow: UnitOfWork, node: Node) -> KickoutReview:
        """Return the review of a node's due kickout from the cache, or load it."""
        opened_at = _get_kickout_due_position(node)
        cached_review = self._review_by_node.get(node.address)
        if cached_review is not None and cached_review[0] == opened_at:
            return cached_review[1]
        review = load_kickout_review(uow, node, self._policy)
        self._review_by_node[node.address] = opened_at, review
        return review

    def discard_settled_reviews(self, rows: Iterable[LeafRow]) -> None:
        """Drop the reviews of nodes whose kickout is no longer due."""
        if not self._review_by_node:
            return
        for _seat, address, *_, kickout_due_time in rows:
            if kickout_due_time is None:
                self._review_by_node.pop(Address("0x" + address.hex()), None)

    def drop_non_final_reviews(self) -> None:
        """Drop the reviews above the final block after a transaction was rolled back."""
        self._drop_reviews_above(self._final_block)

    def clear(self) -> None:
        """Drop all reviews before a refold, which decodes dead letters again."""
        self._review_by_node.clear()

    def _drop_reviews_above(self, block: int) -> None:
        self._review_by_node = {
            node: (opened_at, review)
            for node, (opened_at, review) in self._review_by_node.items()
            if opened_at.block <= block
        }


def load_kickout_review(uow: UnitOfWork, node: Node, policy: KickoutPolicy) -> KickoutReview:
    """Review a node's due kickout from the stored scores and tasks.

    The database may be ahead of the state of `node`, but must be folded with the same rules.
    """
    opened_at = _get_kickout_due_position(node)
    entries = load_counted_entries(uow, node, opened_at, policy.rules)
    tasks = uow.tasks.get_many([entry.task for entry in entries])
    return review_kickout(
        entries,
        collect_task_creators(tasks.values(), opened_at),
        policy,
        has_dead_letter=_has_stored_dead_letter(uow, entries, opened_at),
        incident_score_count=count_stored_incident_scores(
            uow, entries, tasks, opened_at, policy.rules
        ),
    )


def count_stored_incident_scores(
    uow: UnitOfWork,
    entries: Sequence[ScoreEntry],
    tasks: Mapping[TaskKey, Task],
    opened_at: Position,
    rules: Rules,
) -> int:
    """Count the scores within incidents that were known when a kickout interval opened.

    The result is 0 if the rules hold no kickout because of incidents.
    """

    def load_incidents(first_time: int, last_time: int) -> list[Incident]:
        return uow.incidents.list_between(first_time, last_time, up_to_block=opened_at.block)

    return _count_incident_scores(entries, tasks, opened_at, rules, load_incidents)


def _count_incident_scores(
    entries: Sequence[ScoreEntry],
    tasks: Mapping[TaskKey, Task],
    opened_at: Position,
    rules: Rules,
    load_incidents: Callable[[int, int], list[Incident]],
) -> int:
    """Count the scores that lie within incidents.

    `load_incidents` returns the incidents between two times.
    """
    if rules.kick_incident_share >= UNIT:
        return 0
    scores = find_unanswered_scores(entries, tasks, opened_at)
    if not scores:
        return 0
    score_times = [score.time for score in scores]
    return count_incident_scores(
        scores, load_incidents(min(score_times), max(score_times)), opened_at
    )


def _has_stored_dead_letter(
    uow: UnitOfWork, entries: Sequence[ScoreEntry], opened_at: Position
) -> bool:
    if not uow.dead_letters.has_open(0, opened_at.block):
        # All logs and calls could be decoded, so the tasks of the groups need not be loaded.
        return False
    blocks = compute_evidence_block_range(load_counted_scores(uow, entries), opened_at)
    return uow.dead_letters.has_open(blocks.first, blocks.last)


def load_counted_entries(
    uow: UnitOfWork, node: Node, opened_at: Position, rules: Rules
) -> list[ScoreEntry]:
    """Return the stored scores that led to a kickout interval, oldest first.

    They counted when the interval opened. `opened_at` is the position at which the kickout of
    `node` became due. Under legacy rules, the window of `node` must still be the window of this
    interval.
    """
    max_score_count = get_max_score_count(node, rules)
    entries = uow.scores.list_for_node_up_to_position(node.address, opened_at, max_score_count)
    return select_counted_entries(entries, node, opened_at, rules)


def load_task_creators(
    uow: UnitOfWork, entries: Sequence[ScoreEntry], opened_at: Position
) -> dict[TaskKey, Address]:
    """Return the creator of each scored task, as known when a kickout interval opened."""
    tasks = uow.tasks.get_many([entry.task for entry in entries])
    return collect_task_creators(tasks.values(), opened_at)


def load_counted_scores(uow: UnitOfWork, entries: Sequence[ScoreEntry]) -> list[CountedScore]:
    """Return stored scores, each with the first block that it depends on."""
    results_by_position: dict[Position, list[GroupResult]] = {}
    for result in uow.results.list_closed_at([entry.at for entry in entries]):
        results_by_position.setdefault(result.closed_at, []).append(result)
    task_keys = {entry.task for entry in entries}
    for results in results_by_position.values():
        task_keys.update(member.task for result in results for member in result.members)
    tasks = uow.tasks.get_many(task_keys)
    return [
        CountedScore(
            entry, find_first_block_of_score(entry, results_by_position.get(entry.at, ()), tasks)
        )
        for entry in entries
    ]


def build_folded_scoring_context(
    uow: UnitOfWork, state: FoldedState, time: int, policy: KickoutPolicy
) -> ScoringContext:
    """Build the scoring context of a state that was folded in memory.

    `time` is the time of the state's last block in unix seconds. Reviews of kickouts read older
    rows from `uow`.
    """

    def review_kickout_of_node(node: Node) -> KickoutReview:
        return review_folded_kickout(uow, state, node, policy)

    nodes = state.fold.ledger.nodes
    return build_scoring_context(nodes, time, policy.rules, review_kickout_of_node)


def review_folded_kickout(
    uow: UnitOfWork, state: FoldedState, node: Node, policy: KickoutPolicy
) -> KickoutReview:
    """Review a node's due kickout from a state that was folded in memory.

    Only rows from before the state's snapshot are read from the database.
    """
    opened_at = _get_kickout_due_position(node)
    scores = list(state.score_history.get_scores_behind_kickout(node))
    if state.snapshot_block is not None and len(scores) < get_max_score_count(node, policy.rules):
        scores = _prepend_scores_before_snapshot(
            uow, state.snapshot_block, node, scores, policy.rules
        )
    entries = [score.entry for score in scores]
    tasks = state.fold.ledger.tasks
    scored_tasks = {entry.task: tasks[entry.task] for entry in entries if entry.task in tasks}
    unfolded_task_keys = [entry.task for entry in entries if entry.task not in tasks]
    scored_tasks |= uow.tasks.get_many(unfolded_task_keys)
    return review_kickout(
        entries,
        collect_task_creators(scored_tasks.values(), opened_at),
        policy,
        has_dead_letter=_has_dead_letter(
            uow, state, compute_evidence_block_range(scores, opened_at)
        ),
        incident_score_count=_count_incident_scores(
            entries,
            scored_tasks,
            opened_at,
            policy.rules,
            lambda first, last: _list_incidents(uow, state, opened_at, first, last),
        ),
    )


def _list_incidents(
    uow: UnitOfWork, state: FoldedState, opened_at: Position, first_time: int, last_time: int
) -> list[Incident]:
    """Return all incidents of a folded state, even those that ended before its snapshot."""
    incidents = dict(state.incidents)
    if state.snapshot_block is not None:
        last_block = min(state.snapshot_block, opened_at.block)
        for incident in uow.incidents.list_between(first_time, last_time, up_to_block=last_block):
            incidents.setdefault(incident.number, incident)
    return list(incidents.values())


def _prepend_scores_before_snapshot(
    uow: UnitOfWork,
    snapshot_block: int,
    node: Node,
    scores: Sequence[CountedScore],
    rules: Rules,
) -> list[CountedScore]:
    """Return the given scores, preceded by the stored scores up to the snapshot."""
    opened_at = _get_kickout_due_position(node)
    after_snapshot = Position(snapshot_block + 1, *BEFORE_EVERYTHING[1:])
    earlier_entries = uow.scores.list_for_node_up_to_position(
        node.address, min(opened_at, after_snapshot), get_max_score_count(node, rules)
    )
    all_entries = [*earlier_entries, *(score.entry for score in scores)]
    counted_seqs = {
        entry.seq for entry in select_counted_entries(all_entries, node, opened_at, rules)
    }
    counted_earlier_entries = [entry for entry in earlier_entries if entry.seq in counted_seqs]
    return [*load_counted_scores(uow, counted_earlier_entries), *scores]


def _has_dead_letter(uow: UnitOfWork, state: FoldedState, blocks: BlockRange) -> bool:
    if any(blocks.first <= number <= blocks.last for number in state.dead_letter_blocks):
        return True
    last_stored_block = min(
        blocks.last, -1 if state.snapshot_block is None else state.snapshot_block
    )
    return uow.dead_letters.has_open(blocks.first, last_stored_block)


def _get_kickout_due_position(node: Node) -> Position:
    if node.kickout_due_since is None:
        raise ValueError(f"{node.address}: no kickout is due")
    return node.kickout_due_since
