"""Checks which nodes are in sync: the best credible height, and the nodes below or above it.

See docs/explanation/pocket.md#stake-and-height.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import median_high

from oracle.domain.ids import Address

# A median of fewer heights cannot show which one is wrong.
_LEAST_FOR_A_MEDIAN = 3


class HeightOut(StrEnum):
    """The reason why a node's height excludes it."""

    UNKNOWN = "height_unknown"
    BEHIND = "behind"
    BEYOND = "beyond"


def best_height(heights: Iterable[int], allowance: int) -> int | None:
    """Return the best credible height, or None if no node reported one.

    Of three heights or more, any that lies more than three allowances above the median is ignored,
    so that one node alone cannot raise the result. The median is the higher one of two in the
    middle.
    """
    told = list(heights)
    if len(told) < _LEAST_FOR_A_MEDIAN:
        return max(told, default=None)
    middle = median_high(told)
    return max(height for height in told if height <= middle + 3 * allowance)


def out_of_sync(heights: Mapping[Address, int | None], allowance: int) -> dict[Address, HeightOut]:
    """Return the nodes that are not in sync, with the reason; height None: the node did not answer.

    A node is in sync if it is at most `allowance` blocks below or above the best height.
    """
    best = best_height((one for one in heights.values() if one is not None), allowance)
    found = {}
    for node, height in heights.items():
        if height is None or best is None:
            found[node] = HeightOut.UNKNOWN
        elif height + allowance < best:
            found[node] = HeightOut.BEHIND
        elif height > best + allowance:
            found[node] = HeightOut.BEYOND
    return found
