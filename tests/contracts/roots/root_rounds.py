"""Rounds of leaves with summary, root and proofs, in the form that the contracts take."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any

from oracle.chain.proofs.keccak import keccak
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf, RoundSummary
from oracle.domain.roots.merkle_tree import hash_pair
from oracle.domain.roots.round_tree import RoundTree
from tests.support.round_leaves import (
    build_round_tree,
    compute_next_addresses,
    find_predecessor,
    get_word,
    prove_word,
)

# A leaf or a summary in web3's encoding.
Tuple = tuple[Any, ...]

# Fifty scores of 7: a long-term score of 0.7, so a QoS of 7000 at a reliability of 1.
POOL = bytes([7] * 50)
OPEN_LANE = 7_002
SCORED_AT = 1_700_000_000


def node_address(seat: int) -> Address:
    """Return the address of the node at a seat; addresses are in no order of their seats."""
    return Address("0x" + keccak(f"node {seat}".encode())[-20:].hex())


def make_leaves(count: int, by_seat: dict[int, dict[str, Any]] | None = None) -> list[NodeLeaf]:
    """Return the leaves of a network whose nodes all have a QoS of 7000.

    `by_seat` has the fields that differ, such as `{3: {"lane": 1}}`.
    """
    addresses = [node_address(seat) for seat in range(count)]
    next_nodes = compute_next_addresses(addresses)
    leaves = [
        NodeLeaf(
            node=address,
            next_node=next_nodes[address],
            lane=OPEN_LANE,
            flags=LeafFlag.MEMBER,
            seat=seat,
            score_count=len(POOL),
            score_sum=sum(POOL),
            reliability=UNIT,
            kickout_due_since=0,
            last_scored_at=SCORED_AT,
            pool_hash=keccak(POOL),
        )
        for seat, address in enumerate(addresses)
    ]
    for seat, changes in (by_seat or {}).items():
        leaves[seat] = replace(leaves[seat], **changes)
    return leaves


def leaf_tuple(leaf: NodeLeaf) -> Tuple:
    """Return a leaf in the form of the contracts: node, nextNode, fields, poolHash."""
    encoded = leaf.encode()
    return encoded[12:32], encoded[44:64], int.from_bytes(encoded[64:96]), encoded[96:]


def summary_tuple(summary: RoundSummary) -> Tuple:
    chain_id, oracle, *numbers = astuple(summary)
    return chain_id, bytes.fromhex(oracle[2:]), *numbers


@dataclass(frozen=True)
class RootRound:
    """One round of leaves, in the order of their seats, of the oracle at an address."""

    leaves: Sequence[NodeLeaf]
    chain_id: int
    oracle: str
    round: int
    as_of: int

    @cached_property
    def tree(self) -> RoundTree:
        return build_round_tree(self.leaves)

    @cached_property
    def summary(self) -> RoundSummary:
        oracle = Address(self.oracle.lower())
        return self.tree.summarize(self.chain_id, oracle, self.round, self.as_of)

    @cached_property
    def root(self) -> bytes:
        return self.tree.compute_root(self.summary)

    @property
    def trees(self) -> bytes:
        """Return pair(nodes, words), which proves the summary."""
        return hash_pair(self.nodes_root, self.words_root, keccak)

    @property
    def words_root(self) -> bytes:
        return self.tree.prove_node(0, self.summary)[-2]

    @property
    def nodes_root(self) -> bytes:
        return prove_word(self.tree, 0, self.summary)[-2]

    @property
    def summary_abi(self) -> Tuple:
        return summary_tuple(self.summary)

    def leaf(self, seat: int) -> Tuple:
        return leaf_tuple(self.leaves[seat])

    def proof(self, seat: int) -> list[bytes]:
        return self.tree.prove_node(seat, self.summary)

    def proven(self, seat: int) -> tuple[Tuple, list[bytes]]:
        """Return the leaf at a seat and its proof."""
        return self.leaf(seat), self.proof(seat)

    def absence(self, address: Address) -> tuple[Tuple, list[bytes]]:
        """Return the leaf that proves that an address has none, and its proof."""
        by_node = {leaf.node: leaf.seat for leaf in self.leaves}
        return self.proven(by_node[find_predecessor(sorted(by_node), address)])

    def words(self, first: int, count: int) -> list[int]:
        """Return a run of words; those after the last one are 0."""
        return [get_word(self.tree, index) for index in range(first, first + count)]

    def words_proof(self, first: int, count: int) -> list[bytes]:
        """Return the proof of an aligned run of words: that of its first one, above the run."""
        return prove_word(self.tree, first, self.summary)[count.bit_length() - 1 :]
