"""The answer of `/v1/nodes/{node}/proof`."""

from oracle.chain.hex_names import ADDRESS_DIGITS
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.queries.answers import Answer
from oracle.queries.api.node_list import find_node_by_prefix
from oracle.queries.api.source import ApiSource, NotFoundError, open_snapshot
from oracle.queries.node_proof import NodeProofDetail, prove_node


class ProofAnswer(Answer):
    """A Merkle proof of a node's score, or of its absence."""

    proof: NodeProofDetail


def build_proof_answer(source: ApiSource, node: str, round_number: int | None) -> ProofAnswer:
    """Prove the score of a node in a round, or in the newest accepted round if it is None.

    `node` is an address or its beginning; only of a whole address the absence can be proven.

    Raises:
        NotFoundError: the round was not accepted, or no node's address starts with `node`.
        AmbiguousPrefixError: several addresses start with `node`.
    """
    with open_snapshot(source) as snapshot:
        as_of = snapshot.as_of
        is_whole = len(node) == len("0x") + ADDRESS_DIGITS
        address = Address(node) if is_whole else find_node_by_prefix(snapshot, node).address
    try:
        proof = prove_node(source.archive, source.provable_rounds, address, round_number)
    except InputError as error:
        raise NotFoundError(str(error)) from error
    return ProofAnswer(as_of=as_of, proof=proof)
