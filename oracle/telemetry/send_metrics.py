"""Metrics of what is sent and what became of it (docs/operating.md says what each is for)."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

BROADCASTS = Counter(
    "oracle_publisher_broadcasts_total",
    "Sends of signed bytes to one endpoint, by what it made of them.",
    ["endpoint", "result"],
    registry=REGISTRY,
)
UNDECIDED = Gauge(
    "oracle_publisher_undecided_nonces",
    "Nonces that would be final, but too few endpoints agree on how.",
    ["account"],
    registry=REGISTRY,
)
WITHOUT_RECEIPT = Gauge(
    "oracle_publisher_nonces_without_receipt",
    "Nonces that the final block counts as used, while no endpoint shows a receipt of ours.",
    ["account"],
    registry=REGISTRY,
)
FOREIGN = Counter(
    "oracle_publisher_foreign_nonces_total",
    "Nonces of our key that somebody else used.",
    registry=REGISTRY,
)
TAKEN_BACK = Counter(
    "oracle_publisher_reorged_transactions_total",
    "Mined transactions that a reorganisation took out of the chain.",
    registry=REGISTRY,
)
WITHOUT_EFFECT = Counter(
    "oracle_publisher_without_effect_total",
    "Final transactions that succeeded without the event that they were sent for.",
    registry=REGISTRY,
)
