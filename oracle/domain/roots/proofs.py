"""Proves the score of every node in a round from all leaves of the round.

A contract verifies a proof with OpenZeppelin's MerkleProof, and this program with `compute_root`.
See docs/reference/report-format.md#roots.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from oracle.domain.ids import Address
from oracle.domain.roots.leaves import LEAF_BYTES, Keccak, NodeLeaf, RoundSummary
from oracle.domain.roots.round_tree import RoundTree


@dataclass(frozen=True, slots=True)
class NodeProof:
    """The leaf of a node in a round, and the sibling hashes on its path to the root.

    For an address that has no leaf, `leaf` is the leaf of the next lower address, which proves the
    absence.
    """

    address: Address
    leaf: NodeLeaf
    hashes: tuple[bytes, ...]

    @property
    def is_absent(self) -> bool:
        """Whether the proof shows that the address has no leaf."""
        return self.leaf.node != self.address


class ProvableRound:
    """All leaves of a round with their tree and summary; a node takes about 300 bytes."""

    def __init__(
        self,
        leaves: Iterable[NodeLeaf],
        chain_id: int,
        oracle: Address,
        round_number: int,
        as_of: int,
        keccak: Keccak,
    ) -> None:
        """Build the tree of the leaves, which are sorted by address, as of the block `as_of`.

        Raises:
            ValueError: the seats of the leaves are not 0 to n - 1.
        """
        leaf_list = list(leaves)
        self._addresses = [leaf.node for leaf in leaf_list]
        self._seats = [leaf.seat for leaf in leaf_list]
        encoded_by_seat = {leaf.seat: leaf.encode() for leaf in leaf_list}
        self._tree = RoundTree(encoded_by_seat.values(), keccak)
        self._encoded_leaves = b"".join(
            encoded_by_seat[seat] for seat in range(len(encoded_by_seat))
        )
        self.summary: RoundSummary = self._tree.summarize(chain_id, oracle, round_number, as_of)
        self.root = self._tree.compute_root(self.summary)

    def prove_node(self, address: Address) -> NodeProof:
        """Prove the leaf of an address, or that the address has no leaf.

        Raises:
            ValueError: the round has no leaves.
        """
        if not self._addresses:
            raise ValueError("the round has no nodes")
        index = bisect_left(self._addresses, address)
        if index == len(self._addresses) or self._addresses[index] != address:
            index -= 1
        seat = self._seats[index]
        offset = LEAF_BYTES * seat
        leaf = NodeLeaf.decode(self._encoded_leaves[offset : offset + LEAF_BYTES])
        return NodeProof(address, leaf, tuple(self._tree.prove_node(seat, self.summary)))
