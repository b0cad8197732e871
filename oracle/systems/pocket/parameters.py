"""Every number of Pocket's selector as one value, refused if incoherent.

See docs/explanation/pocket.md#constants and docs/explanation/pocket.md#parameters.
"""

import math
from dataclasses import dataclass, fields
from enum import StrEnum


class Benchmark(StrEnum):
    """What a node's latency is compared with: the node before it, or what is expected."""

    PREVIOUS = "previous"
    EXPECTED = "expected"


class FlagSetAt(StrEnum):
    EVALUATION = "evaluation"
    OUTCOME = "outcome"


class SampleWindow(StrEnum):
    """How samples leave: all at once, `samples_ttl` after the first; or each by its own age."""

    TUMBLING = "tumbling"
    SLIDING = "sliding"


class AllShelved(StrEnum):
    """Who may be picked where nobody has a ticket: everybody alike, or the least bad alone."""

    UNIFORM = "uniform"
    LEAST_BAD = "least_bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """One profile; the defaults are those of `article`. Times are in seconds.

    Raises:
        ValueError: a setting that means nothing, alone or beside the others; the field is named.
    """

    # What a success may take; the benchmark is never below it (35 per second is 5.25 / 0.15).
    expected: float = 0.15
    # Durations count as multiples of `expected` (docs/explanation/pocket.md#units), for work that
    # is slow or of many sizes.
    scaled: bool = False
    # Added to `expected` for each unit of a task's size.
    expected_per_size: float = 0.0
    # Once the scope has so many successes, its median replaces `expected`; None: never.
    rolling_from: int | None = None
    # Tickets lost by one `expected` of latency more.
    cost_per_expected: float = 5.25
    max_tickets: int = 10
    # Full weight above this success rate, strictly.
    success_rate_full: float = 0.95
    p90_weight: float = 0.3
    # P90 counts above so many results, strictly.
    p90_min_results: int = 20
    # From the last outcome.
    counts_ttl: float = 300.0
    samples_ttl: float = 300.0
    window: SampleWindow = SampleWindow.TUMBLING
    max_samples: int = 500
    # Attempts at which a node without success, or flagged, has no ticket any more.
    shelve_failures: int = 50
    # Attempts at which a factor driven to 0 stays 0 instead of 1; None: never.
    zero_weight_attempts: int | None = 50
    flag_ttl: float = 300.0
    cleared_ttl: float = 7200.0
    flag_set_at: FlagSetAt = FlagSetAt.EVALUATION
    # Success rate of a node that has only failed: 0; 1 is the bug of the code
    # (docs/explanation/pocket.md#code-against-article, 1).
    zero_success_rate: int = 0
    benchmark: Benchmark = Benchmark.PREVIOUS
    # Tasks at once in the scope; an untested node gets one. None: no cap.
    in_flight_cap: int | None = None
    all_shelved: AllShelved = AllShelved.UNIFORM
    # More errors in a row than this count as a flag; None: not looked at.
    errors_limit: int | None = None
    errors_ttl: float = 60.0
    # Whether failures raise that counter: at HEAD it is written under another key
    # (docs/explanation/pocket.md#code-against-article, 2).
    errors_counted: bool = False
    # Failures so long before a task's timeout that remove a node
    # (docs/explanation/pocket.md#special-rules, archival); None: none.
    early_failures: int | None = None
    early_margin: float = 2.0
    early_ttl: float = 7200.0
    removed_ttl: float = 3600.0

    def __post_init__(self) -> None:
        for field, sound, meaning in (
            *self._number_demands(),
            *self._threshold_demands(),
            *self._demands_on_each_other(),
        ):
            if not sound:
                raise ValueError(f"{field}: {meaning}")

    def _number_demands(self) -> list[tuple[str, bool, str]]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        numbers = [(name, value) for name, value in values if isinstance(value, int | float)]
        finite = [(name, math.isfinite(value), "must be a number") for name, value in numbers]
        lasting = ("counts", "samples", "flag", "cleared", "errors", "early", "removed")
        positive = ("expected", "cost_per_expected", *(f"{name}_ttl" for name in lasting))
        counts = (
            "max_tickets", "max_samples", "shelve_failures", "zero_weight_attempts",
            "rolling_from", "in_flight_cap", "early_failures",
        )  # fmt: skip
        low = ("p90_weight", "p90_min_results", "expected_per_size", "early_margin")
        return [
            *finite,
            *((n, v > 0, "must be above 0") for n, v in numbers if n in positive),
            *((n, v >= 1, "must be 1 or more") for n, v in numbers if n in counts),
            *((n, v >= 0, "must be 0 or more") for n, v in numbers if n in low),
        ]

    def _threshold_demands(self) -> tuple[tuple[str, bool, str], ...]:
        limit = self.errors_limit
        return (
            (
                "success_rate_full",
                0 <= self.success_rate_full < 1,
                "must be 0 or more and below 1: the comparison is strict",
            ),
            ("zero_success_rate", self.zero_success_rate in (0, 1), "must be 0 or 1"),
            ("errors_limit", limit is None or limit >= 0, "must be 0 or more"),
        )

    def _demands_on_each_other(self) -> tuple[tuple[str, bool, str], ...]:
        sized, rolling = self.expected_per_size > 0, self.rolling_from is not None
        return (
            (
                "cleared_ttl",
                self.cleared_ttl >= self.flag_ttl,
                "must be flag_ttl or more: a cleared flag would be forgotten before a set one",
            ),
            ("expected_per_size", self.scaled or not sized, "means nothing unless scaled"),
            ("rolling_from", self.scaled or not rolling, "means nothing unless scaled"),
            (
                "rolling_from",
                not (rolling and sized),
                "cannot stand beside expected_per_size: a median knows no sizes",
            ),
            (
                "rolling_from",
                self.rolling_from is None or self.rolling_from <= self.max_samples,
                "must be max_samples or less: no more are kept",
            ),
            (
                "errors_counted",
                self.errors_limit is not None or not self.errors_counted,
                "means nothing without errors_limit",
            ),
        )

    @property
    def unit(self) -> str:
        """Return the unit of latencies: seconds, or multiples of what was expected."""
        return "x" if self.scaled else "s"

    @property
    def top_tier(self) -> float:
        """Return the latency that is expected, in the unit of latencies."""
        return 1.0 if self.scaled else self.expected

    @property
    def multiplier(self) -> float:
        """Return the tickets lost for each unit of latency."""
        return self.cost_per_expected if self.scaled else self.cost_per_expected / self.expected


# The intention, as the article, the comments and the older code have it.
ARTICLE = Parameters()
# portal-api at a53c4952, bug for bug.
PORTAL_API_HEAD = Parameters(zero_success_rate=1, errors_limit=50)


def compute(expected: float, *, expected_per_size: float = 0.0) -> Parameters:
    """Return the suggested start for slow work that takes about `expected` seconds.

    See docs/explanation/pocket.md#parameters.

    Raises:
        ValueError: `expected` is not above 0.
    """
    lasting = max(300.0, 100 * expected)
    flagged = max(300.0, 10 * expected)
    return Parameters(
        expected=expected,
        scaled=True,
        expected_per_size=expected_per_size,
        counts_ttl=lasting,
        samples_ttl=lasting,
        shelve_failures=3,
        zero_weight_attempts=None,
        flag_ttl=flagged,
        cleared_ttl=flagged,
        flag_set_at=FlagSetAt.OUTCOME,
        benchmark=Benchmark.EXPECTED,
        in_flight_cap=1,
        all_shelved=AllShelved.LEAST_BAD,
    )
