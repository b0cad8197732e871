"""The inputs from which the leaves of a round are computed, besides the nodes themselves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from oracle.domain.ids import Address
from oracle.domain.reports.kickout_review import KickoutReviewer
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_population_maxima
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node

# Returns the nodes that exist at these addresses.
NodeLoader = Callable[[Sequence[Address]], Mapping[Address, Node]]


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """The inputs of scoring at the as-of block, whose time is `time`.

    `review_kickout` reviews the kickout of a node whose kickout is due at that block. Legacy rules
    also need the population maxima at that time.
    """

    rules: Rules
    time: int
    load_nodes: NodeLoader
    review_kickout: KickoutReviewer
    population_maxima: PopulationMaxima | None = None


def build_scoring_context(
    nodes: Mapping[Address, Node], time: int, rules: Rules, review_kickout: KickoutReviewer
) -> ScoringContext:
    """Return the scoring context for a complete set of nodes in memory."""

    def load_nodes(addresses: Sequence[Address]) -> Mapping[Address, Node]:
        return {node: nodes[node] for node in addresses if node in nodes}

    population_maxima = compute_population_maxima(nodes.values(), time, rules)
    return ScoringContext(rules, time, load_nodes, review_kickout, population_maxima)
