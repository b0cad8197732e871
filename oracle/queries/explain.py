"""The reasons for a node's score: every entry behind it, down to transaction and log.

The answer is for a node owner who lost income. At the cursor the stored state is read; for an
earlier block the node, its peers and the rounds are folded again from the stored logs. Scores,
changes and groups are the stored rows up to that block; tasks are as of the cursor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from oracle.chain.protocols import ChainReader, LogReader
from oracle.domain.blocks import BlockRef, Position
from oracle.domain.feed_rows import is_of_feed
from oracle.domain.fold.legacy_round_scores import rounds_of_group
from oracle.domain.fold.working_set import (
    KickoutDue,
    MembershipChange,
    ReliabilityChange,
    ScoreEntry,
)
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.registrations import Registrations
from oracle.domain.reports.contract_state import Word
from oracle.domain.reports.kickout_evidence import CreatorSpread, derived_zeros_reason, spread_of
from oracle.domain.reports.lanes import lane_by, lane_in, word_of
from oracle.domain.reports.report import MIN_SCORES
from oracle.domain.reports.rounds import Rounds
from oracle.domain.scoring.node_figures import NodeFigures
from oracle.domain.scoring.node_scores import count_scores
from oracle.domain.scoring.rules import Rules
from oracle.domain.scoring.score_window import mean_of
from oracle.domain.state.group import GroupMember
from oracle.domain.state.node import Node
from oracle.domain.state.task import Run, Task
from oracle.errors import InputError
from oracle.indexer.folded_state import folded_up_to
from oracle.queries.earnings import Earning, earning_of
from oracle.queries.population import Population, place_among, population_of, rests_on_feed
from oracle.store.database import Store, UnitOfWork
from oracle.store.state.rule_set_repository import RuleSet

# An upper bound on the number of changes of a node.
_ALL = 1 << 31


@dataclass(frozen=True, slots=True)
class OnChain:
    """The lane of a node in the contract; `word` is None if the lane was never written."""

    index: int
    lane: int
    word: Word | None
    # The as-of block of the round that wrote the word; None if `word` is None.
    as_of: int | None


@dataclass(frozen=True, slots=True)
class ReportedLane:
    """The lane of a node in the accepted round whose as-of block is the explained block.

    `lane` is None if the round left the node's word unchanged.
    """

    round: int
    at: Position
    transaction: Hash | None
    lane: int | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A node as of a block; times in seconds, H and scores in units of 10^-18.

    `scores` are the entries of the pool, `changes` all changes of H, oldest first. Under legacy
    rules the pool is the current window. `members_by_position` are the members of the group that
    closed at a position and scored the node. `transaction_by_position` maps a position to its
    transaction.
    """

    as_of: BlockRef
    # The network data that the node's figures depend on, as of the block.
    population: Population
    node: Node
    figures: NodeFigures
    # By QoS, from 1; None if the node has no QoS.
    place: int | None
    pool: bytes
    scores: list[ScoreEntry]
    # The rule set of each score, by its `seq`, where the database has it.
    scored_by: dict[int, RuleSet]
    changes: list[ReliabilityChange]
    kickouts: list[KickoutDue]
    groups: dict[Position, tuple[GroupMember, ...]]
    transactions: dict[Position, Hash]
    # The tasks of `scores`, including those of the other group members, and of `changes`.
    tasks: dict[TaskKey, Task]
    on_chain: OnChain | None
    # None if no accepted round has this as-of block, or if the contract does not know the node.
    sent: ReportedLane | None
    # The change that led to the current membership; None if the node never was a member.
    turned: MembershipChange | None = None
    # Positions of groups that may have given the node a 0 without a row, since the oldest score.
    possible_zeros: tuple[Position, ...] = ()

    @property
    def rules(self) -> Rules:
        """Return the rules by which the node is scored."""
        return self.population.rules

    @property
    def lane(self) -> int:
        """Return the lane value that a report as of the block holds."""
        return lane_by(self.figures)

    @property
    def lowest_long_term(self) -> int:
        """Return the lower bound of Q_long / Q_max, with every possible 0 included."""
        given = [(entry.at, entry.score) for entry in self.scores]
        given += [(at, self.rules.absent_score) for at in self.possible_zeros]
        pool = bytes(score for _, score in sorted(given)[-self.rules.pool_size :])
        own = self.figures.long_term
        return min(own, mean_of(pool, self.node.prior, self.rules)) if given else own

    def earning(self, entry: ScoreEntry) -> Earning | None:
        """Return the money that the task of a score brought the node, as of the cursor."""
        return earning_of(entry.task, self.groups.get(entry.at, ()), self.tasks)

    def rounds_of(self, entry: ScoreEntry) -> Sequence[Run]:
        """Return the runs of both rounds of a legacy task, or nothing if it has a single round."""
        task = self.tasks.get(entry.task)
        if task is not None and task.runs:
            return task.runs
        members = [self.tasks.get(member.task) for member in self.groups.get(entry.at, ())]
        return list(rounds_of_group([task for task in members if task is not None]).values())

    @property
    def spread(self) -> CreatorSpread:
        """Return how the scores are distributed over task creators."""
        return spread_of(
            ((self.creator_of(entry.task), entry.score) for entry in self.scores), self.rules
        )

    @property
    def held_reason(self) -> str | None:
        """Return why a person must propose a due kickout, or None if the daemon may."""
        return self.spread.hold_reason(self.rules) or derived_zeros_reason(self.scores, self.rules)

    def creator_of(self, key: TaskKey) -> Address | None:
        """Return the creator of a task, or None if it was not known at the block."""
        task = self.tasks.get(key)
        if task is None or task.created_at is None or task.created_at.block > self.as_of.number:
            return None
        return task.creator


