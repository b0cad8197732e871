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
from oracle.queries.advice.card_speeds import CardSpeed
from oracle.queries.advice.group_replay import rank_with_times, restore_ranked_tasks
from oracle.queries.answers import ApiModel, FixedPoint

# A node that is 20 % faster needs four fifths of the time.
_FASTER_RATIO = 4 * UNIT // 5
_ASSUMPTION = (
    "Its last groups, ranked again by the rules in force; the other nodes stay as they were."
)


Change = Literal["as_it_is", "one_timeout_fewer", "faster", "another_card"]


class WhatIfRow(ApiModel):
    """The standing of a node after one change."""

    change: Change = Field(
        description=(
            "faster: each of its answers takes four fifths of the time; another_card: each takes "
            "the time multiplied by `card.time_ratio`."
        )
    )
    card: CardSpeed | None = Field(default=None, description="The card of `another_card`.")
    mean_score: FixedPoint = Field(description="Mean of its task scores, in points.")
    qos: FixedPoint
    rank: int | None = Field(description="Rank by QoS, from 1.")
    chance: FixedPoint | None = Field(
        description=(
            "Its share of the weights of all available nodes: the chance of the next task that "
            "any of them may get; null if the policy has no such weights."
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


def build_what_if(
    record: AdviceRecord, standing: StandingSource, card: CardSpeed | None = None
) -> WhatIf | None:
    """Return the what-if of a node, or None if none of its groups can be ranked again.

    `card` is another card to compare with, if one is known. Under rules that replace pools
    (relay), the result is None while the pool is not made of the stored scores.
    """
    scores = bytes(entry.score for entry in record.entries)
    if not scores or scores != record.node.pool or record.rules.legacy is not None:
        return None
    ratios = [_FASTER_RATIO, *([] if card is None else [card.time_ratio])]
    scores_by_ratio = _compute_scores_with_times(record, ratios)
    if scores_by_ratio is None:
        return None
    group_count, (faster_scores, *card_scores) = scores_by_ratio
    reliability = compute_reliability(record.node, record.time, record.rules)
    rows = [_build_row("as_it_is", scores, reliability, record, standing)]
    timeout_index = _find_last_timeout(record.changes)
    if timeout_index is not None:
        rows.append(
            _build_row(
                "one_timeout_fewer",
                _compute_scores_without_timeout(record, record.changes[timeout_index]),
                compute_reliability_without(record, timeout_index),
                record,
                standing,
            )
        )
    rows.append(_build_row("faster", faster_scores, reliability, record, standing))
    for other_scores in card_scores:
        row = _build_row("another_card", other_scores, reliability, record, standing)
        rows.append(row.model_copy(update={"card": card}))
    return WhatIf(groups=group_count, rows=rows)


def compute_reliability_without(record: AdviceRecord, index: int) -> int:
    """Return H as of the record if the change with this index had not happened.

    The later changes are applied again. A success that found H = 1 is not stored, and would have
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
    change: Change,
    scores: bytes,
    reliability: int,
    record: AdviceRecord,
    standing: StandingSource,
) -> WhatIfRow:
    qos = multiply_fixed_point(compute_pool_mean(scores, None, record.rules), reliability)
    return WhatIfRow(
        change=change,
        mean_score=sum(scores) * UNIT // len(scores),
        qos=qos,
        rank=standing.find_rank(qos),
        chance=standing.compute_chance(qos),
    )


def _compute_scores_with_times(
    record: AdviceRecord, ratios: Sequence[int]
) -> tuple[int, list[bytes]] | None:
    """Return the scores if the node's times were multiplied by each ratio, in units of 10^-18.

    The first value is the number of groups that could be ranked again; the scores of the other
    groups stay as they are. The result is None if there is no such group.
    """
    group_count = 0
    scores_by_ratio = [bytearray(entry.score for entry in record.entries) for _ in ratios]
    index_by_seq = {entry.seq: index for index, entry in enumerate(record.entries)}
    for scored_task in record.scored_tasks:
        entry, group = scored_task.entry, scored_task.group
        ranked_tasks = restore_ranked_tasks(group, record.task_by_key, record.rules)
        if ranked_tasks is None:
            continue
        group_count += 1
        elapsed = scored_task.member.elapsed
        if scored_task.member.rank is None or elapsed is None:
            continue
        for ratio, scores in zip(ratios, scores_by_ratio, strict=True):
            elapsed_by_task = {entry.task: elapsed * ratio // UNIT}
            members = rank_with_times(group, ranked_tasks, record.rules, elapsed_by_task)
            scores[index_by_seq[entry.seq]] = members[entry.task].score or 0
    return (group_count, list(map(bytes, scores_by_ratio))) if group_count else None


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
