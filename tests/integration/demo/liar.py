"""Runs the daemon with one function replaced,
so that the leaf of every node has a raised score.
"""

from typing import Any

from oracle.cli.main import main
from oracle.domain.reports import lanes
from oracle.domain.roots import node_leaves


def raise_lane(*arguments: Any) -> int:
    lane = lanes.compute_lane_with_reliability(*arguments)
    return lane if lane == lanes.DO_NOT_SELECT else min(lane + 7, lanes.HIGHEST_SCORE)


if __name__ == "__main__":
    vars(node_leaves).update(compute_lane_with_reliability=raise_lane, native=None)
    main()