@dataclass(frozen=True, slots=True)
class EventArchive:
    """The stored history that an explanation is computed from.

    `min_scores`: as configured for reports; snapshots are named by it. `max_logs`: how many logs
    may be folded for one explanation; None for no limit.
    """

    store: Store
    reader: LogReader
    rules: Rules
    min_scores: int = MIN_SCORES
    max_logs: int | None = None


def explain(archive: EventArchive, address: Address, as_of: BlockRef) -> Explanation:
    """Explain a node's score as of a block at or below the cursor.

    Raises:
        InputError: the network never mentioned this node up to the block.
        NoNearbySnapshotError: no snapshot is near enough for `archive.max_logs`.
    """
    rules = archive.rules
    with archive.store.reading() as uow:
        nodes, rounds = _state(archive, uow, as_of)
        node = nodes.get(address)
        if node is None:
            raise InputError(
                f"{address} was never seen up to block {as_of.number}; "
                "`qos-oracle nodes` names all there are"
            )
        population = population_of(
            nodes.values(), as_of.time, rules, rounds, rests_on_feed=rests_on_feed(uow)
        )
        figures = population.figures(node)
        counted = count_scores(node, as_of.time, rules)
        scores = uow.scores.of_node_at(address, as_of.number, counted) if counted else []
        changes = uow.reliability.of_node(address, _ALL, up_to_block=as_of.number)
        kickouts = list(_intervals_until(uow.kickouts.of_node(address), as_of.number))
        groups = _groups(uow, scores)
        places = [entry.at for entry in scores] + [change.at for change in changes]
        return Explanation(
            as_of=as_of,
            population=population,
            node=node,
            figures=figures,
            place=place_among(node, figures.qos, nodes.values(), population),
            pool=_pool(node, scores, rules),
            scores=scores,
            scored_by=uow.scores.scored_by(address, [entry.seq for entry in scores]),
            changes=changes,
            kickouts=kickouts,
            groups=groups,
            transactions=_transactions(uow, places),
            tasks=_tasks(uow, scores, groups, changes),
            on_chain=_on_chain(uow, rounds, address),
            sent=_sent(uow, rounds, address, as_of.number),
            turned=uow.memberships.in_effect(address, up_to_block=as_of.number),
            possible_zeros=_possible_zeros(archive, uow, node, scores, as_of),
        )


def block_at(chain: Callable[[], ChainReader], store: Store, number: int | None) -> BlockRef:
    """Return the requested block, or the last folded block if no number is requested.

    The chain is opened only if the header is not stored.

    Raises:
        InputError: nothing is indexed, or the block is beyond the index.
        TransientError: the header is not stored any more and the chain does not serve it now.
    """
    with store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; `qos-oracle run --once` does it")
        wanted = cursor.number if number is None else number
        if not 0 <= wanted <= cursor.number:
            raise InputError(f"block {wanted} is not indexed; the last one is {cursor.number}")
        block = uow.blocks.at(wanted)
    return block or chain().header_up_to(wanted)


def as_of_round(store: Store, number: int) -> int:
    """Return the as-of block of an accepted round.

    Raises:
        InputError: the index has no such accepted round.
    """
    with store.reading() as uow:
        accepted = uow.rounds.accepted_round(number)
    if accepted is None:
        raise InputError(f"round {number} has not been accepted in what is indexed")
    return accepted.as_of


