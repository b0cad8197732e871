"""The two rounds of a legacy task, as `explain` and `replay` print them.

See docs/explanation/legacy.md#scores.
"""

from collections.abc import Sequence
from itertools import zip_longest

from pydantic import Field

from oracle.domain.fold.legacy_round_scores import RoundScores, compute_round_scores
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Run
from oracle.queries.answers import AddressText, ApiModel, HashText


class RoundRank(ApiModel):
    """A node's rank and score in one of the two rounds of a legacy task."""

    rank: int | None
    score: int | None


class RoundPart(ApiModel):
    """The ranks and scores of one node in the two rounds of a legacy task."""

    node: AddressText
    round: int
    commitment: RoundRank
    disclosure: RoundRank
    score: int | None


class LegacyRounds(ApiModel):
    """The ranks and scores of all nodes in the two rounds of a legacy task."""

    task: HashText
    nodes: list[RoundPart]
    scored: bool = Field(
        description=(
            "Whether the rounds were scored; false if no node committed a result or reported an "
            "error."
        )
    )


_NO_RANK = RoundRank(rank=None, score=None)


def build_legacy_rounds(task: TaskKey, runs: Sequence[Run], rules: Rules) -> LegacyRounds:
    """Return the ranks and scores in both rounds of a legacy task that has ended.

    Args:
        task: the task, or one of the tasks of a group.
        runs: the runs of the task by its nodes, or those of its group.
        rules: legacy rules.
    """
    scores = compute_round_scores(runs, rules)
    return LegacyRounds(
        task=task,
        nodes=[
            _build_round_part(run, round_score) for run, round_score in zip_longest(runs, scores)
        ],
        scored=bool(scores),
    )


def _build_round_part(run: Run, scores: RoundScores | None) -> RoundPart:
    if scores is None:
        return RoundPart(
            node=run.node, round=run.round, commitment=_NO_RANK, disclosure=_NO_RANK, score=None
        )
    return RoundPart(
        node=run.node,
        round=run.round,
        commitment=RoundRank(rank=scores.commitment_rank, score=scores.commitment_score),
        disclosure=RoundRank(rank=scores.disclosure_rank, score=scores.disclosure_score),
        score=scores.task_score,
    )
