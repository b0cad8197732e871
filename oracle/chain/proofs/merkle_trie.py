"""The root of a Merkle-Patricia trie over a list: receipts root and transactions root.

A leaf's key is the RLP of its place (Yellow Paper, 4.3 and D); no key begins another one, so
that a branch never has a value of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from oracle.chain.proofs.keccak import keccak
from oracle.chain.proofs.rlp import EMPTY, encoded_bytes, encoded_int, encoded_list

EMPTY_ROOT = keccak(EMPTY)
# A node of fewer bytes stands in its parent; all others are named there by their hash.
_NAMED = 32
_NIBBLES = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class _End:
    """Where a leaf hangs: the rest of its key, encoded, and its place in the list."""

    path: bytes
    place: int


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all keys below share, encoded."""

    path: bytes
    below: "_Branch"


@dataclass(frozen=True, slots=True)
class _Branch:
    """What hangs under each nibble; None: nothing."""

    children: tuple["_Shape | None", ...]


_Shape = _End | _Shared | _Branch


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root of the trie of these leaves, by their place in the list."""
    if not leaves:
        return EMPTY_ROOT
    return keccak(_node(_shape(len(leaves)), leaves))


def _node(shape: _Shape, leaves: Sequence[bytes]) -> bytes:
    """Encode the node of this shape."""
    if isinstance(shape, _End):
        return encoded_list((shape.path, encoded_bytes(leaves[shape.place])))
    if isinstance(shape, _Shared):
        return encoded_list((shape.path, _named(_node(shape.below, leaves))))
    nodes = [EMPTY if below is None else _named(_node(below, leaves)) for below in shape.children]
    nodes.append(EMPTY)
    return encoded_list(nodes)


# Keys are places: how many leaves there are says how they hang.
@lru_cache(maxsize=128)
def _shape(count: int) -> _Shape:
    return _shaped(sorted((encoded_int(place).hex(), place) for place in range(count)), 0)


def _shaped(keyed: Sequence[tuple[str, int]], depth: int) -> _Shape:
    """Return how these hang, of whose keys `depth` nibbles are walked."""
    (first, place), (last, _) = keyed[0], keyed[-1]
    if len(keyed) == 1:
        return _End(_path(first[depth:], 0x20), place)
    # They are sorted: what the outermost share, all share.
    shared = _shared(first, last, depth)
    under = {
        nibble: _shaped(list(keys), shared + 1)
        for nibble, keys in groupby(keyed, lambda key: key[0][shared])
    }
    branch = _Branch(tuple(under.get(nibble) for nibble in _NIBBLES))
    return _Shared(_path(first[depth:shared], 0x00), branch) if shared > depth else branch


def _shared(one: str, other: str, least: int) -> int:
    """Return how far two paths are the same; up to `least` they are."""
    for place in range(least, min(len(one), len(other))):
        if one[place] != other[place]:
            return place
    return min(len(one), len(other))


def _named(node: bytes) -> bytes:
    return node if len(node) < _NAMED else encoded_bytes(keccak(node))


def _path(nibbles: str, kind: int) -> bytes:
    """Encode a path: `kind` is 0x20 for one that ends in a leaf, else 0 (hex-prefix, C)."""
    if len(nibbles) % 2:
        return encoded_bytes(bytes.fromhex(f"{(kind >> 4) + 1:x}{nibbles}"))
    return encoded_bytes(bytes.fromhex(f"{kind:02x}{nibbles}"))
