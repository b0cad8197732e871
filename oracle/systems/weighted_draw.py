"""The weighted draw that anyone can repeat: which nodes a seed picks.

Whole numbers and SHA-256 alone, so that every machine and every language picks the same.
See docs/reference/scoring-rules.md#the-draw.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

from oracle.domain.ids import Address, GroupKey, Hash, TaskKey
from oracle.domain.native import native

_SEED_BYTES = 32
_COUNTER_BYTES = 32
# Weights are added up by so many, and only where the draw falls one by one.
_STRIDE = 512


class Drawn(NamedTuple):
    """One draw, with what explains it.

    `digest` is sha256(seed32 || i), `0x` hex; `x` is it modulo `total`, the sum of the weights of
    those that were still there (their number, where all weights were 0).
    """

    node: Address
    digest: str
    x: int
    total: int


class Pick(NamedTuple):
    """A `Drawn` by its place among the candidates instead of its address."""

    place: int
    digest: str
    x: int
    total: int

    def of(self, addresses: Sequence[Address]) -> Drawn:
        """Return the draw by address."""
        return Drawn(addresses[self.place], self.digest, self.x, self.total)


def seed_for(block_hash: Hash, name: TaskKey | GroupKey) -> bytes:
    """Return the seed of a task, or of a group drawn as one: sha256(block hash || its name)."""
    return sha256(bytes.fromhex(block_hash[2:]) + bytes.fromhex(name[2:])).digest()


def draw(candidates: Sequence[tuple[Address, int]], seed: bytes, draws: int) -> list[Drawn]:
    """Draw nodes one after the other, each at most once; all of them if they are too few.

    Args:
        candidates: addresses with their weights, in any order: they count ascending by address.
        seed: 32 bytes.
        draws: how many nodes are wanted; the first draw has the number 0.

    Raises:
        ValueError: a negative weight, an address that stands twice, a seed of another length.
    """
    ordered = sorted(candidates)
    addresses = [address for address, _ in ordered]
    if len(set(addresses)) < len(addresses):
        raise ValueError("a candidate stands twice")
    weights = [weight for _, weight in ordered]
    if min(weights, default=0) < 0:
        raise ValueError("a weight is 0 or more")
    found = draw_places(weights, bytearray(b"\1" * len(weights)), seed, draws)
    return [pick.of(addresses) for pick in found]


def draw_places(
    weights: "list[int] | array[int]", offered: bytearray, seed: bytes, draws: int
) -> Iterator[Pick]:
    """Draw places of a list of weights; for callers that keep it sorted by address themselves.

    Args:
        weights: changed: the weight of a place that was drawn becomes 0.
        offered: for every place 1, or 0 where it is no candidate and its weight 0; changed
            likewise.
        seed: 32 bytes.
        draws: how many places are wanted.

    Raises:
        ValueError: a seed of another length.
    """
    if len(seed) != _SEED_BYTES:
        raise ValueError(f"a seed has {_SEED_BYTES} bytes, this one {len(seed)}")
    for i in range(draws):
        if 1 not in offered:
            return
        digest = sha256(seed + i.to_bytes(_COUNTER_BYTES, "big")).digest()
        # All weights zero: all that are left count 1.
        counted = weights if any(weights) else [*offered]
        place, x, total = _locate(counted, int.from_bytes(digest, "big"))
        weights[place] = offered[place] = 0
        yield Pick(place, f"0x{digest.hex()}", x, total)


def _locate(weights: "list[int] | array[int]", number: int) -> tuple[int, int, int]:
    """Return the first place with which the sum of the weights exceeds x, x, and the total.

    It is never a place of weight 0; one weight at least is more.
    """
    if native is not None and isinstance(weights, array):
        total = native.total(weights)
        return native.place(weights, number % total), number % total, total
    blocks = [sum(weights[at : at + _STRIDE]) for at in range(0, len(weights), _STRIDE)]
    ends = list(accumulate(blocks, initial=0))
    x = number % ends[-1]
    block = bisect_right(ends, x) - 1
    first = block * _STRIDE
    within = list(accumulate(weights[first : first + _STRIDE], initial=ends[block]))
    return first + bisect_right(within, x) - 1, x, ends[-1]
