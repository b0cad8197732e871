"""Separates a relay's single figure into its factors: two polls of (Q_long / 10) * H give both.

See docs/reference/crynux-relay.md#two-polls.
"""

import math
from dataclasses import dataclass

from oracle.chain.feed.figures_client import NodeFigure
from oracle.systems.crynux.crynux_rule_sets import RELAY

# The tolerated rounding difference of two machines over the complete computation.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Separated:
    """A relay's Q_long / 10 and its H at `at`; each has a maximum error of `slack`."""

    long_term: float
    health: float
    at: float
    slack: float

    def health_at(self, moment: float) -> float:
        """Return H at another moment of the same clock, if nothing happens until then."""
        return 1 - (1 - self.health) * math.exp(-(moment - self.at) / RELAY.tau_seconds)


def separated(first: NodeFigure, second: NodeFigure) -> Separated | None:
    """Return the factors of two figures of a node between which nothing happened to it.

    The gap of H to 1 shrinks by exp(-t/tau) and Q_long is constant, so the growth is all H's. The
    result is None if the figure fell, which means that something did happen, or if no time passed.
    """
    seconds = second.at - first.at
    gained = second.quality - first.quality
    timing = first.slack + second.slack
    if seconds <= timing or gained < -_ROUNDING:
        return None
    closed = -math.expm1(-seconds / RELAY.tau_seconds)
    missing = max(0.0, gained) / closed
    long_term = first.quality + missing
    slack = missing * timing / (seconds - timing) + _ROUNDING / closed
    if not 0 < long_term <= 1 + slack:
        return None
    return Separated(long_term, first.quality / long_term, first.at, slack)
