"""Encodes and hashes the leaves of a round's Merkle tree exactly as a contract does.

A leaf is hashed twice, as in OpenZeppelin's StandardMerkleTree, so that no inner node of a tree
can pass for a leaf, because an inner node is the hash of 64 bytes, hashed once. Leaves of
different kinds have different lengths. See docs/reference/report-format.md#roots.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Self

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.native import native
from oracle.domain.reports.lanes import (
    DO_NOT_SELECT,
    HIGHEST_SCORE,
)

# A function that returns the Keccak-256 hash (32 bytes). Callers pass the function in, because the
# domain imports no libraries.
Keccak = Callable[[bytes], bytes]

HASH_BYTES = 32
_WORD_BYTES = 32
_ADDRESS_PADDING = bytes(12)


class LeafFlag(IntFlag):
    """The flags of a node in its leaf.

    HELD means that its kickout needs an operator's approval.
    """

    MEMBER = 1
    PAUSED = 2
    EXCLUDED = 4
    HELD = 8


# `abi.encode(address, address, uint256, bytes32)`. The uint256 packs eight numbers, from the
# highest bit down: 8 zero bits, last_scored_at (40 bits), kickout_due_since (40), reliability
# (64), score_sum (32), score_count (16), seat (32), flags (8) and lane (16).
_NODE_LEAF = struct.Struct(">12x20s12x20sx5s5sQIHIBH32s")
_TIME_BYTES = 5
LEAF_BYTES = _NODE_LEAF.size
WORD_LEAF_BYTES = 2 * _WORD_BYTES
# Byte offsets of fields in an encoded leaf.
_SEAT_AT = 89
_FLAGS_AT = 93
_LANE_AT = 94
_DUE_SINCE_AT = slice(70, 75)
_NODE = slice(12, 32)
_NEXT_NODE = slice(44, 64)
_LANE = slice(94, 96)


@dataclass(frozen=True, slots=True)
class NodeLeaf:
    """The values of a node in a round.

    `next_node` is the next higher address that has a leaf; the highest address is followed by the
    lowest. A leaf therefore proves that no address between `node` and `next_node` has a leaf.
    `lane` is 1 (do not select) or the QoS in steps of 0.0001 plus 2. `seat` is the index of the
    leaf: nodes are numbered from 0 in the order in which events first named them, and keep their
    number forever. `score_sum` is the sum of the `score_count` scores that determine the long-term
    score. `reliability` is H at the round's as-of block, in units of 10^-18. `kickout_due_since`
    and `last_scored_at` are block times in seconds; 0 means that no kickout is due, or that the
    node has no score. `pool_hash` is the Keccak-256 hash of the scores, with one byte for each
    score.
    """

    node: Address
    next_node: Address
    lane: int
    flags: LeafFlag
    seat: int
    score_count: int
    score_sum: int
    reliability: int
    kickout_due_since: int
    last_scored_at: int
    pool_hash: bytes

    @classmethod
    def decode(cls, encoded_leaf: bytes) -> Self:
        """Decode a leaf that `encode` encoded.

        Raises struct.error unless the leaf has 128 bytes.
        """
        node, next_node, last_scored_at, due_since, reliability, *fields = _NODE_LEAF.unpack(
            encoded_leaf
        )
        score_sum, score_count, seat, flags, lane, pool_hash = fields
        return cls(
            node=Address("0x" + node.hex()),
            next_node=Address("0x" + next_node.hex()),
            lane=lane,
            flags=LeafFlag(flags),
            seat=seat,
            score_count=score_count,
            score_sum=score_sum,
            reliability=reliability,
            kickout_due_since=int.from_bytes(due_since),
            last_scored_at=int.from_bytes(last_scored_at),
            pool_hash=pool_hash,
        )

    def encode(self) -> bytes:
        """Encode the leaf like `abi.encode(address, address, uint256, bytes32)`.

        Raises:
            ValueError: a number does not fit its field, the lane or the reliability is out of
                range, or the pool hash does not have 32 bytes.
        """
        if not DO_NOT_SELECT <= self.lane <= HIGHEST_SCORE:
            raise ValueError(f"the lane of {self.node} is {self.lane}; expected 1 to 10002")
        if not 0 <= self.reliability <= UNIT:
            raise ValueError(f"the reliability of {self.node} is not between 0 and 1")
        if len(self.pool_hash) != HASH_BYTES:
            raise ValueError(
                f"the pool hash of {self.node} has {len(self.pool_hash)} bytes; expected "
                f"{HASH_BYTES}"
            )
        try:
            return _NODE_LEAF.pack(
                bytes.fromhex(self.node[2:]),
                bytes.fromhex(self.next_node[2:]),
                self.last_scored_at.to_bytes(_TIME_BYTES),
                self.kickout_due_since.to_bytes(_TIME_BYTES),
                self.reliability,
                self.score_sum,
                self.score_count,
                self.seat,
                self.flags,
                self.lane,
                self.pool_hash,
            )
        except (OverflowError, struct.error) as error:
            raise ValueError(
                f"a number in the leaf of {self.node} is out of range: {error}"
            ) from None


@dataclass(frozen=True, slots=True)
class RoundSummary:
    """The values of a whole round, which bind its root to one chain, contract and round.

    `as_of` is a block number. `node_count` is the number of leaves, `open_count` the number of
    nodes that may be selected, and `total_weight` the sum of all weights: QoS in steps of 0.0001
    plus 1 for a node that may be selected, else 0.
    """

    chain_id: int
    oracle: Address
    round: int
    as_of: int
    node_count: int
    open_count: int
    total_weight: int

    def encode(self) -> bytes:
        """Encode the summary as the contract's `abi.encode(summary)` does."""
        summary_numbers = (
            self.round,
            self.as_of,
            self.node_count,
            self.open_count,
            self.total_weight,
        )
        return b"".join(
            (
                _encode_number(self.chain_id),
                _encode_address(self.oracle),
                *(_encode_number(number) for number in summary_numbers),
            )
        )


