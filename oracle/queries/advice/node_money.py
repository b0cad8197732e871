"""Computes what a node earns, and how much each timeout and each lower rank costs it.

All amounts are in the smallest unit of the network's token. They follow the split of the rules,
while the network may have paid other amounts (docs/explanation/legacy.md#money).
"""

from collections import defaultdict
from collections.abc import Iterable

from pydantic import Field

from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.scoring.group_ranking import split_group_fee
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.queries.advice.advice_record import AdviceRecord, ScoredTask
from oracle.queries.advice.what_if import compute_last_place_score
from oracle.queries.answers import ApiModel, Integer

_DAY_SECONDS = 86_400
# Minimum time from which fees per day are extrapolated.
_MIN_SECONDS = 3_600
_ASSUMPTION = (
    "The fee of each task as the rules share it; a lower place is compared with the next better "
    "one in the same group, and no answer with an answer in last place."
)


class RankLoss(ApiModel):
    """The fees that a rank cost a node, summed over all groups in which the node had this rank."""

    rank: int | None = Field(
        description="Rank of the node's answers; null for tasks in which the node was not ranked."
    )
    tasks: int
    amount: Integer = Field(
        description=(
            "Fees that the node would have received in addition with the next better rank or, "
            "without a rank, with the last one."
        )
    )


class NodeMoney(ApiModel):
    """The stake and the fees of a node; amounts are in the token's smallest unit."""

    stake: Integer | None
    earned: Integer = Field(
        description="The node's share of the fees of its scored tasks that count."
    )
    tasks: int = Field(description="Number of these tasks whose fee is known.")
    without_fee: int = Field(
        description=(
            "Number of the other scored tasks that count: their fee is unknown, or their group is "
            "not stored."
        )
    )
    seconds: int | None = Field(
        description=(
            "Seconds from the score of the first of the `tasks` to the block in `as_of`; null if "
            "the node is not a member, or if there are no such tasks."
        )
    )
    per_day: Integer | None = Field(
        description=(
            "Fees per day at the rate of the last `seconds`; null if `seconds` is null or less "
            "than an hour."
        )
    )
    losses: list[RankLoss] = Field(description="Fees lost at each rank, best rank first.")
    today: int = Field(
        description="Block time at which the current day (UTC) began, in unix seconds."
    )
    tasks_today: int = Field(description="Number of the `tasks` that were scored since `today`.")
    lost_today: Integer = Field(
        description="Part of `losses` that belongs to tasks scored since `today`."
    )
    assumption: str = _ASSUMPTION


def build_node_money(record: AdviceRecord) -> NodeMoney:
    """Return a node's earnings from the tasks that count, and the fees lost to lower ranks."""
    paid_tasks = [
        scored_task for scored_task in record.scored_tasks if scored_task.fee_share is not None
    ]
    earned_fees = sum(scored_task.fee_share or 0 for scored_task in paid_tasks)
    elapsed_seconds = None
    if paid_tasks and record.node.membership is Membership.MEMBER:
        elapsed_seconds = record.time - paid_tasks[0].entry.time
    score_losses = [
        (scored_task.entry, loss)
        for scored_task in paid_tasks
        if (loss := compute_rank_loss(scored_task, record.rules)) is not None
    ]
    day_start = record.time // _DAY_SECONDS * _DAY_SECONDS
    return NodeMoney(
        stake=record.node.stake,
        earned=earned_fees,
        tasks=len(paid_tasks),
        without_fee=len(record.entries) - len(paid_tasks),
        seconds=elapsed_seconds,
        per_day=None
        if elapsed_seconds is None or elapsed_seconds < _MIN_SECONDS
        else earned_fees * _DAY_SECONDS // elapsed_seconds,
        losses=_sum_losses_by_rank(score_losses),
        today=day_start,
        tasks_today=sum(scored_task.entry.time >= day_start for scored_task in paid_tasks),
        lost_today=sum(loss for entry, loss in score_losses if entry.time >= day_start),
    )


def _sum_losses_by_rank(losses: Iterable[tuple[ScoreEntry, int]]) -> list[RankLoss]:
    losses_by_rank: dict[int | None, list[int]] = defaultdict(list)
    for entry, loss in losses:
        losses_by_rank[entry.rank].append(loss)
    return [
        RankLoss(rank=rank, tasks=len(amounts), amount=sum(amounts))
        for rank, amounts in sorted(
            losses_by_rank.items(), key=lambda item: (item[0] is None, item[0] or 0)
        )
    ]


def compute_rank_loss(scored_task: ScoredTask, rules: Rules) -> int | None:
    """Return the fee that a node lost because it did not rank one place better in its group.

    The result is None for the first rank, or if the fee is not known. The loss is computed as if
    the node had the score of the member one rank better, and that member had the node's score. A
    node without an answer is compared with the last rank.
    """
    task_key, rank = scored_task.entry.task, scored_task.entry.rank
    members = scored_task.group.members
    if rank == 1 or scored_task.fee is None:
        return None
    new_scores = {task_key: compute_last_place_score(scored_task, rules)}
    if rank is not None:
        better_member = next(member for member in members if member.rank == rank - 1)
        new_scores = {
            task_key: better_member.score or 0,
            better_member.task: scored_task.entry.score,
        }
    changed_members = [
        member._replace(score=new_scores[member.task]) if member.task in new_scores else member
        for member in members
    ]
    better_share = split_group_fee(scored_task.fee, changed_members)[task_key]
    return max(0, better_share - (scored_task.fee_share or 0))
