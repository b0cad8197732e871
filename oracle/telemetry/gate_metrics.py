"""Metrics of the sanity gate: reports that wait for a human (docs/operating.md)."""

from prometheus_client import Gauge

from oracle.telemetry.metrics import REGISTRY

HELD = Gauge(
    "oracle_publisher_report_held",
    "Reports that would change too much at once and wait for `report release`.",
    registry=REGISTRY,
)
