"""Metrics of who may write: one process of several that stand by for each other."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

HELD = Gauge(
    "oracle_lease_held",
    "1 while this process holds the lease of its database, 0 while it stands by.",
    registry=REGISTRY,
)
EPOCH = Gauge(
    "oracle_lease_epoch",
    "Number of the lease, as this process saw it last; every new holder raises it by one.",
    registry=REGISTRY,
)
RENEW_FAILURES = Counter(
    "oracle_lease_renew_failures_total",
    "Renewals of the lease that failed; after 20 s of nothing else the daemon ends.",
    registry=REGISTRY,
)
