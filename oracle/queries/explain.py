"""Explains a node's score by all entries behind it, with their transactions and logs.

The explanation is for node owners. At the cursor's block, the stored state is read. For an earlier
block, the node, its peers and the rounds are folded again from the stored logs. Scores, changes
and groups are the stored rows up to that block, while tasks are shown as of the cursor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from oracle.domain.blocks import BlockRef, Position
from oracle.domain.feed_rows import is_feed_position
from oracle.domain.fold.legacy_round_scores import build_group_runs
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.reports.kickout_evidence import (
    CreatorSpread,
    compute_creator_spread,
)
from oracle.domain.reports.lanes import (
    LOWEST_SCORE,
    NEVER_REPORTED,
    compute_node_lane_from_scores,
)
from oracle.domain.scoring.node_figures import NodeScores
from oracle.domain.scoring.node_scores import compute_pool_mean, count_effective_scores
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import GroupMember, Node, Run, Task
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.queries.explanation_models import (
    EarningView,
    LaneOnChain,
    SentLane,
    build_event_origin,
    compute_task_earning,
)
from oracle.queries.incident_models import TimeoutMarks, load_timeout_marks
from oracle.queries.objection_models import (
    ObjectionDelayEntry,
    ObjectionEntry,
    build_objection_entries,
    load_objection_delay_entries,
)
from oracle.queries.population import (
    OnChainScores,
    Population,
    RankedNodes,
    compute_qos_rank,
    load_on_chain_scores,
    load_population,
    load_ranked_population,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.rule_set_repository import RuleSet

if TYPE_CHECKING:
    from oracle.chain.source import ChainSource


# Maximum number of changes that are read. No node can have so many.
_MAX_CHANGES = 1 << 31


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reasons for a node's score as of a block; times are in seconds, H in units of 10^-18.

    `scores` are the entries of the score pool, or of the current window under legacy rules.
    `changes` are all changes of H. Both are oldest first. `members_by_position` maps the position
    at which a group closed to the members of this group, for each group that gave the node a
    score. `transaction_by_position` maps the position of an event to its transaction.
    """

    as_of: BlockRef
    # The state of the rest of the network, as of the block, on which the node's scores depend.
    population: Population
    node: Node
    node_scores: NodeScores
    # Rank of the node by QoS, from 1. It is None if the node has no QoS.
    place: int | None
    scores: list[ScoreEntry]
    # Rule set of each score whose rule set is stored, by the score's `seq`.
    rule_set_by_score: dict[int, RuleSet]
    changes: list[ReliabilityChange]
    kickouts: list[KickoutDue]
    members_by_position: dict[Position, tuple[GroupMember, ...]]
    transaction_by_position: dict[Position, Hash]
    # Tasks of `scores`, of the other members of their groups, and of `changes`, by key.
    task_by_key: dict[TaskKey, Task]
    on_chain_lane: LaneOnChain | None
    # The lane in the accepted round with this as-of block. It is None if there is no such round,
    # or if the round has no leaf for the node.
    reported_lane: SentLane | None
    # The change that began the current membership. It is None if the node was never a member.
    membership_change: MembershipChange | None = None
    # Reason for which the node's due kickout needs an operator's approval. It is None if the
    # kickout needs no approval or is not due.
    hold_reason: str | None = None
    # Positions of groups, since the oldest score, that may have given the node a score of 0 that
    # was not recorded.
    possible_zeros: tuple[Position, ...] = ()
    # Objections up to the block, newest first. Their checks and answers are as of the cursor.
    objections: list[ObjectionEntry] = field(default_factory=list)
    # The objection for which this reporter delays the accusation. It is None if there is none, or
    # if the block is below the cursor.
    objection_delay: ObjectionDelayEntry | None = None
    # Incidents during which the timeouts among `changes` happened.
    timeout_marks: TimeoutMarks = field(default_factory=lambda: TimeoutMarks({}))

    @property
    def rules(self) -> Rules:
        """Return the rules that score the node."""
        return self.population.rules

    @property
    def pool(self) -> bytes:
        """Return the scores in the score pool, or those in the window under legacy rules."""
        if self.rules.legacy is None:
            return self.node.pool
        return bytes(entry.score for entry in self.scores)

    @property
    def lane(self) -> int:
        """The lane value of the node in a report as of the block."""
        return compute_node_lane_from_scores(self.node_scores)

    @property
    def min_long_term_score(self) -> int:
        """The lower bound of Q_long / Q_max, reached if every possible 0 counts."""
        dated_scores = [(entry.at, entry.score) for entry in self.scores]
        dated_scores += [(position, self.rules.absent_score) for position in self.possible_zeros]
        score_pool = bytes(score for _, score in sorted(dated_scores)[-self.rules.pool_size :])
        long_term = self.node_scores.long_term
        if dated_scores:
            return min(long_term, compute_pool_mean(score_pool, self.node.prior, self.rules))
        return long_term

    def compute_earning(self, entry: ScoreEntry) -> EarningView | None:
        """Return what the node earned from a scored task, or None if unknown.

        The amount is as of the cursor.
        """
        return compute_task_earning(
            entry.task, self.members_by_position.get(entry.at, ()), self.task_by_key
        )

    def get_task_runs(self, entry: ScoreEntry) -> Sequence[Run]:
        """Return the runs of a two-round legacy task, or an empty list for any other task."""
        task = self.task_by_key.get(entry.task)
        if task is not None and task.runs:
            return task.runs
        member_tasks = [
            self.task_by_key.get(member.task)
            for member in self.members_by_position.get(entry.at, ())
        ]
        return list(build_group_runs([task for task in member_tasks if task is not None]).values())

    @property
    def creator_spread(self) -> CreatorSpread:
        """The distribution of the node's scores over the creators of the tasks."""
        return compute_creator_spread(
            ((self.find_creator(entry.task), entry.score) for entry in self.scores), self.rules
        )

    def find_creator(self, task_key: TaskKey) -> Address | None:
        """Return the creator of a task, or None if the task did not exist at the block."""
        return find_task_creator_at_block(self.task_by_key, task_key, self.as_of.number)


