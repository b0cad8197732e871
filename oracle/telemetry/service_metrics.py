"""Metrics of the daemon's health, HTTP listeners and notifications.

There is one series for each possible health condition. A notification target is labelled by its
name in the settings.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from prometheus_client import Counter, Gauge

from oracle.domain.health import Condition, HealthReport
from oracle.telemetry.metrics import REGISTRY

HEALTH_CONDITION = Gauge(
    "oracle_health_condition",
    "1 while a health condition of the daemon is active, else 0.",
    ["condition"],
    registry=REGISTRY,
)
HEALTH_SEVERITY = Gauge(
    "oracle_health_severity",
    "Severity of the worst active condition: 0 healthy, 1 needs attention, 2 down.",
    registry=REGISTRY,
)
HEALTH_WRITE_FAILURES = Counter(
    "oracle_health_write_failures_total",
    "Health reports of the daemon that could not be written to the database.",
    registry=REGISTRY,
)


def publish_health_metrics(health: HealthReport) -> None:
    """Set the health metrics from a health report."""
    active_conditions = set(health.conditions)
    for condition in Condition:
        HEALTH_CONDITION.labels(condition.key).set(condition in active_conditions)
    HEALTH_SEVERITY.set(health.severity)


# `slow`: no complete request arrived in time. `address` and `total`: an older connection of this
# address, or of all addresses, was closed to make room for a newer one. `answers`: all response
# slots are in use. `large`: the headers are too large. `descriptors`: no file descriptor is left.
# `rate`: there were too many requests from this address. `deadline`: the client did not read the
# response in time.
RefusalReason = Literal[
    "slow", "address", "total", "answers", "large", "descriptors", "rate", "deadline"
]

HTTP_REFUSED = Counter(
    "oracle_http_refused_total",
    "Connections and requests refused, by listener and reason: slow (no complete request in "
    "time), address or total (too many connections), answers (too many requests at the same "
    "time), large (headers), descriptors (none left), rate (too many requests from an address), "
    "deadline (the client did not read the response).",
    ["listener", "reason"],
    registry=REGISTRY,
)


def get_refusal_counters(listener: str) -> Mapping[RefusalReason, Counter]:
    """Return a listener's refusal counters by reason, each starting at zero."""
    return {reason: HTTP_REFUSED.labels(listener, reason) for reason in get_args(RefusalReason)}


NOTIFY_SENT = Counter(
    "oracle_notify_messages_total",
    "Messages delivered to a target.",
    ["target"],
    registry=REGISTRY,
)
NOTIFY_FAILED = Gauge(
    "oracle_notify_consecutive_failures",
    "Failed attempts to deliver the next message; delivery is retried.",
    ["target"],
    registry=REGISTRY,
)
NOTIFY_WAITING = Gauge(
    "oracle_notify_notices_waiting",
    "Notices not yet processed for a target, including those that its filter will skip.",
    ["target"],
    registry=REGISTRY,
)


def init_target_metrics(target: str) -> None:
    """Start a target's metrics at zero, so that alerts see the first increase."""
    NOTIFY_SENT.labels(target)
    NOTIFY_FAILED.labels(target)
    NOTIFY_WAITING.labels(target)


SUBSCRIPTIONS = Gauge(
    "oracle_notify_subscriptions",
    "Subscriptions of node owners by state: new or unconfirmed (not confirmed yet), or active.",
    ["state"],
    registry=REGISTRY,
)
SUBSCRIBER_MESSAGES = Counter(
    "oracle_notify_subscriber_messages_total",
    "Messages to subscribed node owners, confirmations included, by result: delivered or failed.",
    ["result"],
    registry=REGISTRY,
)
for _state in ("new", "unconfirmed", "active"):
    SUBSCRIPTIONS.labels(_state)
for _result in ("delivered", "failed"):
    SUBSCRIBER_MESSAGES.labels(_result)
