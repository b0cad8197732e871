"""Generates the page of metrics, with their types, labels and help texts."""

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager

from oracle import telemetry
from oracle.telemetry import metrics, outbox_metrics
from oracle.telemetry.metrics import DispatchStatistics, IndexStatistics
from oracle.telemetry.outbox_counts import (
    AccountStatistics,
    ContractStatus,
    HotSetLag,
    OutboxStatistics,
)
from reference.markdown import render_head, render_table

_ABOUT = """\
This page is for operators who write queries, dashboards or alerts. It lists every metric that the
daemon exports at `/metrics`.

`ops/grafana/qos-oracle.json` is a dashboard with all metrics. Distributions over nodes are
histograms of the current state, so their buckets can also decrease. For example,
`histogram_quantile(0.1, oracle_qos_ratio_bucket)` is the QoS that nine of ten nodes exceed.
"""


@contextmanager
def fill_registry() -> Iterator[None]:
    """Fill the registry with all metric families of the daemon within the context."""
    statistics = IndexStatistics(
        nodes={"available": 1},
        kickouts={"due": 0, "held": 0},
        outbox={("push", "live"): 1},
        round_age=1,
        balance_wei=1,
        dispatch=DispatchStatistics(balance_wei=1),
    )
    # Importing a module registers its metrics.
    for module in pkgutil.walk_packages(telemetry.__path__, f"{telemetry.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module("gateway.gateway_metrics")
    metrics.publish_statistics(statistics)
    outbox_metrics.publish_outbox_stats(_build_full_outbox_statistics())
    try:
        yield
    finally:
        metrics.publish_statistics(None)
        outbox_metrics.publish_outbox_stats(None)


def _build_full_outbox_statistics() -> OutboxStatistics:
    """Build outbox statistics in which every optional value is set."""
    return OutboxStatistics(
        accounts={"transmitter": AccountStatistics(1, 0, 0, 1, 1, 1, 1.0, "funds")},
        contract=ContractStatus(
            *(1, 1, 0, 0), kicks_paused=False, kick_tokens=1, hot_set_lag=HotSetLag(1, 1)
        ),
        rules_agree=True,
        report_nodes=1,
        report_deviation=1,
        heartbeat_seconds=3600,
    )


def get_metric_labels() -> dict[str, tuple[str, ...]]:
    """Return the label names of every metric, by the metric's name."""
    return {name: labels for name, _, labels, _ in list_metric_families()}


def list_metric_families() -> list[tuple[str, str, tuple[str, ...], str]]:
    """List name, type, labels and help text of every metric.

    A histogram is listed by its base name.
    """
    with fill_registry():
        # Only the collector of a metric has its label names while the metric has no series.
        collectors = list(metrics.REGISTRY._collector_to_names)  # noqa: SLF001 - there is no public way
        return [
            (
                f"{family.name}_total" if family.type == "counter" else family.name,
                family.type,
                tuple(getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())),
                family.documentation,
            )
            for collector in collectors
            for family in collector.collect()
        ]


def render_page() -> str:
    """Render the page of metrics as Markdown, ordered by name."""
    rows = [
        (f"`{name}`", kind, ", ".join(labels), about)
        for name, kind, labels, about in sorted(list_metric_families())
    ]
    return (
        render_head("Metrics", "`oracle/telemetry/`", about=_ABOUT)
        + "\n"
        + render_table(("metric", "type", "labels", "meaning"), rows)
    )
