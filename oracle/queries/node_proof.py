"""Proves the score of a node in an accepted round, or that an address has none.

The round's leaves are folded again from the raw logs, and its tree is kept for the next proof.
See docs/reference/report-format.md#roots.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Self

from pydantic import Field

from oracle.chain.hex_names import format_account_id
from oracle.chain.proofs.keccak import keccak
from oracle.domain.blocks import BlockRef
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address, Hash
from oracle.domain.reports.lanes import decode_qos
from oracle.domain.reports.target_words import build_scoring_context
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, RoundSummary
from oracle.domain.roots.node_tree import iter_linked_leaves
from oracle.domain.roots.proofs import NodeProof, ProvableRound
from oracle.errors import InputError
from oracle.indexer.folded_state import fold_state_up_to
from oracle.queries.answers import AccountId, AddressText, ApiModel, FixedPoint, HashText, Integer
from oracle.queries.explain import EventArchive, find_stored_block
from oracle.reporting.recompute import load_domain
from oracle.store.database import UnitOfWork

_MAX_CACHED_ROUNDS = 2


class ProofLeaf(ApiModel):
    """The values of a node in a round, as its leaf holds them."""

    node: AddressText
    next_node: AddressText = Field(
        description="The next higher address that has a leaf; none lies between."
    )
    lane: int = Field(description="1: do not select; else the QoS in steps of 0.0001, plus 2.")
    qos: FixedPoint | None = Field(description="null: do not select.")
    is_member: bool
    is_paused: bool
    is_excluded: bool
    is_held: bool = Field(description="Whether its kickout waits for an operator's decision.")
    seat: int = Field(description="Index of the leaf.")
    score_count: int
    score_sum: int
    reliability: FixedPoint = Field(description="H at the as-of block.")
    kickout_due_since: int | None = Field(description="Block time; null: no kickout is due.")
    last_scored_at: int | None = Field(description="Block time; null: it has no score.")
    pool_hash: HashText
    encoded: str = Field(
        pattern="^0x[0-9a-f]{256}$",
        description="The 128 bytes that are hashed twice.",
        examples=["0x" + "00" * 128],
    )

    @classmethod
    def from_leaf(cls, leaf: NodeLeaf) -> Self:
        """Return the answer for a leaf."""
        return cls(
            node=leaf.node,
            next_node=leaf.next_node,
            lane=leaf.lane,
            qos=decode_qos(leaf.lane),
            is_member=LeafFlag.MEMBER in leaf.flags,
            is_paused=LeafFlag.PAUSED in leaf.flags,
            is_excluded=LeafFlag.EXCLUDED in leaf.flags,
            is_held=LeafFlag.HELD in leaf.flags,
            seat=leaf.seat,
            score_count=leaf.score_count,
            score_sum=leaf.score_sum,
            reliability=leaf.reliability,
            kickout_due_since=leaf.kickout_due_since or None,
            last_scored_at=leaf.last_scored_at or None,
            pool_hash=_format_hash(leaf.pool_hash),
            encoded="0x" + leaf.encode().hex(),
        )


class ProofSummary(ApiModel):
    """The summary of a round, which binds its root to one chain and contract."""

    chain_id: int
    oracle: AddressText
    oracle_account_id: AccountId = Field(description="CAIP-10 id of the contract.")
    round: int
    as_of: int = Field(description="The block that it describes.")
    node_count: int
    open_count: int = Field(description="Number of nodes that may be selected.")
    total_weight: Integer = Field(description="Sum of lane - 1 of these nodes.")

    @classmethod
    def from_summary(cls, summary: RoundSummary) -> Self:
        """Return the answer for a summary."""
        return cls(
            chain_id=summary.chain_id,
            oracle=summary.oracle,
            oracle_account_id=format_account_id(summary.chain_id, summary.oracle),
            round=summary.round,
            as_of=summary.as_of,
            node_count=summary.node_count,
            open_count=summary.open_count,
            total_weight=summary.total_weight,
        )


class NodeProofDetail(ApiModel):
    """A leaf of a round, and the hashes that lead from it to the round's root."""

    address: AddressText = Field(description="The address that the proof is about.")
    account_id: AccountId = Field(description="CAIP-10 id of this address.")
    is_absent: bool = Field(
        description="Whether the address has no leaf: it lies between `leaf.node` and "
        "`leaf.next_node`."
    )
    root: HashText
    leaf: ProofLeaf
    proof: list[HashText] = Field(
        description="Hashes beside the path, from the leaf to the root, as OpenZeppelin's "
        "`MerkleProof.verify` takes them."
    )
    summary: ProofSummary


