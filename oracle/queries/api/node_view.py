"""One node: its score here and on chain, its place, and its distance from exclusion and kickout."""

from pydantic import Field

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import TaskKey
from oracle.domain.reports.lanes import DO_NOT_SELECT, NEVER_REPORTED, word_of
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.group_ranking import fee_shares
from oracle.domain.state.group import GroupResult
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.queries.answers import Answer, ApiModel, FixedPoint, Integer
from oracle.queries.api.lifting import NodeLift, lift_of
from oracle.queries.api.node_list import population_at
from oracle.queries.api.source import ApiSnapshot
from oracle.queries.kickout_models import ProposedKickout
from oracle.queries.kickout_view import proposed_kickout
from oracle.queries.node_models import NodeEntry
from oracle.queries.population import Population, node_entry


class OnChainScore(ApiModel):
    """The score of a node as the oracle contract stores it."""

    index: int = Field(description="Its lane in the contract.")
    lane: int = Field(ge=0, le=65_535, description="As stored; 0: never reported.")
    is_selectable: bool
    qos: FixedPoint | None = Field(description="null: never reported, or not selectable.")
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
    mean: FixedPoint | None = Field(description="Of these, in points; null: there are none.")
    below: FixedPoint = Field(description="Kickout is due below this mean, in points.")
    proposed: ProposedKickout | None


class Earned(ApiModel):
    """The node's share of the fees of the tasks in its pool, by the rules; not the payments."""

    tasks: int
    amount: Integer = Field(description="In the fee's smallest unit.")
    without_fee: int = Field(description="Tasks whose fee is not known.")


class NodeView(Answer):
    """One node; `row` is its row in the list of nodes."""

    row: NodeEntry
    members: int = Field(description="`row.place` is one of so many.")
    models: list[str]
    version: str | None
    stake: Integer | None
    pool: list[int] = Field(description="The task scores that count, oldest first.")
    pool_size: int
    excluded_below: FixedPoint
    kickout: KickoutProgress
    on_chain: OnChainScore | None = Field(description="null: the contract does not know it.")
    earned: Earned
    lift: NodeLift = Field(description="What would change its standing, played by the fold.")


def node_view(look: ApiSnapshot, node: Node) -> NodeView:
    """Return the data of a node's page."""
    ranking, population = look.ranking(), population_at(look, [node])
    rules, figures = population.rules, population.figures(node)
    row = node_entry(node, figures, population, ranking.place_by(node.address, figures.qos))
    return NodeView(
        as_of=look.as_of,
        row=row,
        members=ranking.members,
        models=list(node.models),
        version=None if node.version is None else ".".join(map(str, node.version)),
        stake=node.stake,
        pool=list(node.pool),
        pool_size=rules.pool_size,
        excluded_below=rules.exclude_enter,
        kickout=_kickout(population, node, row),
        on_chain=_on_chain(population.rounds, row),
        earned=_earned(look, node),
        lift=lift_of(node, population.time, rules, ranking),
    )


def _kickout(population: Population, node: Node, row: NodeEntry) -> KickoutProgress:
    rules, since = population.rules, node.kickout_due_since
    proposed = population.rounds.kicks.get(node.address)
    scores, mean = len(node.pool), None
    needed, below = rules.pool_size, rules.kickout_below
    if rules.legacy is not None and row.legacy is not None:
        scores, mean = row.legacy.tasks, row.legacy.node_score
        needed, below = rules.legacy.kickout_tasks, rules.legacy.kickout_below
    elif node.pool:
        mean = node.pool_sum * UNIT // len(node.pool)
    return KickoutProgress(
        is_due=row.kickout_due,
        due_since_block=None if since is None else since.block,
        scores=scores,
        pool_size=needed,
        mean=mean,
        below=below,
        proposed=None if proposed is None else proposed_kickout(proposed),
    )


def _on_chain(rounds: Rounds, row: NodeEntry) -> OnChainScore | None:
    if row.index is None:
        return None
    lane, word = row.lane_on_chain, rounds.words.get(word_of(row.index))
    return OnChainScore(
        index=row.index,
        lane=lane,
        is_selectable=lane not in (NEVER_REPORTED, DO_NOT_SELECT),
        qos=row.on_chain,
        round=None if word is None else word.round,
        time=None if word is None else word.time,
        is_current=lane == row.lane,
    )


def _earned(look: ApiSnapshot, node: Node) -> Earned:
    results = look.uow.results.of_node(node.address, look.source.archive.rules.pool_size)
    tasks = look.uow.tasks.named({member.task for one in results for member in one.members})
    shares = [share for one in results for share in _shares(one, node, tasks)]
    known = [share for share in shares if share is not None]
    return Earned(tasks=len(shares), amount=sum(known), without_fee=len(shares) - len(known))


def _shares(result: GroupResult, node: Node, tasks: dict[TaskKey, Task]) -> list[int | None]:
    """Return the node's fee share of each of its tasks in a group; None if a fee is not known."""
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