def _state(
    archive: EventArchive, uow: UnitOfWork, as_of: BlockRef
) -> tuple[Mapping[Address, Node], Rounds]:
    """Return every node, and the contract's state, as of a block."""
    cursor = uow.cursor.get()
    if cursor is not None and cursor.number == as_of.number:
        return {node.address: node for node in uow.nodes.all()}, uow.rounds.load()
    folded = folded_up_to(
        uow,
        archive.reader,
        archive.rules,
        as_of.number,
        archive.min_scores,
        max_logs=archive.max_logs,
    )
    return folded.fold.ledger.nodes, folded.rounds


def _possible_zeros(
    archive: EventArchive,
    uow: UnitOfWork,
    node: Node,
    scores: Sequence[ScoreEntry],
    as_of: BlockRef,
) -> tuple[Position, ...]:
    """Return the positions of possible zeros that would still be in the pool.

    Only a feed leaves out group members, so without a feed there are none.
    """
    if archive.reader.feed is None:
        return ()
    is_full = len(node.pool) >= archive.rules.pool_size
    oldest = scores[0].at if scores and is_full else Position(0, 0, 0, 0)
    places = uow.results.possible_zeros(node.address, oldest.block, as_of.number)
    return tuple(at for at in places if at > oldest or not is_full)


def _pool(node: Node, scores: list[ScoreEntry], rules: Rules) -> bytes:
    if rules.legacy is None:
        return node.pool
    return bytes(entry.score for entry in scores)


def _tasks(
    uow: UnitOfWork,
    scores: Iterable[ScoreEntry],
    groups: Mapping[Position, tuple[GroupMember, ...]],
    changes: Iterable[ReliabilityChange],
) -> dict[TaskKey, Task]:
    """Return the tasks of the scores and changes, including those of the other group members."""
    wanted = {entry.task for entry in scores}
    wanted |= {member.task for members in groups.values() for member in members}
    wanted |= {change.task for change in changes if change.task is not None}
    return uow.tasks.named(wanted)


def _intervals_until(intervals: Iterable[KickoutDue], block: int) -> Iterable[KickoutDue]:
    """Yield the intervals that had opened by the block, as they were known at the block."""
    for interval in intervals:
        if interval.opened_at.block <= block:
            still_open = interval.closed_at is not None and interval.closed_at.block > block
            yield replace(interval, closed_at=None) if still_open else interval


def _on_chain(uow: UnitOfWork, rounds: Rounds, node: Address) -> OnChain | None:
    index = rounds.index_by_node.get(node)
    if index is None:
        return None
    word = rounds.words.get(word_of(index))
    accepted = None if word is None else uow.rounds.accepted_round(word.round)
    return OnChain(
        index, rounds.lane_at(index), word, None if accepted is None else accepted.as_of
    )


def _sent(uow: UnitOfWork, rounds: Rounds, node: Address, as_of: int) -> ReportedLane | None:
    accepted = uow.rounds.accepted_as_of(as_of)
    index = None if accepted is None else _index_in(accepted.registrations, rounds, node)
    if index is None or accepted is None:
        return None
    word = dict(accepted.words).get(word_of(index))
    return ReportedLane(
        round=accepted.round,
        at=accepted.at,
        transaction=_transactions(uow, [accepted.at]).get(accepted.at),
        lane=None if word is None else lane_in(word, index),
    )


def _index_in(new: Registrations, before: Rounds, node: Address) -> int | None:
    """Return the lane of a node in a round, including a lane that the round itself registers."""
    given = new.placed(before.index_by_node, before.node_count)
    index = before.index_by_node.get(node)
    indexes = {who: place for place, who in given.items()}
    return indexes.get(node, None if index in given else index)


def _groups(
    uow: UnitOfWork, scores: Iterable[ScoreEntry]
) -> dict[Position, tuple[GroupMember, ...]]:
    results = uow.results.closed_at([entry.at for entry in scores])
    return {result.closed_at: result.members for result in results}


def _transactions(uow: UnitOfWork, places: Iterable[Position]) -> dict[Position, Hash]:
    wanted = set(places)
    found: dict[tuple[int, int], Hash] = {}
    for block in {at.block for at in wanted}:
        for log in uow.logs.between(block, block):
            found[(block, log.index)] = log.tx_hash
    # A feed's row has no transaction, although its number may equal that of a log.
    of_chain = [at for at in wanted if not is_of_feed(at)]
    return {at: found[(at.block, at.log)] for at in of_chain if (at.block, at.log) in found}
