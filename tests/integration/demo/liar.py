"""Run the daemon with one function replaced: it reports every node a little too good."""

from oracle.cli.main import main
from oracle.domain.reports import lanes, target_words
from oracle.reporting import report_cutter


def flattering(node, time, rules, peers=None):
    lane = lanes.lane_of(node, time, rules, peers)
    return lane if lane == lanes.DO_NOT_SELECT else min(lane + 7, lanes.HIGHEST_SCORE)


if __name__ == "__main__":
    report_cutter.lane_of = target_words.lane_of = flattering  # type: ignore[attr-defined]
    main()
