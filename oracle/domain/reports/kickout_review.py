"""Decides whether a due kickout needs an operator's approval and has complete scores.

A review depends only on what was known when the kickout became due, so every reporter puts the
same review into the leaf of the node. See docs/explanation/kickouts.md#held-for-a-person.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from oracle.domain.blocks import BlockRange, Position
from oracle.domain.fold.working_set import Changes, ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.incidents import Incident, find_incident_marking_timeout
from oracle.domain.reports.kickout_evidence import (
    compute_creator_spread,
    find_derived_zeros_hold_reason,
    find_incident_hold_reason,
    justifies_kickout,
)
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Ending, GroupResult, Node, Task


class CountedScore(NamedTuple):
    """A score that counted when a kickout became due.

    `first_block` is the first block with an event about the scored task, or about a task that was
    ranked in the same group.
    """

    entry: ScoreEntry
    first_block: int


class KickoutReview(NamedTuple):
    """The review of a due kickout.

    `hold_reason` is why only an operator may allow the kickout, or None. `has_dead_letter` is
    whether a log behind the scores could not be decoded, so that the kickout may not be due.
    """

    hold_reason: str | None
    has_dead_letter: bool


# A function that reviews the kickout of a node whose kickout is due.
KickoutReviewer = Callable[[Node], KickoutReview]


def review_kickout(
    entries: Sequence[ScoreEntry],
    creators: Mapping[TaskKey, Address],
    policy: KickoutPolicy,
    *,
    has_dead_letter: bool,
    incident_score_count: int,
) -> KickoutReview:
    """Review a kickout that became due because of the scores in `entries`.

    Args:
        entries: the scores that counted when the kickout became due, oldest first.
        creators: the creators of the scored tasks that were known by then.
        policy: the rules that scored the tasks, and whether every kickout is held.
        has_dead_letter: whether the blocks of `compute_evidence_block_range` have a log that could
            not be decoded.
        incident_score_count: the number of scores in incidents (`count_incident_scores`).
    """
    hold_reason = find_hold_reason(entries, creators, policy, incident_score_count)
    return KickoutReview(hold_reason, has_dead_letter)


def find_hold_reason(
    entries: Sequence[ScoreEntry],
    creators: Mapping[TaskKey, Address],
    policy: KickoutPolicy,
    incident_score_count: int,
) -> str | None:
    """Return why the kickout needs an operator's approval, or None if it does not.

    `entries` has the scores on which the kickout is based.
    """
    rules = policy.rules
    if policy.holds_kickouts:
        return "the profile of the network holds every kickout"
    if not justifies_kickout(entries, rules):
        return (
            f"its {len(entries)} scores on record do not justify a kickout, because a restart "
            "replaced scores by their mean"
        )
    creator_spread = compute_creator_spread(
        ((creators.get(entry.task), entry.score) for entry in entries), rules
    )
    return (
        creator_spread.find_hold_reason(rules)
        or find_incident_hold_reason(len(entries), incident_score_count, rules)
        or find_derived_zeros_hold_reason(entries, rules)
    )


def collect_task_creators(tasks: Iterable[Task], opened_at: Position) -> dict[TaskKey, Address]:
    """Return the creators of tasks, as far as known when a kickout became due.

    A chain may emit the creator of a task after the task was scored. Such a creator is left out,
    because it must not change the review.
    """
    return {
        task.key: task.creator
        for task in tasks
        if task.creator is not None
        and task.created_at is not None
        and task.created_at <= opened_at
    }


class UnansweredScore(NamedTuple):
    """A score of 0 for a task without an answer, with the block time of the timeout."""

    time: int
    creator: Address | None


def find_unanswered_scores(
    entries: Iterable[ScoreEntry], tasks: Mapping[TaskKey, Task], opened_at: Position
) -> list[UnansweredScore]:
    """Return the zero scores for unanswered tasks, as known when a kickout became due.

    If a group closed before the timeout of a member, the zero of this member counts at the block
    time of the score.
    """
    scored_tasks = [tasks[entry.task] for entry in entries if entry.task in tasks]
    creators = collect_task_creators(scored_tasks, opened_at)
    ended_time_by_task = {
        task.key: task.ended_time
        for task in scored_tasks
        if task.ending is Ending.TIMED_OUT
        and task.ended_at is not None
        and task.ended_at <= opened_at
    }
    return [
        UnansweredScore(ended_time_by_task.get(entry.task) or entry.time, creators.get(entry.task))
        for entry in entries
        if entry.score == 0 and entry.elapsed is None
    ]


def count_incident_scores(
    scores: Iterable[UnansweredScore], incidents: Sequence[Incident], opened_at: Position
) -> int:
    """Count the scores that fall into incidents known at `opened_at`.

    An incident that was found later does not change a review, so that every reporter computes the
    same review.
    """
    return sum(
        find_incident_marking_timeout(incidents, score.time, score.creator, opened_at) is not None
        for score in scores
    )


def compute_evidence_block_range(
    scores: Iterable[CountedScore], opened_at: Position
) -> BlockRange:
    """Return the blocks with the events behind the scores, up to the interval's opening."""
    first_block = min((score.first_block for score in scores), default=opened_at.block)
    return BlockRange(min(first_block, opened_at.block), opened_at.block)


