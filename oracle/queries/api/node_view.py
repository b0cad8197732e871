"""Answers about one node: its computed and on-chain scores, rank, margins and explanation."""

from pydantic import Field

from oracle.domain.blocks import BlockRef
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import ZERO_HASH, Address
from oracle.domain.reports.lanes import DO_NOT_SELECT, NEVER_REPORTED
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.state import Node
from oracle.errors import InputError
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.indexer.provenance import find_stored_block
from oracle.queries.answers import Answer, ApiModel, FixedPoint, Integer
from oracle.queries.api.lifting import NodeLift, compute_what_if_counts
from oracle.queries.api.node_list import load_current_population
from oracle.queries.api.source import (
    ApiSnapshot,
    ApiSource,
    NotFoundError,
    RequestError,
    open_snapshot,
)
from oracle.queries.explain import Explanation, explain_score
from oracle.queries.explanation_models import NodeExplanation
from oracle.queries.explanation_view import build_explanation_view
from oracle.queries.kickout_models import ContractKickout, build_contract_kickout
from oracle.queries.node_models import NodeEntry, QosIntervalView, build_qos_interval
from oracle.queries.objection_models import (
    ObjectionDelayEntry,
    ObjectionEntry,
    build_objection_entries,
    load_objection_delay_entries,
)
from oracle.queries.population import OnChainScores, Population, build_node_entry


class OnChainScore(ApiModel):
    """The score of a node in the last accepted round, whose root proves it on chain."""

    seat: int = Field(description="Index of the node's leaf in the tree of the round.")
    lane: int = Field(
        ge=1,
        le=65_535,
        description=(
            "The node's lane in its leaf: 1 if it must not be selected, else its QoS in steps "
            "of 0.0001, plus 2."
        ),
    )
    is_selectable: bool
    qos: FixedPoint | None = Field(
        description="The node's QoS in the round; null if the node must not be selected."
    )
    round: int
    time: int = Field(description="Time of the block that accepted the round, in unix seconds.")
    is_current: bool = Field(
        description="Whether a report at the current block would contain the same lane."
    )


class KickoutProgress(ApiModel):
    """The progress of a node towards a kickout."""

    is_due: bool
    due_since_block: int | None
    due_since: int | None = Field(
        description=(
            "Block time since which the kickout is due, in unix seconds; it identifies the "
            "kickout in an objection. null if no kickout is due."
        )
    )
    scores: int = Field(
        description=(
            "Number of scores in the pool, or in the window of legacy rules. A kickout requires "
            "`pool_size` scores."
        )
    )
    pool_size: int
    mean: FixedPoint | None = Field(
        description="Mean of these scores, in points; null if there are no scores."
    )
    below: FixedPoint = Field(description="Mean score, in points, below which a kickout is due.")
    obstacle: str | None = Field(
        description=(
            "Why no account can accuse the node although its kickout is due; null if accounts can "
            "accuse it once an accepted round contains the kickout, or if no kickout is due."
        )
    )
    object_until: int | None = Field(
        description=(
            "Latest block time, included, at which an objection can still delay the accusation, "
            "in unix seconds; null if no kickout is due, or if objections are not indexed."
        )
    )
    on_chain: ContractKickout | None = Field(
        description=(
            "State of the kickout in the contract; null if no event of the contract concerns the "
            "node's kickout."
        )
    )


class NodeView(Answer):
    """The answer about a single node; `row` is the node's row in the list of nodes."""

    row: NodeEntry
    interval: QosIntervalView | None = Field(
        description=(
            "The 90 % interval of the QoS; null if the node is not a member or has no scores, if "
            "legacy rules apply, or if a mean of 0 counts as no score."
        )
    )
    members: int = Field(
        description="Number of members; `row.place` is the node's place among them."
    )
    models: list[str]
    version: str | None
    stake: Integer | None
    pool: list[int] = Field(
        description="The task scores in the node's pool, in points, oldest first."
    )
    pool_size: int
    excluded_below: FixedPoint
    kickout: KickoutProgress
    on_chain: OnChainScore | None = Field(
        description=(
            "The node's score in the last accepted round; null if there is no such round, if it "
            "was struck, if it has no leaf of the node, or if its leaves are not stored."
        )
    )
    objections: list[ObjectionEntry] = Field(
        description="The node's newest objections, at most 50, newest first."
    )
    objection_delay: ObjectionDelayEntry | None = Field(
        description=(
            "Why this reporter does not accuse the node yet; null if neither an objection nor the "
            "time left to object delays the accusation."
        )
    )
    lift: NodeLift = Field(
        description=(
            "Numbers of events that would change the node's rank, reliability or kickout, "
            "according to a simulation."
        )
    )


