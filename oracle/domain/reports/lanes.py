"""Encodes a node's score as a lane (uint16), and packs sixteen lanes into a word.

The lane 0 means not reported yet, 1 means do not select, and 2 to 10002 are the QoS in steps of
0.0001. See docs/reference/report-format.md#lanes.
"""

from collections.abc import Sequence
from struct import Struct

from oracle.domain.fixed_point import UNIT
from oracle.domain.scoring.legacy_factors import PopulationMaxima
from oracle.domain.scoring.node_figures import NodeScores
from oracle.domain.scoring.node_scores import (
    compute_qos_with_reliability,
    is_excluded_with_reliability,
)
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node

NEVER_REPORTED = 0
DO_NOT_SELECT = 1
LOWEST_SCORE = 2
HIGHEST_SCORE = 10_002
# One step of a lane in QoS units (10^-18).
QOS_STEP = 10**14

LANES_PER_WORD = 16
# The lane with the lowest index is in the lowest bits of the word.
_LANES = Struct("<16H")


def get_lane_band(lane: int, kick_line: int) -> int:
    """Return the band to which a node's encoded score (lane) belongs.

    If a node changes its band, a report is sent at once. The bands are 0 for never reported, 1 for
    not selectable, 2 for below the kickout line and 3 for the rest. `kick_line` is the contract's
    kickout line as a lane; for example, a QoS of 2000 steps is the lane 2002.
    """
    if lane < LOWEST_SCORE:
        return lane
    return 2 if lane < kick_line else 3


def compute_lane_with_reliability(
    node: Node,
    reliability: int,
    time: int,
    rules: Rules,
    population_maxima: PopulationMaxima | None,
) -> int:
    """Compute a node's encoded score (lane) from its reliability at `time`.

    Lanes are from 1 to 10002. The lane is "do not select" if the node is not a member, paused or
    excluded. Legacy rules need the node's `population_maxima` as of `time`.
    """
    if node.paused or is_excluded_with_reliability(node, reliability, rules):
        return DO_NOT_SELECT
    qos = compute_qos_with_reliability(node, reliability, time, rules, population_maxima)
    return DO_NOT_SELECT if qos is None else qos // QOS_STEP + LOWEST_SCORE


def compute_node_lane_from_scores(scores: NodeScores) -> int:
    """Compute a node's encoded score (lane) from its scores."""
    if scores.qos is None or scores.state not in {"selectable", "recovering"}:
        return DO_NOT_SELECT
    return scores.qos // QOS_STEP + LOWEST_SCORE


def decode_qos(lane: int) -> int | None:
    """Decode an encoded score (lane) to a QoS in units of 10^-18, or None if it has none."""
    return (lane - LOWEST_SCORE) * QOS_STEP if lane >= LOWEST_SCORE else None


def compute_kickout_line_steps(rules: Rules) -> int:
    """Return the kickout line of the rules as the contract stores it.

    The unit is QoS steps, 0 to 10000. Legacy rules have a kickout line for the node score, which
    is scaled to Q (decision 0061).
    """
    lane_steps = HIGHEST_SCORE - LOWEST_SCORE
    threshold = (rules if rules.legacy is None else rules.legacy).kickout_below
    return min(lane_steps, threshold * lane_steps // (rules.q_max * UNIT))


def get_word_index(index: int) -> int:
    """Return the index of the word that contains the lane at this index."""
    return index // LANES_PER_WORD


def unpack_lanes(word: int) -> tuple[int, ...]:
    """Unpack a word into its sixteen lanes, lowest index first."""
    return _LANES.unpack(word.to_bytes(_LANES.size, "little"))


def pack_lanes(lanes: Sequence[int]) -> int:
    """Pack up to sixteen lanes into a word, lowest index first.

    Missing lanes are 0.
    """
    padding = (NEVER_REPORTED,) * (LANES_PER_WORD - len(lanes))
    return int.from_bytes(_LANES.pack(*lanes, *padding), "little")


def pack_lane_words(lanes: Sequence[int]) -> list[int]:
    """Pack the encoded scores (lanes) of all nodes into words of sixteen lanes.

    The lanes are in the order of the nodes' seats.
    """
    return [
        pack_lanes(lanes[first : first + LANES_PER_WORD])
        for first in range(0, len(lanes), LANES_PER_WORD)
    ]
