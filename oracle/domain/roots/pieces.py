"""Splits the leaves of a round into pieces of 8,192 leaves, each with its own subtree.

The leaves are in the order of their seats. A round is stored and published as its pieces. The root
follows from the digests of all pieces, and a leaf is proven from its piece and these digests. See
docs/reference/report-format.md#pieces.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from oracle.domain.ids import Address
from oracle.domain.reports.lanes import DO_NOT_SELECT, LANES_PER_WORD, pack_lane_words
from oracle.domain.roots.leaves import (
    HASH_BYTES,
    LEAF_BYTES,
    WORD_LEAF_BYTES,
    Keccak,
    RoundSummary,
    encode_word_leaf,
    extract_lanes,
    extract_seats,
    hash_leaf,
    hash_leaves,
    is_leaf_covering_address,
    split_leaves,
)
from oracle.domain.roots.merkle_tree import MerkleTree, compute_empty_root, hash_pair

# A full piece has 1 MiB, the usual maximum size of a content-addressed block.
PIECE_DEPTH = 13
PIECE_LEAVES = 1 << PIECE_DEPTH
PIECE_WORDS = PIECE_LEAVES // LANES_PER_WORD
WORD_DEPTH = PIECE_WORDS.bit_length() - 1
# The contract keeps this many rounds' roots and cannot verify proofs in older rounds.
KEPT_ROUNDS = 256


@dataclass(frozen=True, slots=True)
class PieceDigest:
    """The hashes and sums of a piece, which are needed to compute the round's root.

    `nodes_hash` is the root of the subtree of the piece's leaves, and `words_hash` the root of the
    subtree of its words of lanes. `open_count` and `total_weight` are the piece's shares of the
    round's summary.
    """

    leaf_count: int
    nodes_hash: bytes
    words_hash: bytes
    open_count: int
    total_weight: int


class PieceEdit:
    """The replaced and added leaves of a piece, as positions in a buffer of leaves."""

    def __init__(self, leaves: bytearray) -> None:
        self._leaves = leaves
        self._indexes = array("H")
        self._positions = array("I")

    def add(self, index: int, position: int) -> None:
        """Add the leaf at a position of the buffer.

        If an index is added again, the last leaf counts.
        """
        self._indexes.append(index)
        self._positions.append(position)

    def has_all_leaves(self, leaf_count: int) -> bool:
        """Return whether the edit replaces every leaf of a piece of `leaf_count` leaves."""
        return len(set(self._indexes)) == leaf_count

    def apply(self, piece: bytes) -> bytes:
        """Apply the edit to a piece, and return the result.

        The leaves of the edit replace leaves of the piece or are added.

        Raises:
            ValueError: a leaf between the end of the piece and an added leaf is missing.
        """
        leaf_count = len(piece) // LEAF_BYTES
        new_count = max(leaf_count, max(self._indexes) + 1)
        if new_count > leaf_count and not set(range(leaf_count, new_count)).issubset(
            self._indexes
        ):
            raise ValueError("leaves are missing between the stored and the added leaves")
        edited_piece = bytearray(piece)
        edited_piece.extend(bytes(LEAF_BYTES * (new_count - leaf_count)))
        for index, position in zip(self._indexes, self._positions, strict=True):
            offset = LEAF_BYTES * index
            source_offset = LEAF_BYTES * position
            edited_piece[offset : offset + LEAF_BYTES] = self._leaves[
                source_offset : source_offset + LEAF_BYTES
            ]
        return bytes(edited_piece)


class PieceEdits:
    """The leaves changed since the last call of `take`.

    Each leaf takes about 132 bytes. A leaf that changed several times is kept once. For some
    pieces, only the fact that they changed is kept.
    """

    def __init__(self) -> None:
        self.discard()

    def add(self, leaves: bytes, max_kept_seats: int | None = None) -> None:
        """Add encoded leaves.

        A leaf replaces an earlier leaf with the same seat. For seats from `max_kept_seats` on,
        only the numbers of their pieces are kept.
        """
        if max_kept_seats is not None:
            leaves = self._drop_leaves_beyond_limit(leaves, max_kept_seats)
        seats = extract_seats(leaves)
        slots = self._slots
        slots.frombytes(bytes(slots.itemsize * max(0, max(seats, default=-1) + 1 - len(slots))))
        if any(map(slots.__getitem__, seats)):
            for seat, leaf in zip(seats, split_leaves(leaves), strict=True):
                self._replace(seat, leaf)
            return
        for slot, seat in enumerate(seats, start=len(self._seats) + 1):
            slots[seat] = slot
        self._seats.extend(seats)
        self._leaves += leaves

    def drop(self, seats: Iterable[int]) -> None:
        """Record that seats changed, keeping only the numbers of their pieces."""
        # Looking up the end of each piece is faster than dividing each seat.
        sorted_seats = sorted(seats)
        position = 0
        while position < len(sorted_seats):
            piece_index = sorted_seats[position] // PIECE_LEAVES
            self.dropped_pieces.add(piece_index)
            position = bisect_left(sorted_seats, PIECE_LEAVES * (piece_index + 1), lo=position)

    def _drop_leaves_beyond_limit(self, leaves: bytes, max_kept_seats: int) -> bytes:
        """Return the leaves below the seat limit, and drop all others.

        For dropped leaves, only the numbers of their pieces are recorded.
        """
        kept_leaves = []
        for seat, leaf in zip(extract_seats(leaves), split_leaves(leaves), strict=True):
            if seat < max_kept_seats:
                kept_leaves.append(leaf)
            else:
                self.dropped_pieces.add(seat // PIECE_LEAVES)
        return b"".join(kept_leaves)

    def _replace(self, seat: int, leaf: bytes) -> None:
        slot = self._slots[seat]
        if slot == 0:
            self._seats.append(seat)
            self._leaves += leaf
            self._slots[seat] = len(self._seats)
            return
        offset = LEAF_BYTES * (slot - 1)
        self._leaves[offset : offset + LEAF_BYTES] = leaf

    def discard(self) -> None:
        """Discard the collected leaves."""
        self._seats = array("I")
        self._leaves = bytearray()
        # For each seat, 1 + the index of its leaf, or 0 if the leaf has not changed.
        self._slots = array("I")
        # Changed pieces of which some changed leaves were not kept.
        self.dropped_pieces: set[int] = set()

    def take(self) -> dict[int, PieceEdit]:
        """Return the edits of each piece, and clear the collection.

        The pieces in `dropped_pieces` have no edit.
        """
        seats, leaves, dropped_pieces = self._seats, self._leaves, self.dropped_pieces
        self.discard()
        edit_by_piece: dict[int, PieceEdit] = {}
        for position, seat in enumerate(seats):
            piece_index = seat // PIECE_LEAVES
            if piece_index in dropped_pieces:
                continue
            edit = edit_by_piece.get(piece_index)
            if edit is None:
                edit = edit_by_piece[piece_index] = PieceEdit(leaves)
            edit.add(seat % PIECE_LEAVES, position)
        return edit_by_piece


def sort_leaves(leaves: bytes) -> bytes:
    """Sort encoded leaves by seat number."""
    seats = extract_seats(leaves)
    seat_order = sorted(range(len(seats)), key=seats.__getitem__)
    return b"".join(
        [leaves[LEAF_BYTES * index : LEAF_BYTES * (index + 1)] for index in seat_order]
    )


class PieceTree:
    """The encoded leaves of a piece, and their Merkle subtree.

    Both take up to 1.5 MiB.
    """

    def __init__(self, leaves: bytes, keccak: Keccak, *, is_only_piece: bool) -> None:
        """Build the Merkle subtree of a piece's leaves.

        If a round has only one piece, the piece is not padded to the full size.

        Raises:
            ValueError: the bytes are not 1 to 8,192 leaves.
        """
        self._leaves = leaves
        _check_piece_size(leaves)
        hashes = hash_leaves(leaves, LEAF_BYTES, keccak)
        self._tree = _build_subtree(hashes, PIECE_LEAVES, keccak, is_only_piece=is_only_piece)

    @property
    def nodes_hash(self) -> bytes:
        """The root of the subtree."""
        return self._tree.root

    def get_leaf(self, index: int) -> bytes:
        """Return an encoded leaf.

        `index` counts from the first leaf of the piece.
        """
        return self._leaves[LEAF_BYTES * index : LEAF_BYTES * (index + 1)]

    @property
    def leaves(self) -> bytes:
        """The encoded leaves, in the order of their seat numbers."""
        return self._leaves

    def is_address_covered_by_leaf(self, index: int, address: bytes) -> bool:
        """Return whether a leaf is for an address, or proves that the address has none.

        `index` counts from the first leaf of the piece.
        """
        leaf = self.get_leaf(index)
        return bool(leaf) and is_leaf_covering_address(leaf, address)

    def find_covering_leaf(self, address: bytes) -> int | None:
        """Return the index of the leaf that proves an address or its absence.

        The result is None if the piece has no such leaf.
        """
        return next(
            (
                index
                for index, leaf in enumerate(split_leaves(self._leaves))
                if is_leaf_covering_address(leaf, address)
            ),
            None,
        )

    def build_proof(self, index: int) -> list[bytes]:
        """Build the proof of a leaf: the sibling hashes up to the subtree's root."""
        return self._tree.build_proof(index)


