"""Counters of a worker, which end up in the writer's: nobody asks a worker for its metrics."""

from typing import TypeAlias

from prometheus_client import Counter

from oracle.telemetry import indexer_metrics, rpc_metrics
from oracle.telemetry.metrics import RPC_CALLS, RPC_ERRORS

# Place in CARRIED, values of the labels, and how much it grew.
Counted: TypeAlias = tuple[tuple[int, tuple[str, ...], float], ...]

# Requests, which were made whatever came of them; and what is said of a range that was read.
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
    """Return how they stand."""
    return {
        (place, tuple(sample.labels.values())): sample.value
        for place, counter in enumerate(CARRIED)
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    }


def since(before: Values, *, is_refused: bool = False) -> Counted:
    """Return what has grown; of a range that was refused only what was asked."""
    most = len(_ASKED) if is_refused else len(CARRIED)
    grown = (
        (place, labels, value - before.get((place, labels), 0.0))
        for (place, labels), value in counted().items()
        if place < most
    )
    return tuple(one for one in grown if one[2])


def take(observed: Counted) -> None:
    """Add what a worker has counted to our own."""
    for place, labels, value in observed:
        if 0 <= place < len(CARRIED) and value > 0:
            CARRIED[place].labels(*labels).inc(value)
