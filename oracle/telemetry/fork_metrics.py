"""Metrics of forks: those that were denied, and what a changed past costs."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

REJECTED = Counter(
    "oracle_reorgs_rejected_total",
    "Forks that an endpoint claimed and the others denied, by how that was found.",
    ["reason"],
    registry=REGISTRY,
)
for _reason in ("outvoted", "recanted"):
    # Alerts see a zero before the first.
    REJECTED.labels(_reason)
FINALITY_VIOLATION = Gauge(
    "oracle_finality_violation",
    "1 while a final block of ours is not the chain's: nothing is folded or sent.",
    registry=REGISTRY,
)
KICKOUTS_WITHDRAWN = Counter(
    "oracle_kickouts_withdrawn_total",
    "Kickout calls whose evidence left the chain: before they were sent, or after.",
    ["when"],
    registry=REGISTRY,
)
for _when in ("before", "after"):
    KICKOUTS_WITHDRAWN.labels(_when)
