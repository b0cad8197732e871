"""One node: its score here and on chain, its place, and how far it is from what it fears."""

from pydantic import Field

from oracle.domain.fixed_point import UNIT, decimal_text
from oracle.domain.ids import TaskKey
from oracle.domain.reports.lanes import DO_NOT_SELECT, NEVER_REPORTED, lane_of, word_of
from oracle.domain.scoring.group_ranking import fee_shares
from oracle.domain.scoring.legacy_tally import start_of, tally_at
from oracle.domain.scoring.node_scores import (
    exclusion_end_time,
    factors_of,
    is_excluded,
    is_kickout_due,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.group import GroupResult
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.queries.answers import (
    Answer,
    ApiModel,
    FractionText,
    IntegerText,
)
from oracle.queries.api.lifting import NodeLift, lift_of
from oracle.queries.api.node_list import (
    NodeEntry,
    entries,
    fraction_of_lane,
    fraction_or_none,
)
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.kickout_models import ProposedKickout
from oracle.queries.kickout_view import proposed_kickout


class OnChainScore(ApiModel):
    """What the oracle contract holds about a node."""

    index: int = Field(description="Its lane in the contract.")
    lane: int = Field(ge=0, le=65_535, description="As stored; 0: never reported.")
    is_selectable: bool
    qos: FractionText | None = Field(description="null: never reported, or not selectable.")
    round: int | None = Field(description="That wrote the word of the lane.")
    time: int | None
    is_current: bool = Field(description="The lane says what would be reported now.")


class KickoutProgress(ApiModel):
    """How far a node is from being kicked out."""

    is_due: bool
    due_since_block: int | None
    scores: int = Field(
        description="In the pool, or legacy's window; a kickout needs `pool_size` of them."
    )
    pool_size: int
    mean: FractionText | None = Field(description="Of these, in points; null: there are none.")
    below: FractionText = Field(description="Kickout is due below this mean, in points.")
    proposed: ProposedKickout | None


class NodeFactors(ApiModel):
    """Under legacy rules: what Q is the weighted sum of, and the window behind it."""

    size: FractionText = Field(description="R, its memory beside the largest.")
    promptness: FractionText = Field(description="P, its timeout beside the longest.")
    speed: FractionText | None = Field(description="B; null: no task in the window, counts as 0.")
    node_score: FractionText | None = Field(description="Mean of the window, 0 to 20.")
    tasks: int = Field(description="Scored in the window.")
    window_began: int = Field(description="Unix seconds.")


class Earned(ApiModel):
    """Of the fees of the tasks in the pool, by the split of the rules; not what was paid out."""

    tasks: int
    amount: IntegerText = Field(description="In the fee's smallest unit.")
    without_fee: int = Field(description="Tasks whose fee is not known.")


class NodeView(Answer):
    """One node; `row` is its row of the list."""

    row: NodeEntry
    members: int = Field(description="`row.place` is one of so many.")
    models: list[str]
    version: str | None
    stake: IntegerText | None
    pool: list[int] = Field(description="The task scores that count, oldest first.")
    pool_size: int
    excluded: bool
    excluded_below: FractionText
    back_at: int | None = Field(
        description="When H, healing alone, ends the exclusion; unix seconds; null: not excluded."
    )
    kickout: KickoutProgress
    on_chain: OnChainScore | None = Field(description="null: the contract does not know it.")
    earned: Earned
    factors: NodeFactors | None = Field(description="null: the rules are no legacy ones.")
    lift: NodeLift = Field(description="What would change its standing, played by the fold.")


def node_view(look: ApiSnapshot, node: Node) -> NodeView:
    """Return everything of a node that one page shows."""
    rules, time = look.source.archive.rules, look.cursor.time
    ranking = look.ranking()
    is_out = is_excluded(node, time, rules)
    return NodeView(
        as_of=look.as_of,
        row=entries(look, [node])[0],
        members=ranking.members,
        models=list(node.models),
        version=None if node.version is None else ".".join(map(str, node.version)),
        stake=None if node.stake is None else str(node.stake),
        pool=list(node.pool),
        pool_size=rules.pool_size,
        excluded=is_out,
        excluded_below=decimal_text(rules.exclude_enter),
        back_at=exclusion_end_time(node.base, node.since, rules) if is_out else None,
        kickout=_kickout(look, node, rules),
        on_chain=_on_chain(look, node),
        earned=_earned(look, node),
        factors=_factors(look, node, rules),
        lift=lift_of(node, time, rules, ranking),
    )


def _kickout(look: ApiSnapshot, node: Node, rules: Rules) -> KickoutProgress:
    kicks = look.uow.rounds.about([node.address]).kicks.values()
    found = next(iter(kicks), None)
    since, scores, mean = node.kickout_due_since, len(node.pool), None
    needed, below = rules.pool_size, rules.kickout_below
    if rules.legacy is not None:
        tally = tally_at(node, look.cursor.time, rules.legacy)
        scores, mean = tally.tasks, tally.node_score
        needed, below = rules.legacy.kickout_tasks, rules.legacy.kickout_below
    elif node.pool:
        mean = node.pool_sum * UNIT // len(node.pool)
    return KickoutProgress(
        is_due=is_kickout_due(node, rules, look.cursor.time),
        due_since_block=None if since is None else since.block,
        scores=scores,
        pool_size=needed,
        mean=fraction_or_none(mean),
        below=decimal_text(below),
        proposed=None if found is None else proposed_kickout(found),
    )


def _factors(look: ApiSnapshot, node: Node, rules: Rules) -> NodeFactors | None:
    found = factors_of(node, look.cursor.time, rules, look.ranking().peers)
    if found is None or rules.legacy is None:
        return None
    return NodeFactors(
        size=decimal_text(found.size),
        promptness=decimal_text(found.promptness),
        speed=fraction_or_none(found.speed),
        node_score=fraction_or_none(found.tally.node_score),
        tasks=found.tally.tasks,
        window_began=start_of(found.tally.window, rules.legacy),
    )


def _on_chain(look: ApiSnapshot, node: Node) -> OnChainScore | None:
    rounds = look.uow.rounds.about([node.address])
    index = rounds.index_by_node.get(node.address)
    if index is None:
        return None
    lane, word = rounds.lane_at(index), rounds.words.get(word_of(index))
    rules = look.source.archive.rules
    now = lane_of(node, look.cursor.time, rules, look.ranking().peers)
    return OnChainScore(
        index=index,
        lane=lane,
        is_selectable=lane not in (NEVER_REPORTED, DO_NOT_SELECT),
        qos=fraction_of_lane(lane),
        round=None if word is None else word.round,
        time=None if word is None else word.time,
        is_current=lane == now,
    )


def _earned(look: ApiSnapshot, node: Node) -> Earned:
    results = look.uow.results.of_node(node.address, look.source.archive.rules.pool_size)
    tasks = look.uow.tasks.named({member.task for one in results for member in one.members})
    shares = [share for one in results for share in _shares(one, node, tasks)]
    known = [share for share in shares if share is not None]
    return Earned(tasks=len(shares), amount=str(sum(known)), without_fee=len(shares) - len(known))


def _shares(result: GroupResult, node: Node, tasks: dict[TaskKey, Task]) -> list[int | None]:
    """Return the node's share of each task of a group that it had; None: no fee is known."""
    counted = [member for member in result.members if member.score is not None]
    shares: list[int | None] = []
    for place, member in enumerate(counted):
        if member.node != node.address:
            continue
        task = tasks.get(member.task)
        fee = None if task is None else task.fee
        split = None if fee is None else fee_shares(fee, [one.score or 0 for one in counted])
        shares.append(None if split is None else split[place])
    return shares
