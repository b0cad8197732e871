"""Metrics of the endpoints: their state, which one is in use, and the progress of the chain.

The label `endpoint` is the host with the position in the settings: bounded, and without keys.
"""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

CALLS = Counter(
    "oracle_endpoint_calls_total",
    "JSON-RPC requests by how they ended (answered, throttled, unreachable …); a "
    "batch counts once.",
    ["endpoint", "method", "outcome"],
    registry=REGISTRY,
)
LATENCY = Gauge(
    "oracle_endpoint_latency_seconds",
    "Running mean of the time of an answer.",
    ["endpoint", "method"],
    registry=REGISTRY,
)
CIRCUIT_STATE = Gauge(
    "oracle_endpoint_circuit_state",
    "Whether a method is asked for: 0 yes, 1 on trial, 2 not now.",
    ["endpoint", "method"],
    registry=REGISTRY,
)
RATE_LIMIT = Gauge(
    "oracle_endpoint_rate_limit",
    "Calls per second that it bears, as learned; 0: no limit met.",
    ["endpoint"],
    registry=REGISTRY,
)
HEAD = Gauge(
    "oracle_endpoint_head_number",
    "Newest block that it has shown.",
    ["endpoint"],
    registry=REGISTRY,
)
TAG = Gauge(
    "oracle_endpoint_tag_known",
    "1 where it knows the tag, 0 where the depth stands in for it.",
    ["endpoint", "tag"],
    registry=REGISTRY,
)
QUARANTINED = Gauge(
    "oracle_endpoint_quarantined",
    "1 while it is not used at all: another chain, a contradicted final block, a refused key.",
    ["endpoint"],
    registry=REGISTRY,
)
PROVEN_WRONG = Gauge(
    "oracle_endpoint_proven_wrong",
    "1 from when it was proven to have lied until an operator readmits it.",
    ["endpoint"],
    registry=REGISTRY,
)
USABLE = Gauge(
    "oracle_endpoints_usable", "Endpoints that would be given work now.", registry=REGISTRY
)
SWITCHES = Counter(
    "oracle_endpoint_switches_total",
    "Work that went to this endpoint after another one, and why the other one lost it.",
    ["endpoint", "reason"],
    registry=REGISTRY,
)
INCONSISTENT = Counter(
    "oracle_endpoint_inconsistent_total",
    "Answers that contradict themselves or another endpoint, by the check that found it.",
    ["endpoint", "check"],
    registry=REGISTRY,
)
# Values of `check`: a header against its block, the signer of a call, or the heads.
CHECKS = (
    "bloom",
    "receipts_root",
    "transactions_root",
    "header_hash",
    "sender",
    "logs",
    "fork",
    "finalized above latest",
)
FINAL_BACKWARDS = Counter(
    "oracle_endpoint_final_regressions_total",
    "Times that its finalized block went backwards; ignored.",
    ["endpoint"],
    registry=REGISTRY,
)
STALLED = Gauge(
    "oracle_chain_stalled",
    "1 while no endpoint shows a new block for ten block times, a minute at least.",
    registry=REGISTRY,
)
NEW_HEADS = Counter(
    "oracle_new_heads_total", "New blocks that the websocket told of.", registry=REGISTRY
)
WEBSOCKET_FAILURES = Counter(
    "oracle_websocket_failures_total",
    "Websockets that were given up, by reason: closed, refused, silent.",
    ["reason"],
    registry=REGISTRY,
)


def init_endpoint_metrics(endpoint: str) -> None:
    """Initialise the metrics of this endpoint to zero, so that alerts see the first increase."""
    QUARANTINED.labels(endpoint).set(0)
    PROVEN_WRONG.labels(endpoint).set(0)
    for check in CHECKS:
        INCONSISTENT.labels(endpoint, check)
