"""The parameters of Pocket's selector, validated at creation.

There is a class for each profile. See docs/explanation/pocket.md#constants and
docs/explanation/pocket.md#parameters.
"""

import math
from dataclasses import dataclass, fields

from typing_extensions import override

_ValueCheck = tuple[str, bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The ranking parameters that both profiles have; latencies are in seconds.

    Raises:
        ValueError: a value is invalid, by itself or together with others; the message names the
            field.
    """

    # Expected latency of a success. The published cost of 35 per second is 5.25 / 0.15, and no
    # benchmark is lower. Slow work needs a higher value (docs/explanation/pocket.md#units).
    expected: float = 0.15
    # Number of tickets lost for each additional `expected` of latency.
    cost_per_expected: float = 5.25
    max_tickets: int = 10
    # Success rate above which a node has its full weight.
    success_rate_full: float = 0.95
    p90_weight: float = 0.3
    # Number of results above which the P90 latency counts.
    p90_min_results: int = 20
    # True if nodes are left out whose stake is zero or unknown.
    needs_stake: bool = False

    def __post_init__(self) -> None:
        for name, is_valid, requirement in (*self._list_common_checks(), *self._list_own_checks()):
            if not is_valid:
                raise ValueError(f"{name}: {requirement}")

    def _list_common_checks(self) -> list[_ValueCheck]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        numeric_values = [
            (name, value) for name, value in values if isinstance(value, int | float)
        ]
        positive_fields = ("expected", "cost_per_expected")
        count_fields = ("max_tickets", "max_samples", "shelve_failures", "zero_weight_attempts")
        non_negative_fields = ("p90_weight", "p90_min_results")
        is_strict = 0 <= self.success_rate_full < 1
        return [
            *((name, math.isfinite(value), "must be a number") for name, value in numeric_values),
            *(
                (name, value > 0, "must be above 0")
                for name, value in numeric_values
                if name in positive_fields or "_ms" in name
            ),
            *(
                (name, value >= 1, "must be 1 or more")
                for name, value in numeric_values
                if name in count_fields
            ),
            *(
                (name, value >= 0, "must be 0 or more")
                for name, value in numeric_values
                if name in non_negative_fields
            ),
            (
                "success_rate_full",
                is_strict,
                "must be 0 or more and below 1, because the comparison is strict",
            ),
        ]

    def _list_own_checks(self) -> tuple[_ValueCheck, ...]:
        """Return the checks of values that only this profile has."""
        return ()

    @property
    def multiplier(self) -> float:
        """Return the number of tickets lost for each second of latency."""
        return self.cost_per_expected / self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleParameters(Parameters):
    """The parameters of the profile `article`, which counts outcomes in one window.

    See docs/explanation/pocket.md#the-article.
    """

    needs_stake: bool = True
    # An outcome at time t counts while now < t + window_ms.
    window_ms: int = 300_000
    # Time for which a failure keeps a node from getting tickets. It is 5 minutes divided by 50
    # failures.
    out_ms_per_failure: int = 6_000
    # Maximum of this time, counted from the failure ("for up to 5 minutes").
    out_cap_ms: int = 300_000
    # True if a passed health check lets the node get tickets again at once.
    health_clears: bool = True

    @override
    def _list_own_checks(self) -> tuple[_ValueCheck, ...]:
        is_bounded = self.out_cap_ms >= self.out_ms_per_failure
        return (("out_cap_ms", is_bounded, "must be out_ms_per_failure or more"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalParameters(Parameters):
    """The parameters of portal-api's code.

    The defaults, including bugs, are those of its last version. See
    docs/explanation/pocket.md#portal-api.
    """

    # Time for which the counts are kept after the last outcome.
    counts_ttl_ms: int = 300_000
    # Time for which all samples are kept after the first of them.
    samples_ttl_ms: int = 300_000
    max_samples: int = 500
    # Number of attempts after which a node gets no tickets if it has no success, or has a flag.
    shelve_failures: int = 50
    # Number of attempts below which a factor of 0 counts as 1.
    zero_weight_attempts: int = 50
    flag_ttl_ms: int = 300_000
    cleared_ttl_ms: int = 7_200_000
    # Success rate of a node that has only failed. Because of a bug, portal-api uses 1, while its
    # comments describe 0 (docs/explanation/pocket.md#code-against-article, 1).
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


# The selector that the article describes (docs/reference/sources.md#pocket-node-selector).
ARTICLE = ArticleParameters()
# The selector of portal-api at commit a53c4952, including its bugs.
PORTAL_API_HEAD = PortalParameters()
