"""Every number of Pocket's selector as one value for each profile, refused if incoherent.

See docs/explanation/pocket.md#constants and docs/explanation/pocket.md#parameters.
"""

import math
from dataclasses import dataclass, fields

from typing_extensions import override

_Demand = tuple[str, bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What both profiles rank by. Latencies are in seconds.

    Raises:
        ValueError: a setting that means nothing, alone or beside the others; the field is named.
    """

    # What a success may take; the benchmark is never below it (35 per second is 5.25 / 0.15).
    # For slow work it is raised: docs/explanation/pocket.md#units.
    expected: float = 0.15
    # Tickets lost by one `expected` of latency more.
    cost_per_expected: float = 5.25
    max_tickets: int = 10
    # Full weight above this success rate, strictly.
    success_rate_full: float = 0.95
    p90_weight: float = 0.3
    # P90 counts above so many results, strictly.
    p90_min_results: int = 20
    # A node of which the chain never said that it has a stake, or that has none, is left out.
    needs_stake: bool = False

    def __post_init__(self) -> None:
        for field, sound, meaning in (*self._common_demands(), *self._own_demands()):
            if not sound:
                raise ValueError(f"{field}: {meaning}")

    def _common_demands(self) -> list[_Demand]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        numbers = [(name, value) for name, value in values if isinstance(value, int | float)]
        positive = ("expected", "cost_per_expected")
        counts = ("max_tickets", "max_samples", "shelve_failures", "zero_weight_attempts")
        low = ("p90_weight", "p90_min_results")
        is_strict = 0 <= self.success_rate_full < 1
        return [
            *((name, math.isfinite(value), "must be a number") for name, value in numbers),
            *((n, v > 0, "must be above 0") for n, v in numbers if n in positive or "_ms" in n),
            *((n, v >= 1, "must be 1 or more") for n, v in numbers if n in counts),
            *((n, v >= 0, "must be 0 or more") for n, v in numbers if n in low),
            (
                "success_rate_full",
                is_strict,
                "must be 0 or more and below 1: the comparison is strict",
            ),
        ]

    def _own_demands(self) -> tuple[_Demand, ...]:
        """Return what a profile demands of its own numbers."""
        return ()

    @property
    def multiplier(self) -> float:
        """Return the tickets lost for each second of latency."""
        return self.cost_per_expected / self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleParameters(Parameters):
    """The article: what counts is what lies less than a window back.

    See docs/explanation/pocket.md#the-article.
    """

    needs_stake: bool = True
    # An outcome of t counts while now < t + window_ms.
    window_ms: int = 300_000
    # What one failure takes a node out for: 5 minutes over 50 failures.
    out_ms_per_failure: int = 6_000
    # "For up to 5 minutes", from the failure.
    out_cap_ms: int = 300_000
    # Whether a passed health check ends that time.
    health_clears: bool = True

    @override
    def _own_demands(self) -> tuple[_Demand, ...]:
        bounded = self.out_cap_ms >= self.out_ms_per_failure
        return (("out_cap_ms", bounded, "must be out_ms_per_failure or more"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalParameters(Parameters):
    """The code of portal-api; its defaults are those of the last version, bugs included.

    See docs/explanation/pocket.md#portal-api.
    """

    # From the last outcome.
    counts_ttl_ms: int = 300_000
    # From the first of the samples, all at once.
    samples_ttl_ms: int = 300_000
    max_samples: int = 500
    # Attempts at which a node without success, or flagged, has no ticket any more.
    shelve_failures: int = 50
    # Attempts at which a factor driven to 0 stays 0 instead of 1.
    zero_weight_attempts: int = 50
    flag_ttl_ms: int = 300_000
    cleared_ttl_ms: int = 7_200_000
    # Success rate of a node that has only failed. 1 is the bug of the code; with 0 it does what
    # its comments say (docs/explanation/pocket.md#code-against-article, 1).
    zero_success_rate: int = 1

    @override
    def _own_demands(self) -> tuple[_Demand, ...]:
        return (
            ("zero_success_rate", self.zero_success_rate in (0, 1), "must be 0 or 1"),
            (
                "cleared_ttl_ms",
                self.cleared_ttl_ms >= self.flag_ttl_ms,
                "must be flag_ttl_ms or more: a cleared flag would be forgotten before a set one",
            ),
        )


# What the article says (docs/reference/sources.md#pocket-node-selector).
ARTICLE = ArticleParameters()
# portal-api at a53c4952, bug for bug.
PORTAL_API_HEAD = PortalParameters()
