"""Computes the legacy factors R, P and B, which compare nodes, and their sum Q.

Fractions are in units of 10^-18, rounded down at every step; times are block times in seconds. See
docs/explanation/legacy.md#scores.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from oracle.domain.fixed_point import UNIT, multiply_fixed_point
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_rules import LegacyRules
from oracle.domain.scoring.legacy_tally import WindowTally, compute_window_tally
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node


@dataclass(frozen=True, slots=True)
class PopulationMaxima:
    """The maximum values of all members at one time.

    A maximum is 0 if no member has a value. `max_vram` is in GB, `max_timeout` in seconds, and
    `max_node_score` (0 to 20) in units of 10^-18.
    """

    max_vram: int
    max_timeout: int
    max_node_score: int


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors that compare a node with the other nodes.

    `size` is R, `promptness` is P, `speed` is B and `combined` is Q. `speed` is None if the node
    has no task in the window, which counts as 0 in Q.
    """

    tally: WindowTally
    size: int
    promptness: int
    speed: int | None
    combined: int


def compute_population_maxima(
    nodes: Iterable[Node], time: int, rules: Rules
) -> PopulationMaxima | None:
    """Return the maximum values of all members at `time`, or None without legacy rules.

    Nodes that are not members do not count.
    """
    legacy = rules.legacy
    if legacy is None:
        return None
    max_vram = max_timeout = max_node_score = 0
    for node in nodes:
        if node.membership is Membership.MEMBER:
            max_vram = max(max_vram, node.gpu_vram or 0)
            max_timeout = max(max_timeout, node.timeout or 0)
            score = compute_window_tally(node, time, legacy).node_score
            max_node_score = max(max_node_score, score or 0)
    return PopulationMaxima(max_vram, max_timeout, max_node_score)


def compute_vram_share(vram: int | None, population_maxima: PopulationMaxima) -> int:
    """Return R, a node's share of the largest video memory.

    R is 0 if the video memory is not known.
    """
    if population_maxima.max_vram:
        return min(vram or 0, population_maxima.max_vram) * UNIT // population_maxima.max_vram
    return 0


def compute_promptness(
    timeout: int | None, population_maxima: PopulationMaxima, legacy_rules: LegacyRules
) -> int:
    """Return the promptness P, which rises as the timeout falls.

    P is 1 for the shortest allowed timeout, and 0 for the longest timeout of all members. P is
    also 1 for a timeout below the allowed minimum, and 0 for an unknown timeout.
    """
    if timeout is None:
        return 0
    min_timeout, max_timeout = legacy_rules.least_timeout_seconds, population_maxima.max_timeout
    if timeout <= min_timeout:
        return UNIT
    if max_timeout > min_timeout:
        return max(0, max_timeout - timeout) * UNIT // (max_timeout - min_timeout)
    return 0


def compute_speed_factor(
    node_score: int | None, population_maxima: PopulationMaxima
) -> int | None:
    """Return B, the ratio of a node's score to the best node score.

    The result is None if the node has no score. B is 0 if the best node score is 0.
    """
    if node_score is None:
        return None
    max_score = population_maxima.max_node_score
    return min(node_score, max_score) * UNIT // max_score if max_score else 0


def compute_node_factors(
    node: Node, time: int, legacy_rules: LegacyRules, population_maxima: PopulationMaxima
) -> Factors:
    """Return a node's factors at `time`, relative to the maxima at that time."""
    tally = compute_window_tally(node, time, legacy_rules)
    vram_share = compute_vram_share(node.gpu_vram, population_maxima)
    promptness = compute_promptness(node.timeout, population_maxima, legacy_rules)
    speed = compute_speed_factor(tally.node_score, population_maxima)
    combined_factor = (
        multiply_fixed_point(legacy_rules.vram_weight, vram_share)
        + multiply_fixed_point(legacy_rules.timeout_weight, promptness)
        + multiply_fixed_point(legacy_rules.speed_weight, speed or 0)
    )
    return Factors(tally, vram_share, promptness, speed, combined_factor)


def compute_incentive_shares(
    nodes: Iterable[Node],
    time: int,
    rules: Rules,
    population_maxima: PopulationMaxima | None = None,
) -> dict[Address, int]:
    """Return each member's share of the window's incentive, as of `time`.

    A share is the product of Q and online seconds, divided by the sum of all members' products
    (docs/explanation/crynux.md#weighted-sum-of-scores); all shares are 0 if that sum is 0. The
    result is empty unless the rules are legacy rules. Shares are never part of a report.
    `population_maxima` are the maxima of these nodes at the same time, or None if they have to be
    computed.
    """
    legacy = rules.legacy
    if legacy is None:
        return {}
    members = [node for node in nodes if node.membership is Membership.MEMBER]
    maxima = population_maxima or compute_population_maxima(members, time, rules)
    if maxima is None:
        return {}
    merit_by_node = {}
    for node in members:
        factors = compute_node_factors(node, time, legacy, maxima)
        merit_by_node[node.address] = factors.combined * factors.tally.online_seconds
    total_merit = sum(merit_by_node.values())
    return {
        address: merit * UNIT // (total_merit or 1) for address, merit in merit_by_node.items()
    }
