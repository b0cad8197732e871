"""`qos-oracle` with a fault: every reported score is two hundredths too high."""

import sys

from oracle.cli.main import run
from oracle.domain.reports.lanes import (
    HIGHEST_SCORE,
    LOWEST_SCORE,
    compute_lane_with_reliability,
)
from oracle.domain.roots import node_leaves
from oracle.domain.scoring.legacy_factors import PopulationMaxima
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node

_TOO_HIGH = 200


def compute_raised_lane(
    node: Node,
    reliability: int,
    time: int,
    rules: Rules,
    population_maxima: PopulationMaxima | None,
) -> int:
    """Return the lane of `compute_lane_with_reliability`, raised if it is a score."""
    lane = compute_lane_with_reliability(node, reliability, time, rules, population_maxima)
    return min(lane + _TOO_HIGH, HIGHEST_SCORE) if lane >= LOWEST_SCORE else lane


if __name__ == "__main__":
    # The name under which the leaves are computed with the function, without the native code.
    vars(node_leaves).update(compute_lane_with_reliability=compute_raised_lane, native=None)
    sys.exit(run(sys.argv[1:]))
