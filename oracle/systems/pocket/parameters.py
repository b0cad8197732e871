"""The parameters of Pocket's selector, one object per profile, validated at creation.

See docs/explanation/pocket.md#constants and docs/explanation/pocket.md#parameters.
"""

import math
from dataclasses import dataclass, fields

from typing_extensions import override

_ValueCheck = tuple[str, bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The ranking parameters of both profiles. Latencies are in seconds.

    Raises:
        ValueError: a value is invalid, alone or together with others; the message names the field.
    """

    # Expected latency of a success; the benchmark is never below it (35 per second is 5.25 /
    # 0.15). Raise it for slow work: docs/explanation/pocket.md#units.
    expected: float = 0.15
    # Tickets lost per additional `expected` of latency.
    cost_per_expected: float = 5.25
    max_tickets: int = 10
    # A node has full weight strictly above this success rate.
    success_rate_full: float = 0.95
    p90_weight: float = 0.3
    # P90 counts only if there are more results than this.
    p90_min_results: int = 20
    # Whether nodes without a stake, or with an unknown stake, are left out.
    needs_stake: bool = False

    def __post_init__(self) -> None:
        for name, is_valid, requirement in (*self._list_common_checks(), *self._list_own_checks()):
            if not is_valid:
                raise ValueError(f"{name}: {requirement}")

    def _list_common_checks(self) -> list[_ValueCheck]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        numbers = [(name, value) for name, value in values if isinstance(value, int | float)]
        positive = ("expected", "cost_per_expected")
        counts = ("max_tickets", "max_samples", "shelve_failures", "zero_weight_attempts")
        not_negative = ("p90_weight", "p90_min_results")
        is_strict = 0 <= self.success_rate_full < 1
        return [
            *((name, math.isfinite(value), "must be a number") for name, value in numbers),
            *((n, v > 0, "must be above 0") for n, v in numbers if n in positive or "_ms" in n),
            *((n, v >= 1, "must be 1 or more") for n, v in numbers if n in counts),
            *((n, v >= 0, "must be 0 or more") for n, v in numbers if n in not_negative),
            (
                "success_rate_full",
                is_strict,
                "must be 0 or more and below 1, because the comparison is strict",
            ),
        ]

    def _list_own_checks(self) -> tuple[_ValueCheck, ...]:
        """Return the checks of the values that only one profile has."""
        return ()

    @property
    def multiplier(self) -> float:
        """Return the number of tickets lost for each second of latency."""
        return self.cost_per_expected / self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleParameters(Parameters):
    """The article's profile: outcomes count if they are less than a window old.

    See docs/explanation/pocket.md#the-article.
    """

    needs_stake: bool = True
    # An outcome at time t counts while now < t + window_ms.
    window_ms: int = 300_000
    # How long a node gets no tickets after one failure: 5 minutes over 50 failures.
    out_ms_per_failure: int = 6_000
    # Maximum of that time, counted from the failure ("for up to 5 minutes").
    out_cap_ms: int = 300_000
    # Whether a passed health check ends that time.
    health_clears: bool = True

    @override
    def _list_own_checks(self) -> tuple[_ValueCheck, ...]:
        is_bounded = self.out_cap_ms >= self.out_ms_per_failure
        return (("out_cap_ms", is_bounded, "must be out_ms_per_failure or more"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalParameters(Parameters):
    """The profile of portal-api's code; the defaults are those of its last version, bugs included.

    See docs/explanation/pocket.md#portal-api.
    """

    # Lifetime of the counts, from the last outcome.
    counts_ttl_ms: int = 300_000
    # Lifetime of all samples from the first of them.
    samples_ttl_ms: int = 300_000
    max_samples: int = 500
    # After this many attempts, a node without a success, or a flagged node, gets no ticket.
    shelve_failures: int = 50
    # A factor of 0 counts as 1 below this many attempts.
    zero_weight_attempts: int = 50
    flag_ttl_ms: int = 300_000
    cleared_ttl_ms: int = 7_200_000
    # Success rate of a node that has only failed. 1 is the bug of the code; 0 matches the code's
    # comments (docs/explanation/pocket.md#code-against-article, 1).
    zero_success_rate: int = 1

    @override
    def _list_own_checks(self) -> tuple[_ValueCheck, ...]:
        return (
            ("zero_success_rate", self.zero_success_rate in (0, 1), "must be 0 or 1"),
            (
                "cleared_ttl_ms",
                self.cleared_ttl_ms >= self.flag_ttl_ms,
                "must be flag_ttl_ms or more; else a cleared flag would expire before a set one",
            ),
        )


# As the article describes (docs/reference/sources.md#pocket-node-selector).
ARTICLE = ArticleParameters()
# portal-api at a53c4952, bug for bug.
PORTAL_API_HEAD = PortalParameters()
