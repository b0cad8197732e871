"""The root of a Merkle-Patricia trie over a list, for receipts roots and transactions roots.

A leaf's key is the RLP of its index (Yellow Paper, 4.3 and D). No key is a prefix of another one,
so that a branch never has a value of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY, encoded_bytes, encoded_int, encoded_list

EMPTY_ROOT = keccak(EMPTY)
# A shorter node is embedded in its parent; all others are referenced by their hash.
_NAMED = 32
_NIBBLES = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class _End:
    """A leaf: the encoded rest of its key, and its index in the list."""

    path: bytes
    place: int


@dataclass(frozen=True, slots=True)
class _Shared:
    """An extension: the encoded nibbles that all keys below share."""

    path: bytes
    below: "_Branch"


@dataclass(frozen=True, slots=True)
class _Branch:
    """A branch: the child under each nibble, or None."""

    children: tuple["_Shape | None", ...]


_Shape = _End | _Shared | _Branch


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the trie of these leaves, keyed by their index in the list."""
    if not leaves:
        return EMPTY_ROOT
    return keccak(_node(_shape(len(leaves)), leaves))


def _node(shape: _Shape, leaves: Sequence[bytes]) -> bytes:
    """Encode the node of this shape with its children."""
    if isinstance(shape, _End):
        return encoded_list((shape.path, encoded_bytes(leaves[shape.place])))
    if isinstance(shape, _Shared):
        return encoded_list((shape.path, _named(_node(shape.below, leaves))))
    nodes = [EMPTY if below is None else _named(_node(below, leaves)) for below in shape.children]
    nodes.append(EMPTY)
    return encoded_list(nodes)


# Keys are indexes, so the number of leaves determines the shape of the trie.
@lru_cache(maxsize=128)
def _shape(count: int) -> _Shape:
    return _shaped(sorted((encoded_int(place).hex(), place) for place in range(count)), 0)


def _shaped(keyed: Sequence[tuple[str, int]], depth: int) -> _Shape:
    """Return the shape of the subtrie of these keys below their first `depth` nibbles."""
    (first, place), (last, _) = keyed[0], keyed[-1]
    if len(keyed) == 1:
        return _End(_path(first[depth:], 0x20), place)
    # The keys are sorted: the common prefix of the first and last is that of all.
    shared = _shared(first, last, depth)
    under = {
        nibble: _shaped(list(keys), shared + 1)
        for nibble, keys in groupby(keyed, lambda key: key[0][shared])
    }
    branch = _Branch(tuple(under.get(nibble) for nibble in _NIBBLES))
    return _Shared(_path(first[depth:shared], 0x00), branch) if shared > depth else branch


def _shared(one: str, other: str, least: int) -> int:
    """Return the length of the common prefix, which is at least `min_length`."""
    for place in range(least, min(len(one), len(other))):
        if one[place] != other[place]:
            return place
    return min(len(one), len(other))


def _named(node: bytes) -> bytes:
    return node if len(node) < _NAMED else encoded_bytes(keccak(node))


def _path(nibbles: str, kind: int) -> bytes:
    """Encode a hex-prefix path (C): `flag` is 0x20 for a path that ends in a leaf, else 0."""
    if len(nibbles) % 2:
        return encoded_bytes(bytes.fromhex(f"{(kind >> 4) + 1:x}{nibbles}"))
    return encoded_bytes(bytes.fromhex(f"{kind:02x}{nibbles}"))
