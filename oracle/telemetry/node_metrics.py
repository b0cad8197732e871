"""Metrics of single nodes, which are exported only if `[metrics] nodes` is set.

Each node has its own series, so `[metrics] max_nodes` limits the number of nodes.
"""

from collections.abc import Mapping

from prometheus_client import Gauge

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NodeScores
from oracle.telemetry.metrics import REGISTRY

_QOS = Gauge(
    "oracle_node_qos_ratio",
    "QoS (long-term score times reliability) of each node, 0 to 1; only with `[metrics] nodes`.",
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
    "1 for each node excluded from selection at present; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_LEFT_OUT = Gauge(
    "oracle_node_series_omitted",
    "Members without their own series, because there are more than `[metrics] max_nodes`.",
    registry=REGISTRY,
)
_NODE_GAUGES = (_QOS, _RELIABILITY, _EXCLUDED)


def publish_node_metrics(scores_by_node: Mapping[Address, NodeScores], omitted_count: int) -> None:
    """Set the series of these members, and remove the series of all other nodes.

    `omitted_count` is the number of members without series.
    """
    for gauge in _NODE_GAUGES:
        shown_nodes = {
            sample.labels["node"] for family in gauge.collect() for sample in family.samples
        }
        for removed_node in shown_nodes - scores_by_node.keys():
            gauge.remove(removed_node)
    for node, node_scores in scores_by_node.items():
        _QOS.labels(node).set((node_scores.qos or 0) / UNIT)
        _RELIABILITY.labels(node).set(node_scores.reliability / UNIT)
        _EXCLUDED.labels(node).set(node_scores.is_excluded)
    _LEFT_OUT.set(omitted_count)
