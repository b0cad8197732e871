"""Metrics of single nodes, where `[metrics] nodes` asks for them: a series each, so bounded."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import Gauge

from oracle.telemetry.metrics import REGISTRY

_QOS = Gauge(
    "oracle_node_qos_ratio",
    "QoS of each node, 0 to 1; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_RELIABILITY = Gauge(
    "oracle_node_reliability_ratio",
    "Short-term reliability of each node, 0 to 1; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_EXCLUDED = Gauge(
    "oracle_node_excluded",
    "1 for each node that is to get no tasks for the time being; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_LEFT_OUT = Gauge(
    "oracle_node_series_left_out",
    "Members beyond `[metrics] most_nodes`, which have no series of their own.",
    registry=REGISTRY,
)
_ALL = (_QOS, _RELIABILITY, _EXCLUDED)


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """One member; ratios from 0 to 1."""

    node: str
    qos: float
    reliability: float
    is_excluded: bool


def show(figures: Sequence[NodeSeries], left_out: int) -> None:
    """Let `/metrics` tell of these nodes from now on, and of no others."""
    shown = {one.node for one in figures}
    for gauge in _ALL:
        told = {sample.labels["node"] for family in gauge.collect() for sample in family.samples}
        for gone in told - shown:
            gauge.remove(gone)
    for one in figures:
        _QOS.labels(one.node).set(one.qos)
        _RELIABILITY.labels(one.node).set(one.reliability)
        _EXCLUDED.labels(one.node).set(one.is_excluded)
    _LEFT_OUT.set(left_out)