def read_leaf_lane(encoded_leaf: bytes) -> int:
    """Return the encoded score (lane) in a node leaf, without decoding other fields."""
    return int.from_bytes(encoded_leaf[_LANE])


def read_leaf_flags(encoded_leaf: bytes) -> LeafFlag:
    """Return the flags in an encoded leaf."""
    return LeafFlag(encoded_leaf[_FLAGS_AT])


def is_kickout_due_in_leaf(encoded_leaf: bytes) -> bool:
    """Return whether an encoded leaf says that a kickout is due."""
    return any(encoded_leaf[_DUE_SINCE_AT])


def extract_lanes(leaves: bytes) -> "array[int]":
    """Return the encoded scores (lanes) in node leaves, in the order of the leaves."""
    return _decode_column(leaves, "H", _LANE_AT)


def extract_seats(leaves: bytes) -> "array[int]":
    """Return the seat numbers in node leaves, in the order of the leaves."""
    return _decode_column(leaves, "I", _SEAT_AT)


def _decode_column(leaves: bytes, typecode: str, position: int) -> "array[int]":
    """Return the number at a byte offset of every leaf, as an array of this type."""
    column_values = array(typecode)
    encoded = bytearray(column_values.itemsize * (len(leaves) // LEAF_BYTES))
    for offset in range(column_values.itemsize):
        encoded[offset :: column_values.itemsize] = leaves[position + offset :: LEAF_BYTES]
    column_values.frombytes(encoded)
    if sys.byteorder == "little":
        column_values.byteswap()
    return column_values


def split_leaves(leaves: bytes) -> Iterator[bytes]:
    """Split concatenated encoded leaves, and yield each leaf."""
    for offset in range(0, len(leaves), LEAF_BYTES):
        yield leaves[offset : offset + LEAF_BYTES]


def is_leaf_covering_address(encoded_leaf: bytes, address: bytes) -> bool:
    """Return whether a leaf is for an address, or proves that the address has none."""
    node = encoded_leaf[_NODE]
    next_node = encoded_leaf[_NEXT_NODE]
    if node < next_node:
        return node <= address < next_node
    # The successor of the highest address is the lowest.
    return address >= node or address < next_node


def encode_word_leaf(index: int, lane_word: int) -> bytes:
    """Return the encoded leaf of the sixteen lanes that start at seat 16 * `index`."""
    return _encode_number(index) + _encode_number(lane_word)


def encode_lane_words(indexes: Iterable[int], lanes: "array[int]") -> bytes:
    """Return the concatenated leaves of the words at `indexes`.

    `lanes` has the lanes of all seats. The first seat of a word is its lowest 16 bits.
    """
    if native is not None:
        return native.encode_lane_words(array("I", indexes), lanes)
    byte_ordered_lanes = lanes[:]
    if sys.byteorder == "big":
        byte_ordered_lanes.byteswap()
    # The lanes are little-endian, so the first lane is in the lowest bytes of the first word.
    word_bytes = byte_ordered_lanes.tobytes()
    word_bytes += bytes(-len(word_bytes) % _WORD_BYTES)
    return b"".join(
        index.to_bytes(_WORD_BYTES)
        + word_bytes[_WORD_BYTES * index : _WORD_BYTES * (index + 1)][::-1]
        for index in indexes
    )


def hash_leaf(encoded_leaf: bytes, keccak: Keccak) -> bytes:
    """Return the double hash of an encoded leaf."""
    return keccak(keccak(encoded_leaf))


def hash_leaves(leaves: bytes, leaf_bytes: int, keccak: Keccak) -> bytes:
    """Return the hashes of encoded leaves of `leaf_bytes` bytes each, concatenated."""
    if native is not None:
        return native.hash_leaves(leaves, leaf_bytes)
    return b"".join(
        hash_leaf(leaves[first : first + leaf_bytes], keccak)
        for first in range(0, len(leaves), leaf_bytes)
    )


def _encode_address(address: Address) -> bytes:
    return _ADDRESS_PADDING + bytes.fromhex(address[2:])


def _encode_number(number: int) -> bytes:
    return number.to_bytes(_WORD_BYTES)
