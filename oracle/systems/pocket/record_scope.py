"""The records of one scope, kept up to date outcome by outcome.

A scope is what Pocket calls a chain: work whose latencies may be compared with each other.
See docs/explanation/pocket.md#scope-of-a-record and docs/explanation/pocket.md#units.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Container, Iterable

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import quantile
from oracle.systems.pocket.node_record import Record
from oracle.systems.pocket.parameters import Parameters
from oracle.systems.pocket.record_stats import (
    Effect,
    FlagSet,
    after_outcome,
    is_failing,
    looked_at,
    stats_of,
)


class RecordScope:
    """Times and durations are in seconds; `size` is a task's, in the network's own unit.

    `records` may be read by anybody and are written here alone.
    """

    def __init__(self, params: Parameters) -> None:
        self.params = params
        self.records: dict[Address, Record] = {}
        # Those whose flag an evaluation might change: all others need not be looked at.
        self._suspects: set[Address] = set()
        self._newest: deque[float] = deque()
        self._ascending: list[float] = []

    def expected(self, size: int = 1) -> float:
        """Return the seconds that a success is expected to take now."""
        least = self.params.rolling_from
        if least is not None and len(self._ascending) >= least:
            # A median of 0 is a chain whose blocks are longer than its tasks.
            return quantile(self._ascending, 0.5) or self.params.expected
        return self.params.expected + size * self.params.expected_per_size

    def assigned(self, node: Address) -> None:
        """A node has one task more."""
        self._record(node).in_flight += 1

    def released(self, node: Address) -> None:
        """A node has one task less."""
        record = self._record(node)
        record.in_flight = max(0, record.in_flight - 1)

    def succeeded(self, node: Address, duration: float, now: float, size: int = 1) -> None:
        """A node has succeeded after `duration` seconds."""
        taken = duration / self.expected(size) if self.params.scaled else duration
        record = self._record(node)
        record.succeeded(taken, now, self.params)
        self._roll(duration)
        self._after(node, record, now)

    def failed(self, node: Address, now: float, early_by: float | None = None) -> None:
        """A node has failed, `early_by` seconds before the task's timeout, if it has one."""
        record = self._record(node)
        record.failed(now, self.params)
        if early_by is not None and early_by > self.params.early_margin:
            record.failed_early(now, self.params)
        self._after(node, record, now)

    def health_passed(self, node: Address, now: float) -> None:
        """A check has found the node well: its flag is cleared.

        See docs/explanation/pocket.md#special-rules, sync check.
        """
        self._record(node).set_flag(now + self.params.cleared_ttl, flag=False)

    def forget(self, node: Address) -> None:
        """Clear a node's history; the tasks that it still runs stay counted."""
        record = self.records.pop(node, None)
        self._suspects.discard(node)
        if record is not None and record.in_flight:
            self._record(node).in_flight = record.in_flight

    def apply(self, effects: Iterable[Effect]) -> None:
        """Write down what an evaluation does to failure flags."""
        for effect in effects:
            flagged = isinstance(effect, FlagSet)
            self._record(effect.node).set_flag(effect.until, flag=flagged)
            if flagged:
                self._suspects.add(effect.node)

    def look(self, among: Container[Address], now: float) -> None:
        """Let an evaluation of these nodes have happened: set and clear their flags.

        As `apply(evaluate(...).effects)`, but its cost grows with the failing nodes only.
        """
        for node in sorted(self._suspects):
            record = self.records[node]
            if node in among:
                stats = stats_of(node, record, now, self.params)
                self.apply(looked_at(stats, record, now, self.params))
            if not self._is_suspect(record, now):
                self._suspects.discard(node)

    def _record(self, node: Address) -> Record:
        if node not in self.records:
            self.records[node] = Record()
        return self.records[node]

    def _after(self, node: Address, record: Record, now: float) -> None:
        self.apply(after_outcome(node, record, now, self.params))
        if self._is_suspect(record, now):
            self._suspects.add(node)

    def _is_suspect(self, record: Record, now: float) -> bool:
        """Tell whether there is a flag to clear, or one to set: now, or once one has expired."""
        if not record.has_counts(now):
            return False
        if record.successes:
            return is_failing(record, now, self.params)
        return record.failures >= self.params.shelve_failures

    def _roll(self, duration: float) -> None:
        """Keep the newest durations of the whole scope, in order of size too."""
        if self.params.rolling_from is None:
            return
        self._newest.append(duration)
        insort(self._ascending, duration)
        if len(self._newest) > self.params.max_samples:
            oldest = self._newest.popleft()
            del self._ascending[bisect_left(self._ascending, oldest)]
