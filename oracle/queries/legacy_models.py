"""Both rounds of a legacy task, in the terms of its source; `explain` and `replay` show the same.

See docs/explanation/legacy.md#scores.
"""

from collections.abc import Sequence
from itertools import zip_longest

from pydantic import Field

from oracle.domain.fold.legacy_round_scores import RoundScores, round_scores
from oracle.domain.ids import TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.task import Run
from oracle.queries.answers import AddressText, ApiModel, HashText


class RoundRank(ApiModel):
    """The rank in one of the two rounds of a legacy task."""

    rank: int | None
    score: int | None


class RoundPart(ApiModel):
    """One node in both rounds of a legacy task."""

    node: AddressText
    round: int
    commitment: RoundRank
    disclosure: RoundRank
    score: int | None


class LegacyRounds(ApiModel):
    """Both rounds of a legacy task."""

    task: HashText
    nodes: list[RoundPart]
    scored: bool = Field(description="False: nobody submitted anything.")


_SILENT = RoundRank(rank=None, score=None)


def legacy_rounds(task: TaskKey, runs: Sequence[Run], rules: Rules) -> LegacyRounds:
    """Return both rounds of a task that has ended.

    Args:
        task: the task, or one of the tasks of a group.
        runs: the runs of the task, or of its group.
        rules: legacy rules.
    """
    scores = round_scores(runs, rules)
    return LegacyRounds(
        task=task,
        nodes=[_part(run, scored) for run, scored in zip_longest(runs, scores)],
        scored=bool(scores),
    )


def _part(run: Run, scored: RoundScores | None) -> RoundPart:
    if scored is None:
        return RoundPart(
            node=run.node, round=run.round, commitment=_SILENT, disclosure=_SILENT, score=None
        )
    return RoundPart(
        node=run.node,
        round=run.round,
        commitment=RoundRank(rank=scored.commitment_rank, score=scored.commitment_score),
        disclosure=RoundRank(rank=scored.disclosure_rank, score=scored.disclosure_score),
        score=scored.task_score,
    )
