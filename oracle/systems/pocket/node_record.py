"""What is remembered of one node in one scope, and how outcomes change it.

Whatever was written at t with a time to live is there while now < t + ttl.
See docs/explanation/pocket.md#what-is-recorded.
"""

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import quantile, to_five_places
from oracle.systems.pocket.parameters import Parameters, SampleWindow


@dataclass(slots=True)
class Record:
    """One node in one scope. Latencies are in the parameters' unit, rounded to 5 places.

    A field named `…_until` says when what stands above it is gone. `flag` is None where it was
    never set. `samples` are (duration, time of the outcome), ascending.
    """

    successes: int = 0
    failures: int = 0
    # Of the last success; None before the first.
    median: float = 0.0
    p90: float | None = None
    weighted: float = 0.0
    counts_until: float = 0.0
    samples: list[tuple[float, float]] = field(default_factory=list)
    samples_until: float = 0.0
    flag: bool | None = None
    flag_until: float = 0.0
    errors: int = 0
    errors_until: float = 0.0
    early: int = 0
    early_until: float = 0.0
    removed_until: float = 0.0
    in_flight: int = 0

    def has_counts(self, now: float) -> bool:
        """Tell whether there was an outcome lately."""
        return now < self.counts_until

    def is_flagged(self, now: float) -> bool:
        """Tell whether the failure flag stands at true."""
        return self.flag is True and now < self.flag_until

    def errors_at(self, now: float) -> int:
        """Return the errors in a row that are still remembered."""
        return self.errors if now < self.errors_until else 0

    def succeeded(self, duration: float, now: float, params: Parameters) -> None:
        """Count a success and compute the latencies anew; `duration` in the parameters' unit."""
        fresh = not self.has_counts(now)
        self._count(now, params, successes=1)
        self._age_samples(now, params)
        insort(self.samples, (duration, now))
        self._bound_samples(params)
        durations = [sample for sample, _ in self.samples]
        median, p90 = quantile(durations, 0.5), quantile(durations, 0.9)
        if fresh:
            median = duration
        weighted = median
        if self.successes + self.failures > params.p90_min_results:
            weighted += params.p90_weight * p90
        self.median, self.weighted = to_five_places(median), to_five_places(weighted)
        self.p90 = p90
        if params.errors_counted:
            self.errors = 0

    def failed(self, now: float, params: Parameters) -> None:
        """Count a failure; the latencies stay as the last success left them."""
        self._count(now, params, failures=1)
        self._age_samples(now, params)
        if params.errors_counted:
            self.errors = self.errors_at(now) + 1
            self.errors_until = now + params.errors_ttl

    def failed_early(self, now: float, params: Parameters) -> None:
        """Count a failure that came long before its timeout; the last of them removes the node."""
        if params.early_failures is None:
            return
        self.early = self.early + 1 if now < self.early_until else 1
        self.early_until = now + params.early_ttl
        if self.early >= params.early_failures:
            self.removed_until = now + params.removed_ttl

    def set_flag(self, until: float, *, flag: bool) -> None:
        """Write the failure flag."""
        self.flag, self.flag_until = flag, until

    def _count(
        self, now: float, params: Parameters, successes: int = 0, failures: int = 0
    ) -> None:
        if not self.has_counts(now):
            self.successes = self.failures = 0
            self.median = self.weighted = 0.0
            self.p90 = None
        self.successes += successes
        self.failures += failures
        self.counts_until = now + params.counts_ttl

    def _age_samples(self, now: float, params: Parameters) -> None:
        if params.window is SampleWindow.SLIDING:
            kept = [entry for entry in self.samples if now < entry[1] + params.samples_ttl]
            self.samples = kept
        elif now >= self.samples_until:
            # Made by a failure too: from here the list has its own end, whatever comes later.
            self.samples = []
            self.samples_until = now + params.samples_ttl

    def _bound_samples(self, params: Parameters) -> None:
        if len(self.samples) <= params.max_samples:
            return
        if params.window is SampleWindow.SLIDING:
            self.samples.remove(min(self.samples, key=lambda entry: entry[1]))
        else:
            self.samples = self.samples[::2]


Records = Mapping[Address, Record]
