"""Checks which nodes are in sync with the best credible height.

See docs/explanation/pocket.md#stake-and-height.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import median_high

from oracle.domain.ids import Address

# With fewer heights, the median cannot show which of them is wrong.
_MIN_HEIGHTS_FOR_MEDIAN = 3


class HeightIneligibility(StrEnum):
    """The reasons why a node's height prevents it from being a candidate."""

    UNKNOWN = "height_unknown"
    BEHIND = "behind"
    BEYOND = "beyond"


def find_best_height(heights: Iterable[int], allowance: int) -> int | None:
    """Return the best credible height, or None if no node reported one.

    If there are three heights or more, a height more than three allowances above the median is
    ignored, so that one node alone cannot raise the result. Of two middle heights, the higher one
    is the median.
    """
    reported_heights = list(heights)
    if len(reported_heights) < _MIN_HEIGHTS_FOR_MEDIAN:
        return max(reported_heights, default=None)
    median_height = median_high(reported_heights)
    return max(height for height in reported_heights if height <= median_height + 3 * allowance)


def find_out_of_sync_nodes(
    heights: Mapping[Address, int | None], allowance: int
) -> dict[Address, HeightIneligibility]:
    """Return the nodes that are out of sync, with the reason.

    An unknown height is None. A node is in sync if it is at most `allowance` blocks below or above
    the best height.
    """
    reference_height = find_best_height(
        (reported_height for reported_height in heights.values() if reported_height is not None),
        allowance,
    )
    reason_by_node = {}
    for node, height in heights.items():
        if height is None or reference_height is None:
            reason_by_node[node] = HeightIneligibility.UNKNOWN
        elif height + allowance < reference_height:
            reason_by_node[node] = HeightIneligibility.BEHIND
        elif height > reference_height + allowance:
            reason_by_node[node] = HeightIneligibility.BEYOND
    return reason_by_node
