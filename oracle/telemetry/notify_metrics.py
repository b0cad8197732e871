"""Metrics of notifications; a target is labelled by its name in the settings."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

SENT = Counter(
    "oracle_notify_messages_total",
    "Messages that a target took.",
    ["target"],
    registry=REGISTRY,
)
FAILED = Gauge(
    "oracle_notify_consecutive_failures",
    "How often the next message failed so far; it is tried again.",
    ["target"],
    registry=REGISTRY,
)
WAITING = Gauge(
    "oracle_notify_notices_waiting",
    "Notices that a target was not told of yet, those included that it does not want.",
    ["target"],
    registry=REGISTRY,
)


def init_target_metrics(target: str) -> None:
    """Initialise a target's metrics to zero, so that alerts see the first increase."""
    SENT.labels(target)
    FAILED.labels(target)
    WAITING.labels(target)
