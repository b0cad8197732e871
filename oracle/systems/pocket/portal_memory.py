"""The memory of the profile `portal_api_head`: what portal-api remembers of the nodes of a chain.

Whatever was written at t with a time to live is there while now < t + ttl. Times are in whole
milliseconds, latencies in seconds. See docs/explanation/pocket.md#portal-api.
"""

from bisect import insort
from collections.abc import Container
from dataclasses import dataclass, field

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import quantile, to_five_places
from oracle.systems.pocket.node_stats import NodeStats
from oracle.systems.pocket.parameters import PortalParameters


@dataclass(slots=True)
class PortalRecord:
    """One node in one chain. Median and weighted latency are rounded to 5 places.

    A field named `…_until` says when what stands above it is gone. `flag` is None where it was
    never set. `samples` are durations, ascending.
    """

    successes: int = 0
    failures: int = 0
    # Of the last success; None before the first.
    median: float = 0.0
    p90: float | None = None
    weighted: float = 0.0
    counts_until: int = 0
    samples: list[float] = field(default_factory=list)
    samples_until: int = 0
    flag: bool | None = None
    flag_until: int = 0

    def has_counts(self, now: int) -> bool:
        """Tell whether there was an outcome lately."""
        return now < self.counts_until

    def is_flagged(self, now: int) -> bool:
        """Tell whether the failure flag stands at true."""
        return self.flag is True and now < self.flag_until

    def succeeded(self, duration: float, now: int, params: PortalParameters) -> None:
        """Count a success and compute the latencies anew."""
        fresh = not self.has_counts(now)
        self._count(now, params, successes=1)
        self._age_samples(now, params)
        insort(self.samples, duration)
        if len(self.samples) > params.max_samples:
            self.samples = self.samples[::2]
        median, p90 = quantile(self.samples, 0.5), quantile(self.samples, 0.9)
        if fresh:
            median = duration
        weighted = median
        if self.successes + self.failures > params.p90_min_results:
            weighted += params.p90_weight * p90
        self.median, self.weighted = to_five_places(median), to_five_places(weighted)
        self.p90 = p90

    def failed(self, now: int, params: PortalParameters) -> None:
        """Count a failure; the latencies stay as the last success left them."""
        self._count(now, params, failures=1)
        self._age_samples(now, params)

    def set_flag(self, until: int, *, flag: bool) -> None:
        """Write the failure flag."""
        self.flag, self.flag_until = flag, until

    def stats(self, node: Address, now: int, params: PortalParameters) -> NodeStats:
        """Return what the node is ranked by."""
        failing = self.is_flagged(now)
        if not self.has_counts(now):
            return NodeStats(node, 0, 1.0, 0.0, 0.0, failing)
        attempts = self.successes + self.failures
        if self.successes == 0:
            rate = float(params.zero_success_rate)
            return NodeStats(node, attempts, rate, 0.0, 0.0, failing)
        rate = self.successes / attempts
        return NodeStats(
            node, attempts, rate, self.median, self.weighted, failing=False, p90=self.p90
        )

    def looked_at(self, now: int, params: PortalParameters) -> None:
        """Let an evaluation have happened: it sets the flag, or clears it.

        See docs/explanation/pocket.md#portal-api.
        """
        if not self.has_counts(now):
            return
        flagged = self.is_flagged(now)
        if self.successes and flagged:
            self.set_flag(now + params.cleared_ttl_ms, flag=False)
        has_failed = self.successes == 0 and params.zero_success_rate == 0
        if has_failed and not flagged and self.failures >= params.shelve_failures:
            self.set_flag(now + params.flag_ttl_ms, flag=True)

    def _count(
        self, now: int, params: PortalParameters, successes: int = 0, failures: int = 0
    ) -> None:
        if not self.has_counts(now):
            self.successes = self.failures = 0
            self.median = self.weighted = 0.0
            self.p90 = None
        self.successes += successes
        self.failures += failures
        self.counts_until = now + params.counts_ttl_ms

    def _age_samples(self, now: int, params: PortalParameters) -> None:
        if now >= self.samples_until:
            # Made by a failure too: from here the list has its own end, whatever comes later.
            self.samples = []
            self.samples_until = now + params.samples_ttl_ms


class PortalMemory:
    """Satisfies `ChainMemory`. `records` may be read by anybody and are written here alone."""

    def __init__(self, params: PortalParameters) -> None:
        self.records: dict[Address, PortalRecord] = {}
        self._params = params
        # Those whose flag an evaluation might change: all others need not be looked at.
        self._suspects: set[Address] = set()

    def succeeded(self, node: Address, latency: float, now: int) -> None:
        record = self._record(node)
        record.succeeded(latency, now, self._params)
        self._suspect(node, record, now)

    def failed(self, node: Address, now: int) -> None:
        record = self._record(node)
        record.failed(now, self._params)
        self._suspect(node, record, now)

    def health_passed(self, node: Address, now: int) -> None:
        """Clear the flag, as upstream's sync check does."""
        self.set_flag(node, now + self._params.cleared_ttl_ms, flag=False)

    def set_flag(self, node: Address, until: int, *, flag: bool) -> None:
        """Write a node's failure flag, whatever there is in its record."""
        self._record(node).set_flag(until, flag=flag)
        if flag:
            self._suspects.add(node)

    def forget(self, node: Address) -> None:
        self.records.pop(node, None)
        self._suspects.discard(node)

    def stats(self, node: Address, now: int) -> NodeStats:
        record = self.records.get(node)
        return (record or _UNKNOWN).stats(node, now, self._params)

    def look(self, among: Container[Address], now: int) -> None:
        """Set and clear flags; the cost grows with the failing nodes only."""
        for node in sorted(self._suspects):
            record = self.records[node]
            if node in among:
                record.looked_at(now, self._params)
            if not self._is_suspect(record, now):
                self._suspects.discard(node)

    def _record(self, node: Address) -> PortalRecord:
        if node not in self.records:
            self.records[node] = PortalRecord()
        return self.records[node]

    def _suspect(self, node: Address, record: PortalRecord, now: int) -> None:
        if self._is_suspect(record, now):
            self._suspects.add(node)

    def _is_suspect(self, record: PortalRecord, now: int) -> bool:
        """Tell whether there is a flag to clear, or one to set: now, or once one has expired."""
        if not record.has_counts(now):
            return False
        if record.successes:
            return record.is_flagged(now)
        return record.failures >= self._params.shelve_failures


_UNKNOWN = PortalRecord()
