"""The chance of a node within its group, by its submission speed B.

See docs/reference/sources.md#crynux-qos-of-2024 and
docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import PopulationMaxima, speed_of
from oracle.domain.scoring.legacy_tally import tally_at
from oracle.domain.scoring.node_scores import count_scores, long_term
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node


@dataclass(frozen=True, slots=True)
class SubmissionSpeed:
    """B and the resulting weight, in units of 10^-18; B None: no task in the window."""

    share: int | None
    weight: int


def speeds(
    members: Iterable[Node], time: int, rules: Rules, *, equal: bool
) -> Mapping[Address, SubmissionSpeed]:
    """Return B and weight of each member as of a block time; `members` must be complete.

    A node without B has the weight 1, so that new nodes get tasks. With `equal` every node has
    weight 1.
    """
    scores = {node.address: _node_score(node, time, rules) for node in members}
    best = max((score for score in scores.values() if score is not None), default=0)
    peers = PopulationMaxima(max_vram=0, max_timeout=0, max_node_score=best)
    found = {}
    for address, score in scores.items():
        share = speed_of(score, peers)
        found[address] = SubmissionSpeed(share, UNIT if share is None or equal else share)
    return found


def _node_score(node: Node, time: int, rules: Rules) -> int | None:
    """Return the mean of the node's task scores, or of its pool under rules that are not legacy."""
    if rules.legacy is not None:
        return tally_at(node, time, rules.legacy).node_score
    return long_term(node, rules, time) if count_scores(node, time, rules) else None
