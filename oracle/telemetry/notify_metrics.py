"""Metrics of notifications; a target is labelled by its name in the settings."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

SENT = Counter(
    "oracle_notify_messages_total",
    "Messages delivered to a target.",
    ["target"],
    registry=REGISTRY,
)
FAILED = Gauge(
    "oracle_notify_consecutive_failures",
    "Failed attempts to deliver the next message; delivery is retried.",
    ["target"],
    registry=REGISTRY,
)
WAITING = Gauge(
    "oracle_notify_notices_waiting",
    "Notices not yet processed for a target, including those that its filter will skip.",
    ["target"],
    registry=REGISTRY,
)


def init_target_metrics(target: str) -> None:
    """Initialise a target's metrics to zero, so that alerts see the first increase."""
    SENT.labels(target)
    FAILED.labels(target)
    WAITING.labels(target)