def find_task_creator_at_block(
    tasks: Mapping[TaskKey, Task], task_key: TaskKey, block: int
) -> Address | None:
    """Return the creator of a task, or None if the task did not exist at a block."""
    task = tasks.get(task_key)
    if task is None or task.created_at is None or task.created_at.block > block:
        return None
    return task.creator


def explain_score(
    archive: EventArchive,
    address: Address,
    as_of: BlockRef,
    get_ranking: Callable[[UnitOfWork, Cursor], RankedNodes] | None = None,
) -> Explanation:
    """Explain a node's score as of a block at or below the cursor.

    `get_ranking` returns the nodes as of a cursor. Without this argument, all nodes are read from
    the database, which takes a second for 100,000 nodes.

    Raises:
        InputError: no event up to this block refers to the node.
        NoNearbySnapshotError: no snapshot is near enough for `archive.max_logs`.
    """
    rules = archive.rules
    with archive.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        ranking = (
            None
            if get_ranking is None or cursor is None or cursor.number != as_of.number
            else get_ranking(uow, cursor)
        )
        if ranking is None:
            nodes, contract_state = _load_state_at_block(archive, uow, as_of)
        else:
            nodes, contract_state = ranking.nodes, uow.rounds.load_contract_state()
        on_chain = load_on_chain_scores(uow, contract_state.head)
        node = nodes.get(address)
        if node is None:
            raise InputError(
                f"{address}: no event up to block {as_of.number} refers to this node; "
                "`qos-oracle nodes` lists all nodes"
            )
        if ranking is None:
            population = load_population(uow, nodes.values(), as_of.time, rules, on_chain)
            node_scores = population.compute_node_scores(node)
            rank = compute_qos_rank(node, node_scores.qos, nodes.values(), population)
        else:
            population = load_ranked_population(uow, ranking, as_of.time, rules, on_chain)
            node_scores = population.compute_node_scores(node)
            rank = ranking.find_rank_by_qos(address, node_scores.qos)
        score_count = count_effective_scores(node, as_of.time, rules)
        scores = (
            uow.scores.list_for_node_up_to_block(address, as_of.number, score_count)
            if score_count
            else []
        )
        changes = uow.reliability.list_for_node(address, _MAX_CHANGES, up_to_block=as_of.number)
        kickout_intervals = list(
            _clip_intervals_at_block(uow.kickouts.list_for_node(address), as_of.number)
        )
        members_by_position = {
            result.closed_at: result.members
            for result in uow.results.list_closed_at([entry.at for entry in scores])
        }
        event_positions = [entry.at for entry in scores] + [change.at for change in changes]
        tasks = _load_tasks(uow, scores, members_by_position, changes)
        return Explanation(
            as_of=as_of,
            population=population,
            node=node,
            node_scores=node_scores,
            place=rank,
            scores=scores,
            rule_set_by_score=uow.scores.get_rule_set_by_seq(
                address, [entry.seq for entry in scores]
            ),
            changes=changes,
            kickouts=kickout_intervals,
            members_by_position=members_by_position,
            transaction_by_position=_load_transaction_hashes(uow, event_positions),
            task_by_key=tasks,
            timeout_marks=load_timeout_marks(
                uow,
                changes,
                lambda task_key: find_task_creator_at_block(tasks, task_key, as_of.number),
                up_to_block=as_of.number,
            ),
            on_chain_lane=_build_on_chain_lane(on_chain, node),
            reported_lane=_load_reported_lane(uow, node, as_of.number),
            membership_change=uow.memberships.find_effective_change(
                address, up_to_block=as_of.number
            ),
            hold_reason=None
            if node.kickout_due_since is None
            else load_kickout_review(uow, node, archive.kickout_policy).hold_reason,
            possible_zeros=_find_possible_zeros(archive, uow, node, scores, as_of),
            objections=_load_objections(archive, uow, address, as_of.number),
            objection_delay=_load_objection_delay(archive, uow, node, as_of),
        )


