"""`qos-oracle` with a fault in it: every score that it reports is two hundredths too high."""

import sys

from oracle.cli.main import run
from oracle.domain.reports import target_words
from oracle.domain.reports.lanes import HIGHEST_SCORE, LOWEST_SCORE, compute_node_lane
from oracle.domain.scoring.legacy_factors import PopulationMaxima
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node
from oracle.reporting import report_cutter

_TOO_HIGH = 200


def raised(
    node: Node | None, time: int, rules: Rules, peers: PopulationMaxima | None = None
) -> int:
    """What `lane_of` says, and more where that is a score."""
    lane = compute_node_lane(node, time, rules, peers)
    return min(lane + _TOO_HIGH, HIGHEST_SCORE) if lane >= LOWEST_SCORE else lane


if __name__ == "__main__":
    for module in (report_cutter, target_words):
        module.lane_of = raised  # type: ignore[attr-defined]  # imported there, for this
    sys.exit(run(sys.argv[1:]))
