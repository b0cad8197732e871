"""What a node's scores would be with other times, by its own last groups ranked again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.fold.working_set import FALL_CAUSES, ReliabilityCause, ReliabilityChange
from oracle.domain.scoring.group_ranking import get_rank_score
from oracle.domain.scoring.node_scores import (
    boost_reliability,
    compute_pool_mean,
    compute_reliability,
    heal_reliability,
    penalize_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.queries.advice.advice_record import AdviceRecord, ScoredTask
from oracle.queries.advice.group_replay import rank_group_again
from oracle.queries.answers import ApiModel, FixedPoint

# A node that is 20 % faster takes four fifths of its times.
_FASTER_NUMERATOR, _FASTER_DENOMINATOR = 4, 5
_ASSUMPTION = (
    "Its last groups, ranked again by the rules in force; the other nodes stay as they were."
)


class WhatIfRow(ApiModel):
    """The standing of a node after one change."""

    change: Literal["as_it_is", "one_timeout_fewer", "faster"] = Field(
        description="faster: each of its answers takes four fifths of the time."
    )
    mean_score: FixedPoint = Field(description="Mean of its task scores, in points.")
    qos: FixedPoint
    rank: int | None = Field(description="Rank by QoS, from 1.")
    chance: FixedPoint | None = Field(
        description=(
            "Its share of the weights of all available nodes: the chance of the next task that "
            "any of them may get; null: the policy has no such weights."
        )
    )


class WhatIf(ApiModel):
    """The standing of a node as it is, and after single changes."""

    groups: int = Field(description="Groups that were ranked again.")
    rows: list[WhatIfRow]
    assumption: str = _ASSUMPTION


@dataclass(frozen=True, slots=True)
class StandingSource:
    """Where a QoS would stand among the other nodes: its rank, and its chance of a task."""

    find_rank: Callable[[int], int | None]
    compute_chance: Callable[[int], int | None]


def build_what_if(record: AdviceRecord, standing: StandingSource) -> WhatIf | None:
    """Return the what-if of a node, or None if none of its groups can be ranked again.

    Under rules that replace pools (relay), the result is None while the pool is not made of the
    stored scores.
    """
    scores = bytes(entry.score for entry in record.entries)
    if not scores or scores != record.node.pool or record.rules.legacy is not None:
        return None
    faster_scores = _compute_faster_scores(record)
    if not faster_scores:
        return None
    reliability = compute_reliability(record.node, record.time, record.rules)
    rows = [_build_row("as_it_is", scores, reliability, record.rules, standing)]
    timeout_index = _find_last_timeout(record.changes)
    if timeout_index is not None:
        rows.append(
            _build_row(
                "one_timeout_fewer",
                _compute_scores_without_timeout(record, record.changes[timeout_index]),
                compute_reliability_without(record, timeout_index),
                record.rules,
                standing,
            )
        )
    scores_if_faster = bytes(faster_scores.get(entry.seq, entry.score) for entry in record.entries)
    rows.append(_build_row("faster", scores_if_faster, reliability, record.rules, standing))
    return WhatIf(groups=len(faster_scores), rows=rows)


def compute_reliability_without(record: AdviceRecord, index: int) -> int:
    """Return H as of the record if the change with this index had not happened.

    The later changes are played again. A success that found H = 1 is not stored, and would have
    found H = 1 again.
    """
    rules, omitted_change = record.rules, record.changes[index]
    changes = [
        change
        for change in record.changes
        if change.cause is not ReliabilityCause.TIMEOUT_VOID and change is not omitted_change
    ]
    earlier = [change for change in changes if change.at < omitted_change.at]
    base, since = (
        (earlier[-1].after, earlier[-1].time)
        if earlier
        else (omitted_change.before, omitted_change.time)
    )
    for change in changes[len(earlier) :]:
        reliability = heal_reliability(base, since, change.time, rules)
        if change.cause is ReliabilityCause.JOINED:
            base = change.after
        elif change.cause in FALL_CAUSES:
            base = penalize_reliability(reliability, rules)
        else:
            base = boost_reliability(reliability, rules)
        since = change.time
    return heal_reliability(base, since, record.time, rules)


def _build_row(
    change: Literal["as_it_is", "one_timeout_fewer", "faster"],
    scores: bytes,
    reliability: int,
    rules: Rules,
    standing: StandingSource,
) -> WhatIfRow:
    qos = multiply_fixed_point(compute_pool_mean(scores, None, rules), reliability)
    return WhatIfRow(
        change=change,
        mean_score=sum(scores) * UNIT // len(scores),
        qos=qos,
        rank=standing.find_rank(qos),
        chance=standing.compute_chance(qos),
    )


def _compute_faster_scores(record: AdviceRecord) -> dict[int, int]:
    """Return the scores of the groups that can be ranked again, by the number of the score."""
    score_by_seq: dict[int, int] = {}
    for scored_task in record.scored_tasks:
        entry, elapsed = scored_task.entry, scored_task.member.elapsed
        faster_times = (
            {}
            if scored_task.member.rank is None or elapsed is None
            else {entry.task: elapsed * _FASTER_NUMERATOR // _FASTER_DENOMINATOR}
        )
        members = rank_group_again(
            scored_task.group, record.task_by_key, record.rules, faster_times
        )
        if members is not None:
            score = members[entry.task].score
            score_by_seq[entry.seq] = entry.score if score is None else score
    return score_by_seq


def _find_last_timeout(changes: Sequence[ReliabilityChange]) -> int | None:
    """Return the index of the last change that lowered H, or None."""
    return next(
        (index for index in reversed(range(len(changes))) if changes[index].cause in FALL_CAUSES),
        None,
    )


def _compute_scores_without_timeout(record: AdviceRecord, timeout: ReliabilityChange) -> bytes:
    """Return the scores if the task that timed out had been answered last in its group."""
    last_place_scores = {
        scored_task.entry.seq: compute_last_place_score(scored_task, record.rules)
        for scored_task in record.scored_tasks
        if scored_task.entry.task == timeout.task and scored_task.entry.rank is None
    }
    return bytes(last_place_scores.get(entry.seq, entry.score) for entry in record.entries)


def compute_last_place_score(scored_task: ScoredTask, rules: Rules) -> int:
    """Return the score that a node without an answer would have had as the last one to answer."""
    ranked_count = sum(member.rank is not None for member in scored_task.group.members)
    return get_rank_score(ranked_count + 1, rules)
