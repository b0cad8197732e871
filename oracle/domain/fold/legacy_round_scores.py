"""Computes task scores under legacy rules, from the two rounds of three nodes.

The first round is the commitment to a result, the second its disclosure. In each round the nodes
are scored in the order of their submissions. The three nodes run parts of one task, or each runs a
task of its own in a validation group. See docs/explanation/legacy.md#scores.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fold import working_set
from oracle.domain.fold.working_set import ScoreEntry, WorkingSet
from oracle.domain.ids import GroupKey, TaskKey
from oracle.domain.scoring import legacy_tally
from oracle.domain.scoring.group_ranking import get_points_for_rank
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, Node, Run, Task


class RoundScores(NamedTuple):
    """The rank and the score of one node in each of the two rounds.

    Ranks count from 1; a rank is None if the node did not answer in the round.
    """

    commitment_rank: int | None
    commitment_score: int
    disclosure_rank: int | None
    disclosure_score: int

    @property
    def task_score(self) -> int:
        """Return the node's score for the task."""
        return self.commitment_score + self.disclosure_score


def compute_round_scores(runs: Sequence[Run], rules: Rules) -> list[RoundScores]:
    """Return the round scores of each run, in the order of `runs`.

    The list is empty if no node answered. If a node submitted nothing in a round, its error report
    counts as its submission in this round.
    """
    commitment_positions = [run.committed_at or run.reported_at for run in runs]
    disclosure_positions = [run.disclosed_at or run.reported_at for run in runs]
    # Nodes commit before they disclose, so without a commitment there is no answer at all.
    if not any(commitment_positions):
        return []
    return [
        RoundScores(*commitment, *disclosure)
        for commitment, disclosure in zip(
            _rank_and_score_submissions(commitment_positions, rules),
            _rank_and_score_submissions(disclosure_positions, rules),
            strict=True,
        )
    ]


def build_group_runs(tasks: Sequence[Task]) -> dict[TaskKey, Run]:
    """Convert the tasks of a validation group to the runs of a single task.

    The order stays the same. Tasks that never started are left out. The result is empty unless a
    member revealed an answer that it had committed to, because an openly submitted answer has no
    second round.
    """
    if all(task.revealed_at is None for task in tasks):
        return {}
    return {
        task.key: Run(
            round=index,
            node=task.node,
            started_at=task.started_at,
            started_time=task.started_time,
            committed_at=(
                None if task.error_reported and task.revealed_at is None else task.stopped_at
            ),
            disclosed_at=None if task.error_reported else task.revealed_at,
            reported_at=_get_error_position(task),
        )
        for index, task in enumerate(tasks)
        if task.node is not None and task.started_at is not None and task.started_time is not None
    }


def _get_error_position(task: Task) -> Position | None:
    if not task.error_reported:
        return None
    return task.stopped_at if task.revealed_at is None else task.revealed_at


def score_group_members(
    members: tuple[GroupMember, ...], tasks: Mapping[TaskKey, Task], rules: Rules
) -> tuple[GroupMember, ...]:
    """Score the members of a closing group by both of their rounds.

    `rank` becomes the rank among the commitments. The members are returned unchanged under rules
    other than legacy rules, or if no member of the group committed to an answer and revealed it.
    """
    if rules.legacy is None:
        return members
    runs = build_group_runs([tasks[member.task] for member in members if member.task in tasks])
    scores = dict(zip(runs, compute_round_scores(list(runs.values()), rules), strict=True))
    return tuple(
        member._replace(rank=round_score.commitment_rank, score=round_score.task_score)
        if (round_score := scores.get(member.task)) is not None
        else member
        for member in members
    )


def _rank_and_score_submissions(
    positions: Sequence[Position | None], rules: Rules
) -> list[tuple[int | None, int]]:
    sorted_positions = sorted(position for position in positions if position is not None)
    submission_ranks = [
        None if position is None else sorted_positions.index(position) + 1
        for position in positions
    ]
    return [
        (rank, rules.absent_score if rank is None else get_points_for_rank(rank, rules))
        for rank in submission_ranks
    ]


def score_ended_task(ledger: WorkingSet, event: DomainEvent, task: Task) -> None:
    """Add the scores of a task that has just ended to its nodes' legacy windows."""
    rules = ledger.rules
    scores = compute_round_scores(task.runs, rules)
    if rules.legacy is None or not scores:
        return
    # In these contracts, the only groups are the three parts of a task.
    task.scored_in = GroupKey(task.key)
    for run, round_score in zip(task.runs, scores, strict=True):
        node = ledger.get_node_for_update(run.node, event.time)
        add_score_to_window(ledger, node, round_score.task_score, event.time, rules.legacy)
        node.scored += 1
        node.last_scored_at = event.time
        entry = ScoreEntry(
            node=node.address,
            seq=node.scored,
            task=task.key,
            group=task.scored_in,
            rank=None,
            elapsed=None,
            score=round_score.task_score,
            at=event.at,
            time=event.time,
        )
        ledger.changes.scores.append(entry)
        working_set.update_kickout_interval(ledger, node, event.at, event.time)


def add_score_to_window(
    ledger: WorkingSet, node: Node, score: int, time: int, legacy_rules: LegacyRules
) -> None:
    """Add a task score to the node's legacy window.

    A kickout that was due in an earlier window ends before the score is added, because the score
    may make a new kickout due.
    """
    legacy_tally.advance_window(node, time, legacy_rules)
    working_set.update_kickout_interval(ledger, node, ledger.at, time)
    legacy_tally.add_score(node, score, time, legacy_rules)
