"""The metrics of a gateway's selection service."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import Metric
from typing_extensions import override

from oracle.telemetry.metrics import REGISTRY

# A gateway exports only metrics with these prefixes. With the others, alerts would mistake it for
# an idle daemon.
_EXPORTED_PREFIXES = ("oracle_gateway_", "oracle_http_", "oracle_rpc_")

OUTCOMES = Counter(
    "oracle_gateway_outcomes_total",
    "Relay outcomes reported by gateways: taken, repeated (reported before) or late (too old to "
    "count).",
    ["result"],
    registry=REGISTRY,
)
for _result in ("taken", "repeated", "late"):
    OUTCOMES.labels(_result)
SELECTIONS = Counter(
    "oracle_gateway_selections_total",
    "Selections, by result: drawn (by tickets), degraded (from all candidates, because none has "
    "tickets) or nobody (there is no candidate).",
    ["result"],
    registry=REGISTRY,
)
for _result in ("drawn", "degraded", "nobody"):
    SELECTIONS.labels(_result)
REFUSED = Counter(
    "oracle_gateway_requests_refused_total",
    "Requests answered with an error, by HTTP status.",
    ["status"],
    registry=REGISTRY,
)
for _status in ("400", "401", "404", "405", "429", "503"):
    REFUSED.labels(_status)
UNWRITTEN = Gauge(
    "oracle_gateway_buffered_outcomes",
    "Outcomes not yet written to the database.",
    registry=REGISTRY,
)
NODES = Gauge(
    "oracle_gateway_checked_nodes",
    "Nodes of a chain, by the result of each node's last check.",
    ["chain", "state"],
    registry=REGISTRY,
)


class _GatewayRegistry(CollectorRegistry):
    @override
    def collect(self) -> Iterator[Metric]:
        yield from (
            family for family in REGISTRY.collect() if family.name.startswith(_EXPORTED_PREFIXES)
        )


def render_metrics() -> bytes:
    """Return the gateway's metrics in Prometheus text format.

    The database is not read.
    """
    return generate_latest(_GatewayRegistry())
