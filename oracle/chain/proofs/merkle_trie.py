"""Computes the root of a Merkle-Patricia trie over a list of receipts or transactions.

The key of a leaf is the RLP of its index (Yellow Paper, 4.3 and D). No key is a prefix of another
key, so that a branch never has a value of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY_STRING, encode_int, encode_rlp_bytes, encode_rlp_list

EMPTY_ROOT = keccak(EMPTY_STRING)
# A parent embeds nodes that are shorter than this, and references all others by hash.
_MIN_HASHED_BYTES = 32
_NIBBLES = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class _LeafShape:
    """A leaf: the encoded rest of its key, and its index in the list."""

    path: bytes
    leaf_index: int


@dataclass(frozen=True, slots=True)
class _ExtensionShape:
    """An extension: the encoded nibbles that all keys below share."""

    path: bytes
    child: "_BranchShape"


@dataclass(frozen=True, slots=True)
class _BranchShape:
    """A branch: the child under each nibble, or None."""

    children: tuple["_TrieShape | None", ...]


_TrieShape = _LeafShape | _ExtensionShape | _BranchShape


def compute_trie_root(leaves: Sequence[bytes]) -> bytes:
    """Compute the root of the trie of these leaves, keyed by list index."""
    if not leaves:
        return EMPTY_ROOT
    return keccak(_encode_node(_build_trie_shape(len(leaves)), leaves))


def _encode_node(shape: _TrieShape, leaves: Sequence[bytes]) -> bytes:
    if isinstance(shape, _LeafShape):
        return encode_rlp_list((shape.path, encode_rlp_bytes(leaves[shape.leaf_index])))
    if isinstance(shape, _ExtensionShape):
        return encode_rlp_list(
            (shape.path, _encode_node_reference(_encode_node(shape.child, leaves)))
        )
    encoded_children = [
        EMPTY_STRING if child is None else _encode_node_reference(_encode_node(child, leaves))
        for child in shape.children
    ]
    encoded_children.append(EMPTY_STRING)
    return encode_rlp_list(encoded_children)


# The keys are indexes, so the number of leaves alone determines the shape.
@lru_cache(maxsize=128)
def _build_trie_shape(leaf_count: int) -> _TrieShape:
    return _build_subtrie_shape(
        sorted((encode_int(leaf_index).hex(), leaf_index) for leaf_index in range(leaf_count)), 0
    )


def _build_subtrie_shape(keys_and_indexes: Sequence[tuple[str, int]], depth: int) -> _TrieShape:
    """Build the shape of the subtrie that holds the given keys.

    The first `depth` nibbles of the keys lead to the subtrie.
    """
    (first_key, leaf_index), (last_key, _) = keys_and_indexes[0], keys_and_indexes[-1]
    if len(keys_and_indexes) == 1:
        return _LeafShape(_encode_path(first_key[depth:], 0x20), leaf_index)
    # The keys are sorted, so the prefix shared by the first and the last is shared by all.
    shared_length = _compute_common_prefix_length(first_key, last_key, depth)
    child_by_nibble = {
        nibble: _build_subtrie_shape(list(group), shared_length + 1)
        for nibble, group in groupby(keys_and_indexes, lambda key: key[0][shared_length])
    }
    branch = _BranchShape(tuple(child_by_nibble.get(nibble) for nibble in _NIBBLES))
    if shared_length > depth:
        return _ExtensionShape(_encode_path(first_key[depth:shared_length], 0x00), branch)
    return branch


def _compute_common_prefix_length(left: str, right: str, min_length: int) -> int:
    """Return the length of the common prefix, given that it is at least `min_length`."""
    for position in range(min_length, min(len(left), len(right))):
        if left[position] != right[position]:
            return position
    return min(len(left), len(right))


def _encode_node_reference(node: bytes) -> bytes:
    return node if len(node) < _MIN_HASHED_BYTES else encode_rlp_bytes(keccak(node))


def _encode_path(nibbles: str, flag: int) -> bytes:
    """Encode a path in hex-prefix form.

    `flag` is 0x20 if the path ends in a leaf, else 0.
    """
    if len(nibbles) % 2:
        return encode_rlp_bytes(bytes.fromhex(f"{(flag >> 4) + 1:x}{nibbles}"))
    return encode_rlp_bytes(bytes.fromhex(f"{flag:02x}{nibbles}"))