def build_node_view(snapshot: ApiSnapshot, node: Node) -> NodeView:
    """Return the data of a node's page."""
    ranking = snapshot.get_ranking()
    population = load_current_population(snapshot)
    policy = snapshot.source.archive.kickout_policy
    rules = population.rules
    node_scores = population.compute_node_scores(node)
    row = build_node_entry(
        node, node_scores, population, ranking.find_rank_by_qos(node.address, node_scores.qos)
    )
    return NodeView(
        as_of=snapshot.as_of,
        row=row,
        interval=build_qos_interval(node, population.time, rules),
        members=ranking.member_count,
        models=list(node.models),
        version=None if node.version is None else ".".join(map(str, node.version)),
        stake=node.stake,
        pool=list(node.pool),
        pool_size=rules.pool_size,
        excluded_below=rules.exclude_enter,
        kickout=_build_kickout_progress(snapshot, population, node, row),
        on_chain=_build_on_chain_score(population.on_chain, row),
        objections=build_objection_entries(
            snapshot.uow, snapshot.uow.objections.list_for_node(node.address), policy
        ),
        objection_delay=load_objection_delay_entries(
            snapshot.uow, [node], policy, snapshot.cursor.time
        ).get(node.address),
        lift=compute_what_if_counts(node, population.time, rules, ranking),
    )


def _build_kickout_progress(
    snapshot: ApiSnapshot, population: Population, node: Node, row: NodeEntry
) -> KickoutProgress:
    rules, since = population.rules, node.kickout_due_since
    kick = snapshot.uow.rounds.get_kick_by_node([node.address]).get(node.address)
    terms, due_since = snapshot.source.archive.objection_terms, node.kickout_due_time
    score_count = len(node.pool)
    mean_score = None
    required_scores, threshold = rules.pool_size, rules.kickout_below
    if rules.legacy is not None and row.legacy is not None:
        score_count, mean_score = row.legacy.tasks, row.legacy.node_score
        required_scores, threshold = rules.legacy.kickout_tasks, rules.legacy.kickout_below
    elif node.pool:
        mean_score = node.pool_sum * UNIT // len(node.pool)
    return KickoutProgress(
        is_due=row.kickout_due,
        due_since_block=None if since is None else since.block,
        due_since=due_since,
        scores=score_count,
        pool_size=required_scores,
        mean=mean_score,
        below=threshold,
        obstacle=_find_kickout_obstacle(snapshot, node, kick) if row.kickout_due else None,
        object_until=None if terms is None or due_since is None else due_since + terms.window,
        on_chain=None if kick is None else build_contract_kickout(kick),
    )


def _find_kickout_obstacle(snapshot: ApiSnapshot, node: Node, kick: NodeKick | None) -> str | None:
    """Return why the contract would reject a proposal of the node's due kickout.

    The result is None if the contract would accept the proposal.
    """
    due_since = node.kickout_due_time
    if kick is not None and due_since is not None and kick.is_safe_from_accusation(due_since):
        return "the vetoer cancelled this kickout, or the node was readmitted since"
    if kick is not None and kick.allowed == due_since:
        return None
    policy = snapshot.source.archive.kickout_policy
    reason = load_kickout_review(snapshot.uow, node, policy).hold_reason
    if reason is None:
        return None
    return f"the kickout is held until the vetoer allows it, because {reason}"


def _build_on_chain_score(on_chain: OnChainScores, row: NodeEntry) -> OnChainScore | None:
    accepted_round, lane = on_chain.accepted, row.lane_on_chain
    if accepted_round is None or lane == NEVER_REPORTED:
        return None
    return OnChainScore(
        seat=row.seat,
        lane=lane,
        is_selectable=lane != DO_NOT_SELECT,
        qos=row.on_chain,
        round=accepted_round.round,
        time=accepted_round.time,
        is_current=lane == row.lane,
    )


class ExplanationAnswer(Answer):
    """All numbers that a score is computed from, each with its log."""

    explanation: NodeExplanation = Field(
        description=(
            "How the score is computed, as `qos-oracle explain --json` prints it "
            "(docs/reference/read-api.md#explain)."
        )
    )


def build_node_explanation(
    source: ApiSource, address: Address, block_number: int | None
) -> ExplanationAnswer:
    """Explain a node's score at a block, by default at the cursor's block.

    Raises:
        RequestError: the block is above the last indexed block.
        NotFoundError: the node was not seen up to the block, or the time of the block is not
            stored.
    """
    with open_snapshot(source) as snapshot:
        as_of = snapshot.as_of
        block = _resolve_block(snapshot, block_number)
    return ExplanationAnswer(
        as_of=as_of,
        explanation=build_explanation_view(
            explain_known_node(source, address, block), source.labels
        ),
    )


def explain_known_node(source: ApiSource, address: Address, block: BlockRef) -> Explanation:
    """Explain a node's score; raise NotFoundError if no event up to the block names the node."""
    try:
        return explain_score(source.archive, address, block, source.rankings.get_ranking)
    except InputError as error:
        raise NotFoundError(str(error)) from error


def _resolve_block(snapshot: ApiSnapshot, block_number: int | None) -> BlockRef:
    """Look up the requested block, by default the cursor's, in the stored headers and logs."""
    cursor = snapshot.cursor
    if block_number is None or block_number == cursor.number:
        return BlockRef(cursor.number, cursor.hash, ZERO_HASH, cursor.time)
    if block_number > cursor.number:
        raise RequestError(
            f"block {block_number} is not indexed; the last indexed block is {cursor.number}"
        )
    stored_block = find_stored_block(snapshot.uow, block_number)
    if stored_block is None:
        raise NotFoundError(
            f"block {block_number}: its time is unknown, because it has no event and its header "
            "is not stored; choose a block with an event"
        )
    return stored_block
