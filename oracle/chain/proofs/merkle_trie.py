"""The root of a Merkle-Patricia trie over a list: receipts root and transactions root.

A leaf's key is the RLP of its place (Yellow Paper, 4.3 and D); no key begins another one, so
that a branch never has a value of its own.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY, encoded_bytes, encoded_int, encoded_list

EMPTY_ROOT = keccak(EMPTY)
# A node of fewer bytes stands in its parent; all others are named there by their hash.
_NAMED = 32
_NIBBLES = "0123456789abcdef"

Leaf = tuple[str, bytes]


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the trie of these leaves, by their place in the list."""
    if not leaves:
        return EMPTY_ROOT
    keyed = sorted((_key(place), leaf) for place, leaf in enumerate(leaves))
    return keccak(_node(keyed, 0))


def _node(leaves: Sequence[Leaf], depth: int) -> bytes:
    """Encode the node under which these leaves hang; `depth` nibbles of their keys are walked."""
    first, last = leaves[0][0], leaves[-1][0]
    if len(leaves) == 1:
        return encoded_list((_path(first[depth:], 0x20), encoded_bytes(leaves[0][1])))
    # They are sorted: what the outermost share, all share.
    shared = _shared(first, last, depth)
    if shared > depth:
        return encoded_list((_path(first[depth:shared], 0x00), _named(_node(leaves, shared))))
    children = {
        nibble: _named(_node(list(under), depth + 1))
        for nibble, under in groupby(leaves, lambda leaf: leaf[0][depth])
    }
    return encoded_list([*(children.get(nibble, EMPTY) for nibble in _NIBBLES), EMPTY])


def _shared(one: str, other: str, least: int) -> int:
    """Return how far two paths are the same; up to `least` they are."""
    for place in range(least, min(len(one), len(other))):
        if one[place] != other[place]:
            return place
    return min(len(one), len(other))


def _named(node: bytes) -> bytes:
    return node if len(node) < _NAMED else encoded_bytes(keccak(node))


# Short ends of short keys: the same few in every block.
@lru_cache(maxsize=4096)
def _path(nibbles: str, kind: int) -> bytes:
    """Encode a path: `kind` is 0x20 for one that ends in a leaf, else 0 (hex-prefix, C)."""
    if len(nibbles) % 2:
        return encoded_bytes(bytes.fromhex(f"{(kind >> 4) + 1:x}{nibbles}"))
    return encoded_bytes(bytes.fromhex(f"{kind:02x}{nibbles}"))


@lru_cache(8192)
def _key(place: int) -> str:
    return encoded_int(place).hex()
