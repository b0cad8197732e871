"""Takes a relay's one figure apart: two polls of (Q_long / 10) * H give Q_long and H.

See docs/reference/crynux-relay.md#two-polls.
"""

import math
from dataclasses import dataclass

from oracle.chain.feed.figures_client import NodeFigure
from oracle.systems.crynux.crynux_rule_sets import RELAY

# What floats of two machines may differ by, over the whole reckoning.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Separated:
    """A relay's Q_long / 10 and its H at `at`; each may be off by `slack`."""

    long_term: float
    health: float
    at: float
    slack: float

    def health_at(self, moment: float) -> float:
        """Return H at another moment of the same clock, nothing having happened until then."""
        return 1 - (1 - self.health) * math.exp(-(moment - self.at) / RELAY.tau_seconds)


def separated(first: NodeFigure, second: NodeFigure) -> Separated | None:
    """Return what two figures of a node say, between which nothing happened to it.

    H heals by exp(-t/tau) of its gap to 1, Q_long stands still: the growth is all H's. None: the
    figure fell, so something did happen, or no time went by.
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
