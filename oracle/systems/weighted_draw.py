"""The weighted draw, which picks nodes by a seed so that anyone can repeat it.

The draw uses only whole numbers and SHA-256, so that every machine and every language picks the
same nodes. See docs/reference/scoring-rules.md#the-draw.
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
# Weights are summed in blocks of this size. Only the block that contains the result is searched
# weight by weight.
_STRIDE = 512


class NodeDraw(NamedTuple):
    """A draw of a node, with the numbers by which it can be explained.

    `digest` is sha256(seed32 || i), `0x` hex. `total` is the sum of the weights of the remaining
    candidates, or their number if all weights are 0. `x` is the digest modulo `total`.
    `candidate_count` is the number of the remaining candidates.
    """

    node: Address
    digest: str
    x: int
    total: int
    candidate_count: int


class IndexDraw(NamedTuple):
    """A draw of an index in a list of candidates."""

    candidate_index: int
    digest: str
    x: int
    total: int
    candidate_count: int

    def to_node_draw(self, addresses: Sequence[Address]) -> NodeDraw:
        """Convert this draw to the draw of a node, given the candidates' addresses.

        The node is the one at the drawn index.
        """
        node = addresses[self.candidate_index]
        return NodeDraw(node, self.digest, self.x, self.total, self.candidate_count)


def compute_draw_seed(block_hash: Hash, key: TaskKey | GroupKey) -> bytes:
    """Compute the seed of a draw as sha256(block hash || key).

    The key belongs to a task, or to a group that is drawn as a unit.
    """
    return sha256(bytes.fromhex(block_hash[2:]) + bytes.fromhex(key[2:])).digest()


def draw_nodes(
    candidates: Sequence[tuple[Address, int]], seed: bytes, count: int
) -> list[NodeDraw]:
    """Draw nodes one after the other, each at most once.

    If there are too few candidates, all of them are drawn.

    Args:
        candidates: addresses with their weights, in any order; the draw sorts them by address.
        seed: 32 bytes.
        count: the number of nodes to draw; draws are numbered from 0.

    Raises:
        ValueError: a weight is negative, an address occurs twice, or the seed is not 32 bytes
            long.
    """
    sorted_candidates = sorted(candidates)
    addresses = [address for address, _ in sorted_candidates]
    if len(set(addresses)) < len(addresses):
        raise ValueError("a candidate's address occurs twice")
    weights = [weight for _, weight in sorted_candidates]
    if min(weights, default=0) < 0:
        raise ValueError("weights must be 0 or more")
    index_draws = draw_indexes(weights, bytearray(b"\1" * len(weights)), seed, count)
    return [index_draw.to_node_draw(addresses) for index_draw in index_draws]


def draw_indexes(
    weights: "list[int] | array[int]", offered: bytearray, seed: bytes, count: int
) -> Iterator[IndexDraw]:
    """Draw indexes from a list of weights.

    It is for callers that keep the list sorted by address.

    Args:
        weights: the weights. The draw sets the weight of each drawn index to 0.
        offered: 1 for each candidate and 0 for all others, whose weight must be 0. The draw sets
            the flag of each drawn index to 0.
        seed: 32 bytes.
        count: the number of indexes to draw.

    Raises:
        ValueError: the seed is not 32 bytes long.
    """
    if len(seed) != _SEED_BYTES:
        raise ValueError(f"the seed must have {_SEED_BYTES} bytes, not {len(seed)}")
    for i in range(count):
        candidate_count = offered.count(1)
        if not candidate_count:
            return
        digest = sha256(seed + i.to_bytes(_COUNTER_BYTES, "big")).digest()
        # If all weights are zero, every remaining candidate has the weight 1.
        effective_weights = weights if any(weights) else [*offered]
        index, x, total = _find_weighted_index(effective_weights, int.from_bytes(digest, "big"))
        weights[index] = offered[index] = 0
        yield IndexDraw(index, f"0x{digest.hex()}", x, total, candidate_count)


def _find_weighted_index(weights: "list[int] | array[int]", number: int) -> tuple[int, int, int]:
    """Return the drawn index, the drawn number and the total weight.

    The drawn number is x = `number` modulo the total weight. The index is the first whose
    cumulative weight exceeds x, so its weight is never 0. At least one weight must be above 0.
    """
    if native is not None and isinstance(weights, array):
        total = native.sum_weights(weights)
        return native.find_weighted_index(weights, number % total), number % total, total
    stride_sums = [
        sum(weights[offset : offset + _STRIDE]) for offset in range(0, len(weights), _STRIDE)
    ]
    cumulative_sums = list(accumulate(stride_sums, initial=0))
    drawn_weight = number % cumulative_sums[-1]
    stride_index = bisect_right(cumulative_sums, drawn_weight) - 1
    stride_start = stride_index * _STRIDE
    stride_sums_within = list(
        accumulate(
            weights[stride_start : stride_start + _STRIDE], initial=cumulative_sums[stride_index]
        )
    )
    return (
        stride_start + bisect_right(stride_sums_within, drawn_weight) - 1,
        drawn_weight,
        cumulative_sums[-1],
    )