def find_first_block_of_score(
    entry: ScoreEntry, results: Iterable[GroupResult], tasks: Mapping[TaskKey, Task]
) -> int:
    """Return the first block that mentions a task of the score or of its groups.

    `results` are the results of the groups that closed at the position of the score. Tasks that no
    event has named yet are left out.
    """
    task_keys = {entry.task, *(member.task for result in results for member in result.members)}
    first_blocks = (tasks[key].seen_at for key in task_keys if key in tasks)
    return min(first_blocks, default=entry.at.block)


def get_max_score_count(node: Node, rules: Rules) -> int:
    """Return how many scores of a node can count at the same time."""
    return rules.pool_size if rules.legacy is None else node.window_count


def select_counted_entries(
    entries: Iterable[ScoreEntry], node: Node, opened_at: Position, rules: Rules
) -> list[ScoreEntry]:
    """Return the scores that counted when a node's kickout became due.

    `entries` are in order of `seq`. The last scores up to `opened_at` count, as many as a pool
    holds. Under legacy rules, the scores of the node's window count.
    """
    first_seq = 0 if rules.legacy is None else node.scored - node.window_count + 1
    known_entries = [
        entry for entry in entries if entry.at <= opened_at and entry.seq >= first_seq
    ]
    return known_entries if rules.legacy is not None else known_entries[-rules.pool_size :]


class ScoreHistory:
    """Collects the scores behind each due kickout while events are applied.

    For each node, the history keeps the scores that count now, and the scores that counted when
    the node's kickout became due.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._newest_scores_by_node: dict[Address, list[CountedScore]] = {}
        self._due_scores_by_node: dict[Address, tuple[Position, list[CountedScore]]] = {}

    def record_changes(self, changes: Changes, tasks: Mapping[TaskKey, Task]) -> None:
        """Record the changes of the blocks applied since the last call.

        Blocks are recorded as a whole. `tasks` must have the tasks of all groups that closed in
        these blocks.
        """
        results_by_position: dict[Position, list[GroupResult]] = {}
        for result in changes.results:
            results_by_position.setdefault(result.closed_at, []).append(result)
        for entry in changes.scores:
            results = results_by_position.get(entry.at, ())
            score = CountedScore(entry, find_first_block_of_score(entry, results, tasks))
            self._newest_scores_by_node.setdefault(entry.node, []).append(score)
        for node in changes.nodes.values():
            self._update_scores_behind_kickout(node)
            self._drop_old_scores(node)

    def get_scores_behind_kickout(self, node: Node) -> Sequence[CountedScore]:
        """Return the scores that made the node's kickout due, oldest first."""
        opened_at, scores = self._due_scores_by_node.get(node.address, (None, ()))
        return scores if opened_at == node.kickout_due_since else ()

    def _update_scores_behind_kickout(self, node: Node) -> None:
        due_since = node.kickout_due_since
        if due_since is None:
            self._due_scores_by_node.pop(node.address, None)
        elif self._due_scores_by_node.get(node.address, (None,))[0] != due_since:
            score_by_seq = {
                score.entry.seq: score
                for score in self._newest_scores_by_node.get(node.address, ())
            }
            newest_entries = (score.entry for score in score_by_seq.values())
            counted_entries = select_counted_entries(newest_entries, node, due_since, self._rules)
            counted_scores = [score_by_seq[entry.seq] for entry in counted_entries]
            self._due_scores_by_node[node.address] = due_since, counted_scores

    def _drop_old_scores(self, node: Node) -> None:
        newest_scores = self._newest_scores_by_node.get(node.address)
        if newest_scores is not None:
            max_score_count = get_max_score_count(node, self._rules)
            del newest_scores[: max(0, len(newest_scores) - max_score_count)]
