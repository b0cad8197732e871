"""Proves a node's score in an accepted round, or that the round has no leaf for an address.

The leaves of recent rounds are stored in pieces. The leaves of an older round are folded again
from the raw logs, which takes seconds to minutes. See docs/reference/report-format.md#roots.
"""

from pydantic import Field

from oracle.chain.hex_names import format_account_id
from oracle.chain.proofs.keccak import keccak
from oracle.domain.events.oracle_events import RoundAccepted
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import RoundSummary
from oracle.domain.roots.node_leaves import iter_linked_leaves
from oracle.domain.roots.round_tree import NodeProof, ProvableRound
from oracle.errors import InputError
from oracle.indexer.event_archive import EventArchive
from oracle.indexer.folded_state import fold_state_up_to
from oracle.indexer.kickout_reviews import build_folded_scoring_context
from oracle.indexer.provenance import get_refold_count
from oracle.indexer.round_leaves import (
    LeafCache,
    load_domain,
    load_pieced_round,
    prove_address_from_pieces,
)
from oracle.queries.answers import AccountId, AddressText, ApiModel, HashText
from oracle.queries.leaf_models import ProofLeaf, ProofSummary, format_hash
from oracle.reporting.recompute import find_as_of_block
from oracle.store.database import UnitOfWork


class NodeProofDetail(ApiModel):
    """A leaf of a round, and the hashes on its path to the round's root."""

    address: AddressText = Field(description="Address about which the proof makes a statement.")
    account_id: AccountId = Field(description="CAIP-10 id of this address.")
    is_absent: bool = Field(
        description=(
            "Whether the address has no leaf. In that case it lies between `leaf.node` and "
            "`leaf.next_node`, which have neighbouring leaves."
        )
    )
    root: HashText
    leaf: ProofLeaf
    proof: list[HashText] = Field(
        description=(
            "Sibling hashes from the leaf to the root, in the form that OpenZeppelin's "
            "`MerkleProof.verify` expects."
        )
    )
    summary: ProofSummary


class ContractRoot(ApiModel):
    """The root that the contract stores for a proof's round, as of the newest block."""

    block: int
    block_hash: HashText
    root: HashText | None = Field(
        description=(
            "Root of the round in the contract; null if the contract no longer keeps it, or if "
            "it was struck."
        )
    )


class OnChainProofDetail(NodeProofDetail):
    """A proof, and the root stored in the contract, which the proof's root must equal."""

    contract_root: ContractRoot


def prove_node(
    archive: EventArchive, cache: LeafCache, address: Address, round_number: int | None
) -> NodeProofDetail:
    """Prove an address's leaf in the given round, or by default in the newest accepted round.

    Raises:
        InputError: the round was not accepted in the indexed blocks, has no nodes, or cannot be
            folded again, because the time of its as-of block is not stored, or because the stored
            logs give another root.
        NoNearbySnapshotError: the leaves are not stored, and no snapshot is near enough for
            `archive.max_logs`.
    """
    with archive.store.read_transaction() as uow:
        accepted_round = load_accepted_round(uow, round_number)
        pieced_round = load_pieced_round(uow, cache, accepted_round)
        if pieced_round is not None:
            proof = prove_address_from_pieces(uow, cache, pieced_round, address)
            if proof is not None:
                return _build_proof_detail(pieced_round.root, pieced_round.summary, proof)
        refolded_round = _refold_round(archive, uow, cache, accepted_round)
    root = format_hash(refolded_round.root)
    if refolded_round.summary.node_count == 0:
        raise InputError(
            f"round {accepted_round.round} has no nodes, so there is nothing to prove"
        )
    if accepted_round.root != root:
        raise InputError(
            f"round {accepted_round.round}: the stored logs lead to the root {root}, but the "
            f"contract accepted the root {accepted_round.root}; run `qos-oracle report verify "
            f"{accepted_round.round}`"
        )
    return _build_proof_detail(
        refolded_round.root, refolded_round.summary, refolded_round.prove_node(address)
    )


def has_stored_leaves(uow: UnitOfWork, cache: LeafCache, round_number: int | None) -> bool:
    """Return whether the leaves needed for a proof in this round are stored.

    The result is True if the round was not accepted, because no proof is possible then.
    """
    try:
        accepted_round = load_accepted_round(uow, round_number)
    except InputError:
        return True
    return load_pieced_round(uow, cache, accepted_round) is not None


def load_accepted_round(uow: UnitOfWork, round_number: int | None) -> RoundAccepted:
    """Return the accepted round with this number, or by default the newest accepted round.

    Raises:
        InputError: the round was not accepted in the indexed blocks.
    """
    if round_number is not None:
        accepted_round = uow.rounds.find_accepted_round(round_number)
        if accepted_round is None:
            raise InputError(f"round {round_number} was not accepted in the indexed blocks")
        return accepted_round
    newest_rounds = uow.rounds.list_accepted_below(None, 1)
    if not newest_rounds:
        raise InputError("no round was accepted yet, so there is nothing to prove")
    return newest_rounds[0]


def _refold_round(
    archive: EventArchive, uow: UnitOfWork, cache: LeafCache, accepted_round: RoundAccepted
) -> ProvableRound:
    cache_key = accepted_round.round, accepted_round.as_of_hash, get_refold_count(uow)
    return cache.refolded.get_or_make(
        cache_key, lambda: _build_round(archive, uow, accepted_round)
    )


def _build_round(
    archive: EventArchive, uow: UnitOfWork, accepted_round: RoundAccepted
) -> ProvableRound:
    as_of = find_as_of_block(uow, accepted_round)
    domain = load_domain(uow)
    if as_of is None:
        raise InputError(
            f"round {accepted_round.round}: the time of its block {accepted_round.as_of} is not "
            "stored; prove another round"
        )
    folded_state = fold_state_up_to(
        uow, archive.reader, archive.rules, as_of.number, max_logs=archive.max_logs
    )
    nodes = folded_state.fold.ledger.nodes
    leaves = iter_linked_leaves(
        (nodes[address] for address in sorted(nodes)),
        build_folded_scoring_context(uow, folded_state, as_of.time, archive.kickout_policy),
        keccak,
    )
    return ProvableRound(
        leaves, domain.chain_id, domain.contract, accepted_round.round, as_of.number, keccak
    )


def _build_proof_detail(root: bytes, summary: RoundSummary, proof: NodeProof) -> NodeProofDetail:
    return NodeProofDetail(
        address=proof.address,
        account_id=format_account_id(summary.chain_id, proof.address),
        is_absent=proof.is_absent,
        root=format_hash(root),
        leaf=ProofLeaf.from_leaf(proof.leaf),
        proof=[format_hash(sibling) for sibling in proof.hashes],
        summary=ProofSummary.from_summary(summary),
    )