class ProvableRoundCache:
    """The rounds of the newest proofs; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._rounds: OrderedDict[tuple[int, Hash], ProvableRound] = OrderedDict()

    def get_or_build(
        self, round_number: int, as_of_hash: Hash, build: Callable[[], ProvableRound]
    ) -> ProvableRound:
        """Return a round as of a block; build it if it is not cached."""
        key = round_number, as_of_hash
        with self._lock:
            provable_round = self._rounds.get(key)
            if provable_round is None:
                provable_round = self._rounds[key] = build()
            self._rounds.move_to_end(key)
            if len(self._rounds) > _MAX_CACHED_ROUNDS:
                self._rounds.popitem(last=False)
            return provable_round


def prove_node(
    archive: EventArchive, cache: ProvableRoundCache, address: Address, round_number: int | None
) -> NodeProofDetail:
    """Prove the leaf of an address in a round, or in the newest accepted round if it is None.

    Raises:
        InputError: the round was not accepted in the indexed blocks, or the time of its as-of
            block is not stored.
        NoNearbySnapshotError: no snapshot is near enough for `archive.max_logs`.
    """
    with archive.store.read_transaction() as uow:
        accepted = _load_accepted_round(uow, round_number)
        provable_round = cache.get_or_build(
            accepted.round, accepted.as_of_hash, lambda: _build_round(archive, uow, accepted)
        )
    return _build_detail(provable_round, provable_round.prove_node(address))


def _load_accepted_round(uow: UnitOfWork, round_number: int | None) -> RoundAccepted:
    if round_number is not None:
        accepted = uow.rounds.get_accepted_round(round_number)
        if accepted is None:
            raise InputError(f"round {round_number} was not accepted in the indexed blocks")
        return accepted
    newest_rounds = uow.rounds.list_accepted_below(None, 1)
    if not newest_rounds:
        raise InputError("no round was accepted yet, so there is nothing to prove")
    return newest_rounds[0]


def _build_round(archive: EventArchive, uow: UnitOfWork, accepted: RoundAccepted) -> ProvableRound:
    as_of, domain = _load_as_of_block(uow, accepted), load_domain(uow)
    folded = fold_state_up_to(
        uow,
        archive.reader,
        archive.rules,
        as_of.number,
        archive.min_scores,
        max_logs=archive.max_logs,
    )
    nodes = folded.fold.ledger.nodes
    leaves = iter_linked_leaves(
        (nodes[address] for address in sorted(nodes)),
        build_scoring_context(nodes, as_of.time, archive.rules),
        keccak,
    )
    return ProvableRound(
        leaves, domain.chain_id, domain.contract, accepted.round, as_of.number, keccak
    )


def _load_as_of_block(uow: UnitOfWork, accepted: RoundAccepted) -> BlockRef:
    """Return the as-of block of a round, from a report, a stored header or a stored log."""
    number = accepted.as_of
    for stored_report in uow.reports.list_between(number, number):
        if stored_report.report.as_of.hash == accepted.as_of_hash:
            return stored_report.report.as_of
    block = find_stored_block(uow, number)
    if block is None:
        raise InputError(
            f"round {accepted.round}: the time of its block {number} is not stored; prove another "
            "round"
        )
    return block


def _build_detail(provable_round: ProvableRound, proof: NodeProof) -> NodeProofDetail:
    return NodeProofDetail(
        address=proof.address,
        account_id=format_account_id(provable_round.summary.chain_id, proof.address),
        is_absent=proof.is_absent,
        root=_format_hash(provable_round.root),
        leaf=ProofLeaf.from_leaf(proof.leaf),
        proof=[_format_hash(sibling) for sibling in proof.hashes],
        summary=ProofSummary.from_summary(provable_round.summary),
    )


def _format_hash(content: bytes) -> Hash:
    return Hash("0x" + content.hex())
