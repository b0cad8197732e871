"""Metrics of a feed besides the chain (`make reference` lists them); zeros without a feed."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

POLLS = Counter(
    "oracle_feed_polls_total",
    "Polls of the feed: taken (stored whole) or failed (no answer, or one that is no page).",
    ["result"],
    registry=REGISTRY,
)
for _result in ("taken", "failed"):
    # Initialise to zero, so that alerts see the first increase.
    POLLS.labels(_result)
ROWS = Counter("oracle_feed_rows_total", "Rows of the feed that were stored.", registry=REGISTRY)
UNKNOWN_ROWS = Counter(
    "oracle_feed_unknown_rows_total",
    "Rows of kinds that we have never heard of: kept, and folded into nothing.",
    registry=REGISTRY,
)
WAITING = Gauge(
    "oracle_feed_waiting_rows",
    "Rows that are stored and not folded: they settle, or wait for the chain's next block.",
    registry=REGISTRY,
)
STUCK_SECONDS = Gauge(
    "oracle_feed_stuck_seconds",
    "Seconds since the feed's last poll that was taken in; 0 without a feed.",
    registry=REGISTRY,
)
SILENT_SECONDS = Gauge(
    "oracle_feed_silent_seconds",
    "Seconds since the feed told a new row, by its own clock; 0 without a feed.",
    registry=REGISTRY,
)
OPEN_FAULTS = Gauge(
    "oracle_feed_open_faults",
    "Faults of the feed that nobody accepted and for which nothing is published.",
    registry=REGISTRY,
)
