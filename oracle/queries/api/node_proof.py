"""Answers `/v1/nodes/{node}/proof` and `…/bundle`, and builds a node's leaf at the cursor."""

from oracle.chain.hex_names import ADDRESS_DIGITS
from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.domain.roots.node_leaves import ScoringContext, build_node_leaf
from oracle.domain.state import Node
from oracle.errors import InputError
from oracle.indexer.kickout_reviews import load_kickout_review
from oracle.queries.answers import Answer, AsOf
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.source import ApiSnapshot, ApiSource, NotFoundError, open_snapshot
from oracle.queries.evidence_bundle import EvidenceBundle, build_evidence_bundle
from oracle.queries.leaf_models import ProofLeaf
from oracle.queries.node_proof import NodeProofDetail, has_stored_leaves, prove_node


class ProofAnswer(Answer):
    """A Merkle proof of a node's score, or of its absence."""

    proof: NodeProofDetail


class BundleAnswer(Answer):
    """A node's leaf in a round, and all data needed to verify the leaf."""

    bundle: EvidenceBundle


def build_proof_answer(source: ApiSource, node: str, round_number: int | None) -> ProofAnswer:
    """Return the proof of a node's score in a round, or by default in the newest accepted round.

    `node` is an address or its beginning; absence can only be proven for a whole address.

    Raises:
        NotFoundError: the round was not accepted, or no node's address starts with `node`.
        AmbiguousPrefixError: several addresses start with `node`.
    """
    as_of, address = _resolve_node_address(source, node)
    try:
        proof = prove_node(source.archive, source.leaves, address, round_number)
    except InputError as error:
        raise NotFoundError(str(error)) from error
    return ProofAnswer(as_of=as_of, proof=proof)


def build_bundle_answer(source: ApiSource, node: str, round_number: int | None) -> BundleAnswer:
    """Return the evidence bundle of a node in a round."""
    as_of, address = _resolve_node_address(source, node)
    try:
        bundle = build_evidence_bundle(
            source.archive, source.leaves, address, round_number, source.rules_id
        )
    except InputError as error:
        raise NotFoundError(str(error)) from error
    return BundleAnswer(as_of=as_of, bundle=bundle)


def _resolve_node_address(source: ApiSource, node: str) -> tuple[AsOf, Address]:
    with open_snapshot(source) as snapshot:
        is_whole = is_whole_address(node)
        address = Address(node) if is_whole else find_node_by_prefix(snapshot, node).address
        return snapshot.as_of, address


def is_whole_address(prefix: str) -> bool:
    """Return whether an address prefix is a complete address."""
    return len(prefix) == len("0x") + ADDRESS_DIGITS


def build_leaf_at_cursor(snapshot: ApiSnapshot, node: Node) -> ProofLeaf:
    """Build the leaf that a node would have in a round as of the cursor.

    No tree is built, so the leaf's link to the next address holds the node's own address.
    """
    policy = snapshot.source.archive.kickout_policy
    context = ScoringContext(
        policy.rules,
        snapshot.cursor.time,
        snapshot.uow.nodes.get_many,
        lambda due_node: load_kickout_review(snapshot.uow, due_node, policy),
        snapshot.get_ranking().peers,
    )
    return ProofLeaf.from_leaf(build_node_leaf(node, node.address, context, keccak))


def is_refold_required(source: ApiSource, round_number: int | None) -> bool:
    """Return whether a proof for a round requires folding the stored logs again."""
    with source.archive.store.read_transaction() as uow:
        return not has_stored_leaves(uow, source.leaves, round_number)
