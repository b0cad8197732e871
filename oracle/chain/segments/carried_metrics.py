"""Metric counters of workers, which are added to the writer's: workers are not scraped."""

from typing import TypeAlias

from prometheus_client import Counter

from oracle.telemetry import indexer_metrics, rpc_metrics
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS

# Index in CARRIED_COUNTERS, label values, and increase.
Counted: TypeAlias = tuple[tuple[int, tuple[str, ...], float], ...]

# Counters of requests, which count even if the range is refused, and counters of read ranges.
_ASKED: tuple[Counter, ...] = (rpc_metrics.CALLS, RPC_CALLS, RPC_ERRORS)
_READ: tuple[Counter, ...] = (
    indexer_metrics.VERIFIED_BLOCKS,
    indexer_metrics.UNPROVEN_SENDERS,
    indexer_metrics.DUPLICATE_LOGS,
    indexer_metrics.WRONG_LOG_TIMES,
    indexer_metrics.WINDOW_SPLITS,
)
CARRIED = (*_ASKED, *_READ)

Values: TypeAlias = dict[tuple[int, tuple[str, ...]], float]


def counted() -> Values:
    """Return the current value of each counter, by index and labels."""
    return {
        (place, tuple(sample.labels.values())): sample.value
        for place, counter in enumerate(CARRIED)
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def since(before: Values, *, is_refused: bool = False) -> Counted:
    """Return the increases since a snapshot; for a refused range only those of requests."""
    most = len(_ASKED) if is_refused else len(CARRIED)
    grown = (
        (place, labels, value - before.get((place, labels), 0.0))
        for (place, labels), value in counted().items()
        if place < most
    )
    return tuple(one for one in grown if one[2])


def take(observed: Counted) -> None:
    """Add the increases of a worker to this process's counters."""
    for place, labels, value in observed:
        if 0 <= place < len(CARRIED) and value > 0:
            CARRIED[place].labels(*labels).inc(value)
