"""Metrics of the feed (docs/reference/metrics.md), which are zero if no feed is configured."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

POLLS = Counter(
    "oracle_feed_polls_total",
    "Polls of the feed: taken (stored completely) or failed (no response, or a malformed page).",
    ["result"],
    registry=REGISTRY,
)
for _result in ("taken", "failed"):
    # Initialise to zero, so that alerts see the first increase.
    POLLS.labels(_result)
ROWS = Counter("oracle_feed_rows_total", "Feed rows stored.", registry=REGISTRY)
UNKNOWN_ROWS = Counter(
    "oracle_feed_unknown_rows_total",
    "Feed rows of unknown kinds: stored, but not folded.",
    registry=REGISTRY,
)
WAITING = Gauge(
    "oracle_feed_waiting_rows",
    "Feed rows stored but not folded yet: within the settling delay, or waiting for the chain's "
    "next block.",
    registry=REGISTRY,
)
STUCK_SECONDS = Gauge(
    "oracle_feed_stuck_seconds",
    "Seconds since the last successful poll of the feed; 0 without a feed.",
    registry=REGISTRY,
)
SILENT_SECONDS = Gauge(
    "oracle_feed_silent_seconds",
    "Seconds since the feed's newest row, by the feed's own clock; 0 without a feed.",
    registry=REGISTRY,
)
OPEN_FAULTS = Gauge(
    "oracle_feed_open_faults",
    "Faults of the feed that no operator has accepted; nothing is published while one is open.",
    registry=REGISTRY,
)
