"""Adds the metric counters of workers to the writer's counters: workers are not scraped."""

from typing import TypeAlias

from prometheus_client import Counter

from oracle.telemetry import indexer_metrics, rpc_metrics
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS

# Index in CARRIED_COUNTERS, label values, and increase.
CounterIncreases: TypeAlias = tuple[tuple[int, tuple[str, ...], float], ...]

# Counters of requests, which count even if the range is refused, and counters of read ranges.
_REQUEST_COUNTERS: tuple[Counter, ...] = (rpc_metrics.CALLS, RPC_CALLS, RPC_ERRORS)
_RANGE_COUNTERS: tuple[Counter, ...] = (
    indexer_metrics.VERIFIED_BLOCKS,
    indexer_metrics.UNPROVEN_SENDERS,
    indexer_metrics.DUPLICATE_LOGS,
    indexer_metrics.WRONG_LOG_TIMES,
    indexer_metrics.WINDOW_SPLITS,
)
CARRIED_COUNTERS = (*_REQUEST_COUNTERS, *_RANGE_COUNTERS)

CounterValues: TypeAlias = dict[tuple[int, tuple[str, ...]], float]


def snapshot_counters() -> CounterValues:
    """Return the current value of each counter, by index and labels."""
    return {
        (index, tuple(sample.labels.values())): sample.value
        for index, counter in enumerate(CARRIED_COUNTERS)
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def compute_increases(
    previous_values: CounterValues, *, is_refused: bool = False
) -> CounterIncreases:
    """Return the increases since a snapshot; for a refused range, only of request counters."""
    counter_count = len(_REQUEST_COUNTERS) if is_refused else len(CARRIED_COUNTERS)
    increases = (
        (index, labels, value - previous_values.get((index, labels), 0.0))
        for (index, labels), value in snapshot_counters().items()
        if index < counter_count
    )
    return tuple(increase for increase in increases if increase[2])


def add_increases(increases: CounterIncreases) -> None:
    """Add the increases of a worker to this process's counters."""
    for index, labels, value in increases:
        if 0 <= index < len(CARRIED_COUNTERS) and value > 0:
            CARRIED_COUNTERS[index].labels(*labels).inc(value)
