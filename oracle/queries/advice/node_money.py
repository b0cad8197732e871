"""What a node earns, and what each timeout and each lower place cost it.

All amounts are in the smallest unit of the network's token, by the split of the rules; the network
may have paid others (docs/explanation/legacy.md#money).
"""

from collections import defaultdict
from collections.abc import Iterable

from pydantic import Field

from oracle.domain.scoring.group_ranking import split_group_fee
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.queries.advice.advice_record import AdviceRecord, ScoredTask
from oracle.queries.advice.what_if import compute_last_place_score
from oracle.queries.answers import ApiModel, Integer

_DAY_SECONDS = 86_400
# Fees per day are not estimated from less time.
_MIN_SECONDS = 3_600
_ASSUMPTION = (
    "The fee of each task as the rules share it; a lower place is compared with the next better "
    "one in the same group, and no answer with an answer in last place."
)


class RankLoss(ApiModel):
    """What a rank cost a node in all groups in which it had this rank."""

    rank: int | None = Field(description="null if there is no right answer.")
    tasks: int
    amount: Integer = Field(description="Lost against the next better place.")


class NodeMoney(ApiModel):
    """The stake and the fees of a node; amounts in the token's smallest unit."""

    stake: Integer | None
    earned: Integer = Field(description="Its share of the fees of the scored tasks that count.")
    tasks: int = Field(description="Scored tasks with a known fee.")
    without_fee: int = Field(description="Scored tasks whose fee is not known.")
    seconds: int | None = Field(
        description="From the first of `tasks` to the block; null if not a member, or if none."
    )
    per_day: Integer | None = Field(
        description="Fees per day in `seconds`; null if `seconds` is null or below an hour."
    )
    losses: list[RankLoss] = Field(description="Best place first.")
    assumption: str = _ASSUMPTION


def build_node_money(record: AdviceRecord) -> NodeMoney:
    """Return what a node earned by the scored tasks that count, and what lower places cost it."""
    fees = [
        (scored_task, task.fee)
        for scored_task in record.scored_tasks
        if (task := record.task_by_key.get(scored_task.entry.task)) and task.fee is not None
    ]
    earned = sum(_compute_share(scored_task, fee) for scored_task, fee in fees)
    seconds = None
    if fees and record.node.membership is Membership.MEMBER:
        seconds = record.time - fees[0][0].entry.time
    return NodeMoney(
        stake=record.node.stake,
        earned=earned,
        tasks=len(fees),
        without_fee=len(record.entries) - len(fees),
        seconds=seconds,
        per_day=None
        if seconds is None or seconds < _MIN_SECONDS
        else earned * _DAY_SECONDS // seconds,
        losses=_list_losses(fees, record.rules),
    )


def _list_losses(fees: Iterable[tuple[ScoredTask, int]], rules: Rules) -> list[RankLoss]:
    losses_by_rank: dict[int | None, list[int]] = defaultdict(list)
    for scored_task, fee in fees:
        better_share = _compute_better_share(scored_task, fee, rules)
        if better_share is not None:
            loss = max(0, better_share - _compute_share(scored_task, fee))
            losses_by_rank[scored_task.entry.rank].append(loss)
    return [
        RankLoss(rank=rank, tasks=len(losses), amount=sum(losses))
        for rank, losses in sorted(
            losses_by_rank.items(), key=lambda item: (item[0] is None, item[0] or 0)
        )
    ]


def _compute_share(scored_task: ScoredTask, fee: int) -> int:
    return split_group_fee(fee, scored_task.group.members)[scored_task.entry.task]


def _compute_better_share(scored_task: ScoredTask, fee: int, rules: Rules) -> int | None:
    """Return the share that the next better place would have brought; None for a first place.

    The node and the node in this place change their scores. A node without an answer would have
    been last.
    """
    task_key, rank = scored_task.entry.task, scored_task.entry.rank
    members = scored_task.group.members
    if rank == 1:
        return None
    new_scores = {task_key: compute_last_place_score(scored_task, rules)}
    if rank is not None:
        better_member = next(member for member in members if member.rank == rank - 1)
        new_scores = {
            task_key: better_member.score or 0,
            better_member.task: scored_task.entry.score,
        }
    changed_members = [
        member._replace(score=new_scores.get(member.task, member.score)) for member in members
    ]
    return split_group_fee(fee, changed_members)[task_key]
