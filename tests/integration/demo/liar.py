"""Run the daemon with one function replaced: it reports every node a little too good."""

from oracle.cli.main import main
from oracle.domain.reports import lanes, target_words
from oracle.reporting import report_cutter


def flattering(node, time, rules, peers=None):
    lane = lanes.compute_node_lane(node, time, rules, peers)
    return lane if lane == lanes.DO_NOT_SELECT else min(lane + 7, lanes.HIGHEST_SCORE)


if __name__ == "__main__":
    report_cutter.compute_node_lane = target_words.compute_node_lane = flattering  # type: ignore[attr-defined]
    main()
