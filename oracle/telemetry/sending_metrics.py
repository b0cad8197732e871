"""What keeps a transaction from being paid for: caps, attempts, budgets, ether."""

from prometheus_client import Gauge

from oracle.telemetry.metrics import REGISTRY

# `account` is the role of the key: transmitter or dispatcher.
FEE_CAPPED = Gauge(
    "oracle_publisher_fee_capped",
    "1 while a transaction waits and a cap forbids to pay 10 % more for it.",
    ["account"],
    registry=REGISTRY,
)
ATTEMPTS_EXHAUSTED = Gauge(
    "oracle_publisher_attempts_exhausted",
    "1 while a transaction waits for which limits.max_attempts were signed.",
    ["account"],
    registry=REGISTRY,
)
BUDGET_USED = Gauge(
    "oracle_publisher_budget_used_ratio",
    "Share of the limit of an hour or a day that is spent or reserved.",
    ["account", "window"],
    registry=REGISTRY,
)
TOO_BIG = Gauge(
    "oracle_publisher_too_big",
    "1 while a call waits that takes more gas than a block has.",
    ["account"],
    registry=REGISTRY,
)
