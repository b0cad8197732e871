"""Metrics of the daemon's health: one series for each possible condition."""

from prometheus_client import Counter, Gauge

from oracle.domain.health import Condition, HealthReport
from oracle.telemetry.metrics import REGISTRY

CONDITION = Gauge(
    "oracle_health_condition",
    "1 while a health condition of the daemon is active, else 0.",
    ["condition"],
    registry=REGISTRY,
)
SEVERITY = Gauge(
    "oracle_health_severity",
    "Severity of the worst active condition: 0 healthy, 1 needs attention, 2 down.",
    registry=REGISTRY,
)
UNREPORTED = Counter(
    "oracle_health_write_failures_total",
    "Health reports of the daemon that could not be written to the database.",
    registry=REGISTRY,
)


def publish_health(health: HealthReport) -> None:
    """Set the health metrics from a report."""
    active_conditions = set(health.conditions)
    for condition in Condition:
        CONDITION.labels(condition.key).set(condition in active_conditions)
    SEVERITY.set(health.severity)
