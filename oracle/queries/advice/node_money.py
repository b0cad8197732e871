"""What a node earns, and what each timeout and each lower place cost it.

All amounts are in the smallest unit of the network's token, by the split of the rules; the network
may have paid others (docs/explanation/legacy.md#money).
"""

from collections import defaultdict

from pydantic import Field

from oracle.domain.scoring.group_ranking import split_fee
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

    rank: int | None = Field(description="null: no right answer.")
    tasks: int
    amount: Integer = Field(description="Lost against the next better place.")


class NodeMoney(ApiModel):
    """The stake and the fees of a node; amounts in the token's smallest unit."""

    stake: Integer | None
    earned: Integer = Field(description="Its share of the fees of its last scored tasks.")
    tasks: int = Field(description="Scored tasks with a known fee.")
    seconds: int = Field(description="From the first of these tasks to the block.")
    per_day: Integer | None = Field(description="null: less than an hour passed.")
    losses: list[RankLoss] = Field(description="Best place first.")
    assumption: str = _ASSUMPTION


def build_node_money(record: AdviceRecord) -> NodeMoney:
    """Return what a node earned by its last scored tasks."""
    shares: list[int] = []
    losses_by_rank: dict[int | None, list[int]] = defaultdict(list)
    for scored in record.scored_tasks:
        share, better_share = _compute_shares(record, scored)
        if share is not None:
            shares.append(share)
        if share is not None and better_share is not None:
            losses_by_rank[scored.entry.rank].append(max(0, better_share - share))
    seconds = record.time - record.entries[0].time if record.entries else 0
    return NodeMoney(
        stake=record.node.stake,
        earned=sum(shares),
        tasks=len(shares),
        seconds=seconds,
        per_day=sum(shares) * _DAY_SECONDS // seconds if seconds >= _MIN_SECONDS else None,
        losses=[
            RankLoss(rank=rank, tasks=len(amounts), amount=sum(amounts))
            for rank, amounts in sorted(
                losses_by_rank.items(), key=lambda item: (item[0] is None, item[0] or 0)
            )
        ],
    )


def _compute_shares(record: AdviceRecord, scored: ScoredTask) -> tuple[int | None, int | None]:
    """Return a node's share of its task's fee, and what the next better place would have brought.

    The first is None if the fee is not known; the second also for a first place.
    """
    task = record.task_by_key.get(scored.entry.task)
    if task is None or task.fee is None:
        return None, None
    members = [member for member in scored.group.members if member.score is not None]
    scores = [member.score or 0 for member in members]
    own = next(i for i, member in enumerate(members) if member.task == scored.entry.task)
    share, rank = split_fee(task.fee, scores)[own], scored.entry.rank
    if rank == 1:
        return share, None
    better_scores = list(scores)
    if rank is None:
        better_scores[own] = compute_last_place_score(scored, record.rules)
    else:
        better = next(i for i, member in enumerate(members) if member.rank == rank - 1)
        better_scores[own], better_scores[better] = scores[better], scores[own]
    return share, split_fee(task.fee, better_scores)[own]