class PiecedRound:
    """The root of a round and the top of its trees, computed from all piece digests."""

    def __init__(
        self,
        digests: Sequence[PieceDigest],
        chain_id: int,
        oracle: Address,
        round_number: int,
        as_of: int,
        keccak: Keccak,
    ) -> None:
        """Compute the root of a round from the digests of its pieces.

        `as_of` is the number of the round's block.
        """
        self.digests = tuple(digests)
        self._keccak = keccak
        self._nodes = _build_top_tree(
            [digest.nodes_hash for digest in digests], PIECE_DEPTH, keccak
        )
        self._words = _build_top_tree(
            [digest.words_hash for digest in digests], WORD_DEPTH, keccak
        )
        self.summary = RoundSummary(
            chain_id=chain_id,
            oracle=oracle,
            round=round_number,
            as_of=as_of,
            node_count=sum(digest.leaf_count for digest in digests),
            open_count=sum(digest.open_count for digest in digests),
            total_weight=sum(digest.total_weight for digest in digests),
        )
        self._summary_hash = hash_leaf(self.summary.encode(), keccak)
        trees_hash = hash_pair(self._nodes.root, self._words.root, keccak)
        self.root = hash_pair(self._summary_hash, trees_hash, keccak)

    def build_path(self, piece: int) -> tuple[bytes, ...]:
        """Return the sibling hashes between a piece's root and the round's root.

        The piece's root is that of its leaves.

        Raises:
            IndexError: the round has no such piece.
        """
        if not 0 <= piece < len(self.digests):
            raise IndexError(f"the round has no piece {piece}")
        return (*self._nodes.build_proof(piece), self._words.root, self._summary_hash)

    def prove_word_runs(
        self, lane_words: Sequence[int], runs: Iterable[tuple[int, int]]
    ) -> Iterator[tuple[bytes, ...]]:
        """Yield a proof for each run of words.

        A run is a pair (first word, number of words). `lane_words` are all words of the round. A
        run has 2^k words, begins at a multiple of its length and lies in one piece; runs are in
        ascending order. Words after the last one count as 0. A proof begins with the sibling hash
        of the run.

        Raises:
            IndexError: there is no word at the beginning of a run.
        """
        for piece, runs_of_piece in groupby(runs, key=lambda run: run[0] // PIECE_WORDS):
            first_word = PIECE_WORDS * piece
            piece_words = lane_words[first_word : first_word + PIECE_WORDS]
            is_only_piece = len(self.digests) == 1
            tree = _build_word_tree(piece, piece_words, self._keccak, is_only_piece=is_only_piece)
            piece_path = (*self._words.build_proof(piece), self._nodes.root, self._summary_hash)
            for first, count in runs_of_piece:
                proof_in_piece = tree.build_proof(first - first_word)
                yield (*proof_in_piece[count.bit_length() - 1 :], *piece_path)


def compute_piece_digest(
    piece_index: int, leaves: bytes, keccak: Keccak, *, is_only_piece: bool
) -> PieceDigest:
    """Compute the digest of the piece at `piece_index` from its leaves.

    The digest depends on nothing else.

    Raises:
        ValueError: the bytes are not 1 to 8,192 leaves.
    """
    tree = PieceTree(leaves, keccak, is_only_piece=is_only_piece)
    lanes = extract_lanes(leaves)
    word_tree = _build_word_tree(
        piece_index, pack_lane_words(lanes), keccak, is_only_piece=is_only_piece
    )
    return build_piece_digest(lanes, tree.nodes_hash, word_tree.root)


def build_piece_digest(lanes: Sequence[int], nodes_hash: bytes, words_hash: bytes) -> PieceDigest:
    """Build the digest of a piece from the lanes of its leaves and its two hashes."""
    open_count, total_weight = count_and_weigh_selectable_nodes(lanes)
    return PieceDigest(len(lanes), nodes_hash, words_hash, open_count, total_weight)


def count_and_weigh_selectable_nodes(lanes: Sequence[int]) -> tuple[int, int]:
    """Return the number of selectable nodes and the sum of their weights."""
    # A lane is the weight plus 1; a node that may not be selected has weight 0.
    return len(lanes) - lanes.count(DO_NOT_SELECT), sum(lanes) - len(lanes)


def _build_word_tree(
    piece_index: int, lane_words: Sequence[int], keccak: Keccak, *, is_only_piece: bool
) -> MerkleTree:
    """Build the Merkle subtree of one piece's words of encoded scores (lanes)."""
    leaves = b"".join(
        encode_word_leaf(index, lane_word)
        for index, lane_word in enumerate(lane_words, start=PIECE_WORDS * piece_index)
    )
    hashes = hash_leaves(leaves, WORD_LEAF_BYTES, keccak)
    return _build_subtree(hashes, PIECE_WORDS, keccak, is_only_piece=is_only_piece)


def _check_piece_size(leaves: bytes) -> None:
    leaf_count, remainder = divmod(len(leaves), LEAF_BYTES)
    if remainder or not 0 < leaf_count <= PIECE_LEAVES:
        raise ValueError(
            f"a piece has 1 to {PIECE_LEAVES} leaves of {LEAF_BYTES} bytes each, but "
            f"{len(leaves)} bytes were passed"
        )


def _build_subtree(
    hashes: bytes, leaf_capacity: int, keccak: Keccak, *, is_only_piece: bool
) -> MerkleTree:
    return MerkleTree(
        hashes if is_only_piece else hashes.ljust(HASH_BYTES * leaf_capacity, b"\0"), keccak
    )


def _build_top_tree(hashes: list[bytes], depth: int, keccak: Keccak) -> MerkleTree:
    """Build the tree above the given subtree roots.

    Each subtree has 2^depth leaves, and its root is in `hashes`.
    """
    if len(hashes) > 1:
        padded_count = 1 << (len(hashes) - 1).bit_length()
        hashes += [compute_empty_root(depth, keccak)] * (padded_count - len(hashes))
    return MerkleTree(b"".join(hashes), keccak)
