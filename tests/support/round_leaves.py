"""Rounds of leaves that tests make themselves: their tree, and their order by address."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from oracle.chain.proofs.keccak import keccak
from oracle.domain.ids import Address
from oracle.domain.roots.leaves import NodeLeaf
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
