"""The Merkle tree of a round: its node leaves, its lane words and its summary.

The root is pair(summary, pair(nodes, words)): `nodes` is the root of the leaves by seat, and
`words` is the root of the lanes, with sixteen seats in each word. A proof therefore ends with the
root of the other tree and the hash of the summary. A contract verifies a proof with
OpenZeppelin's MerkleProof, and this program with `compute_root`. See
docs/reference/report-format.md#roots.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracle.domain.ids import Address, Hash
from oracle.domain.native import native
from oracle.domain.reports.lanes import (
    LANES_PER_WORD,
    LOWEST_SCORE,
    NEVER_REPORTED,
    get_word_index,
)
from oracle.domain.roots.leaves import (
    LEAF_BYTES,
    WORD_LEAF_BYTES,
    Keccak,
    NodeLeaf,
    RoundSummary,
    encode_lane_words,
    extract_lanes,
    extract_seats,
    hash_leaf,
    hash_leaves,
)
from oracle.domain.roots.merkle_tree import MerkleTree, hash_pair
from oracle.domain.roots.pieces import (
    PIECE_DEPTH,
    PIECE_LEAVES,
    WORD_DEPTH,
    PieceDigest,
    PieceEdits,
    build_piece_digest,
    count_and_weigh_selectable_nodes,
)


class RoundTree:
    """The hashes and the encoded scores (lanes) of all nodes in the last round.

    The tree takes about 70 bytes per node. Each round updates the leaves that changed since the
    round before. The leaves themselves are kept only in `edits`, until they are taken from there.
    """

    def __init__(self, batches: Iterable[bytes], keccak: Keccak) -> None:
        """Build the tree from all leaves.

        Raises:
            ValueError: the seats are not 0 to n - 1.
        """
        self._keccak = keccak
        self._lanes = array("H")
        self._nodes = MerkleTree(b"", keccak)
        self._words = MerkleTree(b"", keccak)
        self._leaf_count = self._open_count = self._total_weight = 0
        self.edits = PieceEdits()
        self.update(batches)

    @property
    def node_count(self) -> int:
        return len(self._lanes)

    @property
    def lanes(self) -> "array[int]":
        """The encoded scores (lanes) of all nodes, in the order of their seats.

        The caller must not change the lanes.
        """
        return self._lanes

    def update(self, batches: Iterable[bytes], max_kept_seats: int | None = None) -> int:
        """Replace leaves, add leaves of new nodes, and return the number of changes.

        Leaves are placed by seat. The result is the number of leaves that differ from the earlier
        leaves.

        A batch is one or more encoded leaves, one after the other. For seats from `max_kept_seats`
        on, `edits` has the pieces but not the leaves.

        Raises:
            ValueError: the new seats leave a gap; the tree is then unusable.
        """
        changed_words: set[int] = set()
        changed_count = 0
        for leaves in batches:
            seats = extract_seats(leaves)
            lanes = extract_lanes(leaves)
            hashes = hash_leaves(leaves, LEAF_BYTES, self._keccak)
            changed_positions = self._nodes.set_leaves(seats, hashes)
            changed_count += len(changed_positions)
            self._set_lanes(seats, lanes, changed_words)
            if max_kept_seats == 0:
                self.edits.drop(map(seats.__getitem__, changed_positions))
            else:
                self.edits.add(_select_leaves(leaves, changed_positions), max_kept_seats)
        if self._leaf_count != len(self._lanes):
            raise ValueError(
                f"{self._leaf_count} leaves must have the seats 0 to {self._leaf_count - 1}"
            )
        self._update_word_hashes(sorted(changed_words))
        return changed_count

    def _update_word_hashes(self, indexes: Sequence[int]) -> None:
        """Recompute the hashes of the words at `indexes`."""
        leaves = encode_lane_words(indexes, self._lanes)
        self._words.set_leaves(indexes, hash_leaves(leaves, WORD_LEAF_BYTES, self._keccak))

    def append_stored_leaves(self, pieces: Iterable[bytes]) -> None:
        """Append the stored leaves of a round, without recording them in `edits`.

        The leaves are in seat order.
        """
        first_word = get_word_index(len(self._lanes))
        for leaves in pieces:
            self._nodes.append_leaves(hash_leaves(leaves, LEAF_BYTES, self._keccak))
            lanes = extract_lanes(leaves)
            self._lanes.extend(lanes)
            self._leaf_count += len(lanes)
            open_count, total_weight = count_and_weigh_selectable_nodes(lanes)
            self._open_count += open_count
            self._total_weight += total_weight
        self._update_word_hashes(range(first_word, -(-len(self._lanes) // LANES_PER_WORD)))

    def hash_changed(self) -> None:
        """Recompute all hashes above changed leaves now, not when the root is next read."""
        self._nodes.hash_changed()
        self._words.hash_changed()

    def _set_lanes(
        self, seats: "array[int]", new_lanes: "array[int]", changed_words: set[int]
    ) -> None:
        """Set the lanes at `seats`, and record which words change.

        The words are added to `changed_words`.
        """
        lanes = self._lanes
        lanes.extend((NEVER_REPORTED,) * (max(seats, default=-1) + 1 - len(lanes)))
        if native is not None:
            leaf_growth, open_growth, weight_growth, word_indexes = native.set_lanes(
                lanes, seats, new_lanes
            )
            self._leaf_count += leaf_growth
            self._open_count += open_growth
            self._total_weight += weight_growth
            changed_words.update(word_indexes)
            return
        for seat, lane in zip(seats, new_lanes, strict=True):
            old_lane = lanes[seat]
            if lane == old_lane:
                continue
            lanes[seat] = lane
            self._leaf_count += old_lane == NEVER_REPORTED
            self._open_count += (lane >= LOWEST_SCORE) - (old_lane >= LOWEST_SCORE)
            # A lane is the weight plus 1; a node that may not be selected has weight 0.
            self._total_weight += max(lane, 1) - max(old_lane, 1)
            changed_words.add(get_word_index(seat))

    def get_piece_digest(self, piece: int) -> PieceDigest:
        """Return the digest of a piece.

        Raises IndexError if the round has no such piece.
        """
        first_seat = PIECE_LEAVES * piece
        return build_piece_digest(
            self._lanes[first_seat : first_seat + PIECE_LEAVES],
            self._nodes.get_subtree_root(PIECE_DEPTH, piece),
            self._words.get_subtree_root(WORD_DEPTH, piece),
        )

    def summarize(
        self, chain_id: int, oracle: Address, round_number: int, as_of: int
    ) -> RoundSummary:
        """Return the summary of round `round_number` for the current leaves."""
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
        """Compute the root of a round from the current leaves and a summary."""
        trees_hash = hash_pair(self._nodes.root, self._words.root, self._keccak)
        return hash_pair(hash_leaf(summary.encode(), self._keccak), trees_hash, self._keccak)

    def compute_round_root(
        self, chain_id: int, oracle: Address, round_number: int, as_of: int
    ) -> Hash:
        """Compute the root of round `round_number` from the current leaves."""
        summary = self.summarize(chain_id, oracle, round_number, as_of)
        return Hash("0x" + self.compute_root(summary).hex())

    def prove_node(self, seat: int, summary: RoundSummary) -> list[bytes]:
        """Return the proof of the leaf at a seat.

        Raises IndexError if there is no such leaf.
        """
        return [
            *self._nodes.build_proof(seat),
            self._words.root,
            hash_leaf(summary.encode(), self._keccak),
        ]


def _select_leaves(leaves: bytes, positions: Sequence[int]) -> bytes:
    """Return the leaves at `positions`, in the order of `positions`."""
    if LEAF_BYTES * len(positions) == len(leaves):
        return leaves
    # Joining a list is faster than joining a generator.
    return b"".join(
        [leaves[LEAF_BYTES * position : LEAF_BYTES * (position + 1)] for position in positions]
    )


@dataclass(frozen=True, slots=True)
class NodeProof:
    """The leaf of a node in a round, and its sibling hashes up to the root.

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
    """All leaves of a round, with their tree and summary.

    A node takes about 300 bytes.
    """

    def __init__(
        self,
        leaves: Iterable[NodeLeaf],
        chain_id: int,
        oracle: Address,
        round_number: int,
        as_of: int,
        keccak: Keccak,
    ) -> None:
        """Build the tree from leaves that are sorted by address, as of block `as_of`.

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
        """Prove the leaf of an address, or that the address has none.

        Raises:
            ValueError: the round has no leaves.
        """
        if not self._addresses:
            raise ValueError("the round has no nodes")
        address_index = bisect_left(self._addresses, address)
        if address_index == len(self._addresses) or self._addresses[address_index] != address:
            address_index -= 1
        seat = self._seats[address_index]
        offset = LEAF_BYTES * seat
        leaf = NodeLeaf.decode(self._encoded_leaves[offset : offset + LEAF_BYTES])
        return NodeProof(address, leaf, tuple(self._tree.prove_node(seat, self.summary)))
