"""Which nodes are in sync: the height that is believed, and who is behind it or beyond it.

See docs/explanation/pocket.md#stake-and-height.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import median_high

from oracle.domain.ids import Address

# Of fewer answers no median can show which one is wrong.
_LEAST_FOR_A_MEDIAN = 3


class HeightOut(StrEnum):
    """Why a node's height keeps it out."""

    UNKNOWN = "height_unknown"
    BEHIND = "behind"
    BEYOND = "beyond"


def best_height(heights: Iterable[int], allowance: int) -> int | None:
    """Return the height that is believed; None: nobody has told one.

    Never one node's word: of three and more, what lies more than three allowances above the
    median is not believed. The median is the higher one of two in the middle.
    """
    told = list(heights)
    if len(told) < _LEAST_FOR_A_MEDIAN:
        return max(told, default=None)
    middle = median_high(told)
    return max(height for height in told if height <= middle + 3 * allowance)


def out_of_sync(heights: Mapping[Address, int | None], allowance: int) -> dict[Address, HeightOut]:
    """Return who is not in sync, and why; `heights` None: the node did not answer.

    In sync is who is at most `allowance` blocks below the best height or above it.
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
