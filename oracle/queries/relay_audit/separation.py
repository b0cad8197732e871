"""Separates a relay's single figure into its factors: two polls of (Q_long / 10) * H give both.

See docs/reference/crynux-relay.md#two-polls.
"""

import math
from dataclasses import dataclass

from oracle.chain.feed.feed_client import RelayFigures
from oracle.systems.crynux.crynux_rule_sets import RELAY

# The tolerated rounding difference of two machines over the complete computation.
_ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class QualityFactors:
    """A relay's Q_long / 10 and its H at `at`; each has a maximum error of `slack`."""

    long_term: float
    health: float
    at: float
    slack: float

    def compute_health(self, moment: float) -> float:
        """Return H at another moment of the same clock, if nothing happens until then."""
        return 1 - (1 - self.health) * math.exp(-(moment - self.at) / RELAY.tau_seconds)


def separate_factors(
    first_figure: RelayFigures, second_figure: RelayFigures
) -> QualityFactors | None:
    """Return the factors of a node's figure, from two figures without an event between them.

    The gap of H to 1 shrinks by exp(-t/tau) and Q_long is constant, so all growth comes from H.
    The result is None if the figure fell, which means that there was an event, or if too little
    time passed.
    """
    elapsed_seconds = second_figure.measured_at - first_figure.measured_at
    quality_gain = second_figure.quality - first_figure.quality
    timing_slack = first_figure.max_error_seconds + second_figure.max_error_seconds
    if elapsed_seconds <= timing_slack or quality_gain < -_ROUNDING_TOLERANCE:
        return None
    closed_fraction = -math.expm1(-elapsed_seconds / RELAY.tau_seconds)
    initial_gap = max(0.0, quality_gain) / closed_fraction
    long_term = first_figure.quality + initial_gap
    slack = (
        initial_gap * timing_slack / (elapsed_seconds - timing_slack)
        + _ROUNDING_TOLERANCE / closed_fraction
    )
    if not 0 < long_term <= 1 + slack:
        return None
    return QualityFactors(
        long_term, first_figure.quality / long_term, first_figure.measured_at, slack
    )
