"""Leaves, summaries and trees of a round, hashed as in docs/reference/report-format.md#roots.

Independent of the product. Contents may be forged: any leaf, word and summary can be hashed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from eth_utils.crypto import keccak

MEMBER, PAUSED, EXCLUDED, HELD = 1, 2, 4, 8
DO_NOT_SELECT, ZERO_QOS, BEST_LANE = 1, 2, 10_002
LANES = 16
UNIT = 10**18
Q_MAX = 10

Proof = list[int]


def hash_words(words: Sequence[int]) -> bytes:
    """Return the hash of a leaf of these words of 32 bytes; leaves are hashed twice."""
    return keccak(keccak(b"".join(word.to_bytes(32) for word in words)))


def hash_pair(left: bytes, right: bytes) -> bytes:
    return keccak(min(left, right) + max(left, right))


def is_proven(root: bytes, leaf_hash: bytes, proof: Sequence[int]) -> bool:
    """Return whether a leaf's hash and the proof give the root."""
    node = leaf_hash
    for sibling in proof:
        node = hash_pair(node, sibling.to_bytes(32))
    return node == root


class Leaf(NamedTuple):
    """The values of a node's leaf, with the scores of its pool;
    `forged_hash` replaces their hash.
    """

    node: int
    next_node: int
    lane: int
    flags: int
    seat: int
    score_count: int
    score_sum: int
    reliability: int
    due_since: int
    scored_at: int
    pool: bytes
    forged_hash: int = 0

    @property
    def fields(self) -> int:
        """The packed values, from the lowest bit."""
        parts = (
            (self.lane, 16),
            (self.flags, 8),
            (self.seat, 32),
            (self.score_count, 16),
            (self.score_sum, 32),
            (self.reliability, 64),
            (self.due_since, 40),
            (self.scored_at, 40),
        )
        packed, shift = 0, 0
        for value, bits in parts:
            assert 0 <= value < 1 << bits
            packed |= value << shift
            shift += bits
        return packed

    @property
    def pool_hash(self) -> int:
        return self.forged_hash or int.from_bytes(keccak(self.pool))

    @property
    def abi(self) -> tuple[int, int, int, int]:
        return self.node, self.next_node, self.fields, self.pool_hash

    @property
    def expected_lane(self) -> int:
        """Return the lane that follows from the other fields;
        the leaf's own lane if it is not checked.
        """
        if self.flags & (MEMBER | PAUSED | EXCLUDED) != MEMBER:
            return DO_NOT_SELECT
        if not self.score_count or not self.score_sum:
            return self.lane
        mean = self.score_sum * UNIT // (self.score_count * Q_MAX)
        return mean * self.reliability // UNIT * 10_000 // UNIT + ZERO_QOS

    def is_in_gap(self, node: int) -> bool:
        """Return whether the node lies between this leaf's node and the next one."""
        if self.node < self.next_node:
            return self.node < node < self.next_node
        return node > self.node or node < self.next_node


def read_leaf(abi: Sequence[int]) -> Leaf:
    """Return the leaf of a call's argument, whose scores are unknown."""
    node, next_node, fields, pool_hash = abi
    widths = (16, 8, 32, 16, 32, 64, 40, 40)
    values = []
    for bits in widths:
        values.append(fields & ((1 << bits) - 1))
        fields >>= bits
    lane, flags, seat, score_count, score_sum, reliability, due_since, scored_at = values
    return Leaf(
        *(node, next_node, lane, flags, seat, score_count, score_sum, reliability),
        *(due_since, scored_at, b"", pool_hash),
    )


class Summary(NamedTuple):
    """In the contract's order."""

    chain_id: int
    oracle: int
    round: int
    as_of: int
    node_count: int
    open_count: int
    total_weight: int


@dataclass(frozen=True)
class Tree:
    """The levels of a tree, from the leaves to the root."""

    levels: tuple[tuple[bytes, ...], ...]

    @classmethod
    def build(cls, hashes: Sequence[bytes]) -> Self:
        """Pad to a power of two with empty leaves, and hash pairs upwards."""
        width = 1 << max(len(hashes) - 1, 0).bit_length()
        level = (*hashes, *(bytes(32) for _ in range(width - len(hashes))))
        levels = [level]
        while len(level) > 1:
            level = tuple(hash_pair(*pair) for pair in zip(level[::2], level[1::2], strict=True))
            levels.append(level)
        return cls(tuple(levels))

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    def prove(self, place: int, run: int = 1) -> list[bytes]:
        """Return the sibling hashes on the path of an aligned run of leaves."""
        skipped = run.bit_length() - 1
        return [
            level[(place >> height) ^ 1]
            for height, level in enumerate(self.levels[:-1])
            if height >= skipped
        ]


@dataclass(frozen=True)
class Contents:
    """The contents of a root: leaves by index, words with their indexes by position, a summary."""

    leaves: tuple[Leaf, ...]
    words: tuple[tuple[int, int], ...]
    summary: Summary
    is_forged: bool = False

    def __deepcopy__(self, _: object) -> Self:
        """Contents never change, so a copy of a state shares them."""
        return self

    def __repr__(self) -> str:
        return f"Contents(round={self.summary.round}, root=0x{self.root.hex()})"

    @cached_property
    def node_tree(self) -> Tree:
        return Tree.build([hash_words(leaf.abi) for leaf in self.leaves])

    @cached_property
    def word_tree(self) -> Tree:
        return Tree.build([hash_words(indexed) for indexed in self.words])

    @cached_property
    def summary_hash(self) -> bytes:
        return hash_words(self.summary)

    @cached_property
    def root(self) -> bytes:
        trees = hash_pair(self.node_tree.root, self.word_tree.root)
        return hash_pair(self.summary_hash, trees)

    def prove_leaf(self, place: int) -> Proof:
        ends = (self.word_tree.root, self.summary_hash)
        return [int.from_bytes(part) for part in (*self.node_tree.prove(place), *ends)]

    def prove_words(self, place: int, run: int) -> Proof:
        ends = (self.node_tree.root, self.summary_hash)
        return [int.from_bytes(part) for part in (*self.word_tree.prove(place, run), *ends)]

    def has_leaf(self, abi: Sequence[int]) -> bool:
        return any(leaf.abi == tuple(abi) for leaf in self.leaves)


def words_of(leaves: Sequence[Leaf]) -> tuple[tuple[int, int], ...]:
    """Return the words of honest leaves."""
    count = (len(leaves) + LANES - 1) // LANES
    words = [0] * count
    for place, leaf in enumerate(leaves):
        words[place // LANES] |= leaf.lane << LANES * (place % LANES)
    return tuple(enumerate(words))


def lanes_of(word: int) -> list[int]:
    return [word >> LANES * place & 0xFFFF for place in range(LANES)]
