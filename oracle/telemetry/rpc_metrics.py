"""Metrics of the endpoints' state, the endpoint in use, and the chain's progress.

The label `endpoint` is the host and its position in the settings. The label has a bounded number
of values and contains no API key.
"""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

CALLS = Counter(
    "oracle_endpoint_calls_total",
    "JSON-RPC requests by outcome (answered, throttled, unreachable …); a batch counts once.",
    ["endpoint", "method", "outcome"],
    registry=REGISTRY,
)
LATENCY = Gauge(
    "oracle_endpoint_latency_seconds",
    "Moving average of the response time, in seconds.",
    ["endpoint", "method"],
    registry=REGISTRY,
)
CIRCUIT_STATE = Gauge(
    "oracle_endpoint_circuit_state",
    "State of the circuit breaker of a method: 0 closed (in use), 1 half-open (on trial), 2 "
    "open (not used).",
    ["endpoint", "method"],
    registry=REGISTRY,
)
RATE_LIMIT = Gauge(
    "oracle_endpoint_rate_limit",
    "Learned rate limit, in calls per second; 0: no limit found.",
    ["endpoint"],
    registry=REGISTRY,
)
HEAD = Gauge(
    "oracle_endpoint_head_number",
    "Newest block returned by the endpoint.",
    ["endpoint"],
    registry=REGISTRY,
)
TAG = Gauge(
    "oracle_endpoint_tag_known",
    "1 if the endpoint supports the block tag, 0 if the configured depth replaces it.",
    ["endpoint", "tag"],
    registry=REGISTRY,
)
QUARANTINED = Gauge(
    "oracle_endpoint_quarantined",
    "1 while the endpoint is not used at all: another chain, a contradicted final block, a "
    "refused key.",
    ["endpoint"],
    registry=REGISTRY,
)
PROVEN_WRONG = Gauge(
    "oracle_endpoint_proven_wrong",
    "1 from the proof that the endpoint returned wrong data until an operator readmits it.",
    ["endpoint"],
    registry=REGISTRY,
)
USABLE = Gauge("oracle_endpoints_usable", "Endpoints that can be used now.", registry=REGISTRY)
CERTIFICATE_EXPIRY = Gauge(
    "oracle_server_certificate_expiry_timestamp_seconds",
    "When the TLS certificate of an endpoint, a peer or a remote signer expires, in unix seconds, "
    "as of the newest connection.",
    ["server"],
    registry=REGISTRY,
)
SWITCHES = Counter(
    "oracle_endpoint_switches_total",
    "Times this endpoint took over work from another endpoint, by the reason for the change.",
    ["endpoint", "reason"],
    registry=REGISTRY,
)
INCONSISTENT = Counter(
    "oracle_endpoint_inconsistent_total",
    "Responses that contradict themselves or another endpoint, by failed check.",
    ["endpoint", "check"],
    registry=REGISTRY,
)
# Values of the label `check`, which says what was contradicted. This may be a part of a block (by
# a header field or by another endpoint), the signer of a call, the result of a simulation, the
# last round and configuration of the oracle contract, or the order of the heads.
CHECKS = (
    "bloom",
    "receipts_root",
    "transactions_root",
    "header_hash",
    "sender",
    "logs",
    "fork",
    "head",
    "simulation",
    "contract",
    "finalized above latest",
)
FINAL_BACKWARDS = Counter(
    "oracle_endpoint_final_regressions_total",
    "Times the endpoint's finalized block went backwards; such a block is ignored.",
    ["endpoint"],
    registry=REGISTRY,
)
STALLED = Gauge(
    "oracle_chain_stalled",
    "1 while no endpoint returns a new block for ten block times (at least a minute).",
    registry=REGISTRY,
)
NEW_HEADS = Counter(
    "oracle_new_heads_total", "New blocks announced by the websocket.", registry=REGISTRY
)
WEBSOCKET_FAILURES = Counter(
    "oracle_websocket_failures_total",
    "Websocket connections that ended, by reason: closed, refused, silent.",
    ["reason"],
    registry=REGISTRY,
)


def init_endpoint_metrics(endpoint: str) -> None:
    """Start an endpoint's metrics at zero, so that alerts see the first increase."""
    QUARANTINED.labels(endpoint).set(0)
    PROVEN_WRONG.labels(endpoint).set(0)
    for check in CHECKS:
        INCONSISTENT.labels(endpoint, check)
