"""Computes the weight of a node within its group from its submission speed B.

See docs/reference/sources.md#crynux-qos-of-2024 and
docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_speed
from oracle.domain.scoring.legacy_tally import compute_tally
from oracle.domain.scoring.node_scores import compute_long_term, count_scores
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node


@dataclass(frozen=True, slots=True)
class SubmissionSpeed:
    """B (`share`) and the resulting weight, in units of 10^-18.

    `share` is None if the node has no task in the window.
    """

    share: int | None
    weight: int


def compute_submission_speeds(
    members: Iterable[Node], time: int, rules: Rules, *, equal: bool
) -> Mapping[Address, SubmissionSpeed]:
    """Return B and weight of each member at a block time; `members` must be complete.

    A node without B has weight 1, so that new nodes get tasks. With `equal`, every node has weight
    1.
    """
    score_by_node = {node.address: _get_node_score(node, time, rules) for node in members}
    best_score = max((score for score in score_by_node.values() if score is not None), default=0)
    peers = PopulationMaxima(max_vram=0, max_timeout=0, max_node_score=best_score)
    speed_by_node = {}
    for address, score in score_by_node.items():
        share = compute_speed(score, peers)
        speed_by_node[address] = SubmissionSpeed(share, UNIT if share is None or equal else share)
    return speed_by_node


def _get_node_score(node: Node, time: int, rules: Rules) -> int | None:
    """Return the mean of the node's task scores: in the window or, without one, in the pool."""
    if rules.legacy is not None:
        return compute_tally(node, time, rules.legacy).node_score
    return compute_long_term(node, rules, time) if count_scores(node, time, rules) else None
