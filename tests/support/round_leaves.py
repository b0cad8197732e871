"""Rounds of leaves that tests make themselves: their tree, and their order by address."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.domain.reports.lanes import LANES_PER_WORD, pack_lanes
from oracle.domain.roots.leaves import NodeLeaf, RoundSummary, hash_leaf
from oracle.domain.roots.round_tree import RoundTree


def build_round_tree(leaves: Iterable[NodeLeaf]) -> RoundTree:
    """Return the tree of these leaves."""
    return RoundTree((leaf.encode() for leaf in leaves), keccak)


def compute_next_addresses(nodes: Iterable[Address]) -> Mapping[Address, Address]:
    """Return the next higher address of each address; the lowest follows the highest."""
    ascending = sorted(nodes)
    return dict(zip(ascending, [*ascending[1:], *ascending[:1]], strict=True))


def find_predecessor(sorted_addresses: Sequence[Address], address: Address) -> Address:
    """Return the address whose leaf proves that `address`, which has no leaf, is absent.

    `sorted_addresses` are the addresses of all leaves, at least one, in ascending order.
    """
    return sorted_addresses[bisect_left(sorted_addresses, address) - 1]


def get_word(tree: RoundTree, index: int) -> int:
    """Return the sixteen lanes from seat 16 * `index` on; seats without a node have lane 0."""
    first = LANES_PER_WORD * index
    return pack_lanes(tree.lanes[first : first + LANES_PER_WORD])


def prove_word(tree: RoundTree, index: int, summary: RoundSummary) -> list[bytes]:
    """Return the proof of a word of lanes. Raises IndexError if there is no such word."""
    return [
        *tree._words.build_proof(index),
        tree._nodes.root,
        hash_leaf(summary.encode(), keccak),
    ]
