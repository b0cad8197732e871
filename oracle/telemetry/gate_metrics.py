"""Metrics of reports that are held, until a human or another report (docs/operating.md)."""

from prometheus_client import Gauge

from oracle.telemetry.metrics import REGISTRY

HELD = Gauge(
    "oracle_publisher_report_held",
    "Reports that would change too much at once and wait for `report release`.",
    registry=REGISTRY,
)
DISPUTED = Gauge(
    "oracle_publisher_disagreement_hold",
    "1 while a report is held because others signed otherwise, so that no quorum can be had.",
    registry=REGISTRY,
)