def _load_objections(
    archive: EventArchive, uow: UnitOfWork, node: Address, up_to_block: int
) -> list[ObjectionEntry]:
    objections = [
        objection
        for objection in uow.objections.list_for_node(node)
        if objection.at.block <= up_to_block
    ]
    return build_objection_entries(uow, objections, archive.kickout_policy)


def _load_objection_delay(
    archive: EventArchive, uow: UnitOfWork, node: Node, as_of: BlockRef
) -> ObjectionDelayEntry | None:
    cursor = uow.cursor.get()
    if cursor is None or cursor.number != as_of.number:
        return None
    policy = archive.kickout_policy
    return load_objection_delay_entries(uow, [node], policy, as_of.time).get(node.address)


def resolve_block(
    open_chain: "Callable[[], ChainSource]", store: Store, requested_number: int | None
) -> BlockRef:
    """Return the requested block, by default the last folded block.

    The endpoints are connected only if the block's header is not stored.

    Raises:
        InputError: nothing is indexed, or the block is beyond the index.
        TransientError: the header is no longer stored, and no endpoint serves it.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; run `qos-oracle run --once` first")
        block_number = cursor.number if requested_number is None else requested_number
        if not 0 <= block_number <= cursor.number:
            raise InputError(
                f"block {block_number} is not indexed; the last indexed block is {cursor.number}"
            )
        block = uow.blocks.find_canonical(block_number)
    return block or open_chain().fetch_header_at_or_below(block_number)


def find_as_of_block(store: Store, round_number: int) -> int:
    """Return the as-of block of an accepted round.

    Raises:
        InputError: the index has no such accepted round.
    """
    with store.read_transaction() as uow:
        accepted_round = uow.rounds.find_accepted_round(round_number)
    if accepted_round is None:
        raise InputError(f"round {round_number} was not accepted in the indexed blocks")
    return accepted_round.as_of


def _load_state_at_block(
    archive: EventArchive, uow: UnitOfWork, as_of: BlockRef
) -> tuple[Mapping[Address, Node], ContractState]:
    """Load all nodes and the contract's state as of a block."""
    cursor = uow.cursor.get()
    if cursor is not None and cursor.number == as_of.number:
        return {
            node.address: node for node in uow.nodes.iterate_all()
        }, uow.rounds.load_contract_state()
    folded_state = fold_state_up_to(
        uow,
        archive.reader,
        archive.rules,
        as_of.number,
        max_logs=archive.max_logs,
    )
    return folded_state.fold.ledger.nodes, folded_state.contract_state


