"""`qos-oracle` with a fault in it: every score that it reports is two hundredths too high."""

import sys

from oracle.domain.lanes import HIGHEST_SCORE, LOWEST_SCORE, lane_of
from oracle.domain.nodes import Node
from oracle.domain.peers import Peers
from oracle.domain.rules import Rules
from oracle.entrypoints.cli import run
from oracle.services import reporting

_TOO_HIGH = 200


def raised(node: Node | None, time: int, rules: Rules, peers: Peers | None = None) -> int:
    """What `lane_of` says, and more where that is a score."""
    lane = lane_of(node, time, rules, peers)
    return min(lane + _TOO_HIGH, HIGHEST_SCORE) if lane >= LOWEST_SCORE else lane


if __name__ == "__main__":
    reporting.lane_of = raised  # type: ignore[attr-defined]  # imported there, for this
    sys.exit(run(sys.argv[1:]))
