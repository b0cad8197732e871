"""The tree of a round: the leaves of its nodes, the words of their lanes, and its summary.

The root is pair(summary, pair(nodes, words)): `nodes` is the root of the leaves by seat, and
`words` is the root of the lanes, with sixteen seats in each word. A proof therefore ends with the
root of the other tree and the hash of the summary. See docs/reference/report-format.md#roots.
"""

from array import array
from collections.abc import Iterable

from oracle.domain.ids import Address
from oracle.domain.reports.lanes import (
    LANES_PER_WORD,
    LOWEST_SCORE,
    NEVER_REPORTED,
    get_word_index,
    pack_lanes,
)
from oracle.domain.roots.leaves import (
    Keccak,
    NodeLeaf,
    RoundSummary,
    encode_word_leaf,
    hash_leaf,
)
from oracle.domain.roots.merkle_tree import MerkleTree, hash_pair
from oracle.domain.roots.pieces import (
    PIECE_DEPTH,
    PIECE_LEAVES,
    WORD_DEPTH,
    PieceDigest,
    PieceEdits,
    build_digest,
)


class RoundTree:
    """The hashes and lanes of all nodes as of the last round.

    The tree takes about 70 bytes per node. A round updates the leaves that changed since the last
    round. The leaves are not kept, except in `edits`, until they are taken from there.
    """

    def __init__(self, leaves: Iterable[NodeLeaf], keccak: Keccak) -> None:
        """Build the tree of all leaves.

        Raises:
            ValueError: the seats are not 0 to n - 1, or a leaf cannot be encoded.
        """
        self._keccak = keccak
        self._lanes = array("H")
        self._nodes, self._words = MerkleTree((), keccak), MerkleTree((), keccak)
        self._open_count = self._total_weight = 0
        self.edits = PieceEdits()
        self.update(leaves)

    @property
    def node_count(self) -> int:
        return len(self._lanes)

    @property
    def lanes(self) -> "array[int]":
        """The lanes of all nodes, by seat; the caller must not change them."""
        return self._lanes

    def update(self, leaves: Iterable[NodeLeaf]) -> None:
        """Replace the leaves of these nodes, and add the leaves of new nodes by seat.

        Raises:
            ValueError: the new seats leave a gap, or a leaf cannot be encoded. The tree stays
                unchanged.
        """
        lane_by_seat = {}
        hash_by_seat = {}
        for leaf in leaves:
            seat = leaf.seat
            lane_by_seat[seat] = leaf.lane
            encoded = leaf.encode()
            hash_by_seat[seat] = hash_leaf(encoded, self._keccak)
            self.edits.add(seat, encoded)
        self._nodes.set_leaves(hash_by_seat)
        new_count = self._nodes.leaf_count - len(self._lanes)
        self._lanes.extend(new_count * (NEVER_REPORTED,))
        changed_words = set()
        for seat, lane in lane_by_seat.items():
            old_lane = self._lanes[seat]
            if lane != old_lane:
                self._lanes[seat] = lane
                self._count_lane(old_lane, -1)
                self._count_lane(lane, 1)
                changed_words.add(get_word_index(seat))
        self._words.set_leaves({index: self._hash_word(index) for index in changed_words})

    def get_word(self, index: int) -> int:
        """Return the sixteen lanes from seat 16 * `index` on; seats without a node have lane 0."""
        first = LANES_PER_WORD * index
        return pack_lanes(self._lanes[first : first + LANES_PER_WORD])

    def get_piece_digest(self, piece: int) -> PieceDigest:
        """Return the digest of a piece. Raises IndexError if the round has no such piece."""
        first = PIECE_LEAVES * piece
        return build_digest(
            self._lanes[first : first + PIECE_LEAVES],
            self._nodes.get_subtree_root(PIECE_DEPTH, piece),
            self._words.get_subtree_root(WORD_DEPTH, piece),
        )

    def summarize(
        self, chain_id: int, oracle: Address, round_number: int, as_of: int
    ) -> RoundSummary:
        """Return the summary of the round with this number, whose leaves are the current ones."""
        return RoundSummary(
            chain_id=chain_id,
            oracle=oracle,
            round=round_number,
            as_of=as_of,
            node_count=self.node_count,
            open_count=self._open_count,
            total_weight=self._total_weight,
        )

    def compute_root(self, summary: RoundSummary) -> bytes:
        """Return the root of the round with this summary."""
        trees = hash_pair(self._nodes.root, self._words.root, self._keccak)
        return hash_pair(hash_leaf(summary.encode(), self._keccak), trees, self._keccak)

    def prove_node(self, seat: int, summary: RoundSummary) -> list[bytes]:
        """Return the proof of the leaf at a seat. Raises IndexError if there is no such leaf."""
        return [
            *self._nodes.build_proof(seat),
            self._words.root,
            hash_leaf(summary.encode(), self._keccak),
        ]

    def prove_word(self, index: int, summary: RoundSummary) -> list[bytes]:
        """Return the proof of a word of lanes. Raises IndexError if there is no such word."""
        return [
            *self._words.build_proof(index),
            self._nodes.root,
            hash_leaf(summary.encode(), self._keccak),
        ]

    def _hash_word(self, index: int) -> bytes:
        return hash_leaf(encode_word_leaf(index, self.get_word(index)), self._keccak)

    def _count_lane(self, lane: int, sign: int) -> None:
        if lane >= LOWEST_SCORE:
            self._open_count += sign
            self._total_weight += sign * (lane - LOWEST_SCORE + 1)