def _find_possible_zeros(
    archive: EventArchive,
    uow: UnitOfWork,
    node: Node,
    scores: Sequence[ScoreEntry],
    as_of: BlockRef,
) -> tuple[Position, ...]:
    """Return the positions of possible zero scores that would still be in the pool.

    Only a feed may omit members of a group, so the result is empty without a feed.
    """
    if archive.reader.feed is None:
        return ()
    is_pool_full = len(node.pool) >= archive.rules.pool_size
    oldest_position = scores[0].at if scores and is_pool_full else Position(0, 0, 0, 0)
    positions = uow.results.list_possible_zero_scores(
        node.address, oldest_position.block, as_of.number
    )
    return tuple(
        position
        for position in positions
        if is_feed_position(position) and (position > oldest_position or not is_pool_full)
    )


def _load_tasks(
    uow: UnitOfWork,
    scores: Iterable[ScoreEntry],
    members_by_position: Mapping[Position, tuple[GroupMember, ...]],
    changes: Iterable[ReliabilityChange],
) -> dict[TaskKey, Task]:
    """Load the tasks of all scores, of their group members, and of all reliability changes."""
    task_keys = {entry.task for entry in scores}
    task_keys |= {member.task for members in members_by_position.values() for member in members}
    task_keys |= {change.task for change in changes if change.task is not None}
    return uow.tasks.get_many(task_keys)


def _clip_intervals_at_block(intervals: Iterable[KickoutDue], block: int) -> Iterable[KickoutDue]:
    """Yield the kickout intervals that opened up to a block.

    The end of an interval is removed if it is after the block.
    """
    for interval in intervals:
        if interval.opened_at.block <= block:
            is_open_at_block = interval.closed_at is not None and interval.closed_at.block > block
            yield replace(interval, closed_at=None) if is_open_at_block else interval


def _build_on_chain_lane(on_chain: OnChainScores, node: Node) -> LaneOnChain | None:
    lane = on_chain.get_lane(node)
    accepted_round = on_chain.accepted
    if accepted_round is None or lane == NEVER_REPORTED:
        return None
    return LaneOnChain(
        seat=node.seat,
        lane=lane,
        qos=max(0, lane - LOWEST_SCORE),
        round=accepted_round.round,
        time=accepted_round.time,
        as_of=accepted_round.as_of,
    )


def _load_reported_lane(uow: UnitOfWork, node: Node, as_of: int) -> SentLane | None:
    accepted_round = uow.rounds.find_accepted_as_of(as_of)
    if accepted_round is None:
        return None
    lane = load_on_chain_scores(uow, accepted_round).get_lane(node)
    return SentLane(
        **build_event_origin(accepted_round.at).model_dump(),
        round=accepted_round.round,
        transaction=_load_transaction_hashes(uow, [accepted_round.at]).get(accepted_round.at),
        lane=None if lane == NEVER_REPORTED else lane,
    )


def _load_transaction_hashes(
    uow: UnitOfWork, all_positions: Iterable[Position]
) -> dict[Position, Hash]:
    positions = set(all_positions)
    hash_by_log: dict[tuple[int, int], Hash] = {}
    for block in {position.block for position in positions}:
        for log in uow.logs.iterate_between(block, block):
            hash_by_log[(block, log.index)] = log.tx_hash
    # Feed rows have no transaction. They are filtered out, because a row number may equal a log
    # index.
    chain_positions = [position for position in positions if not is_feed_position(position)]
    return {
        position: hash_by_log[(position.block, position.log)]
        for position in chain_positions
        if (position.block, position.log) in hash_by_log
    }
