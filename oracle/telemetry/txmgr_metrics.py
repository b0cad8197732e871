"""Metrics of sending that leave no row: fees, broadcasts, responses, and reorgs.

Figures with a row in the outbox are recounted from it (telemetry/outbox_metrics.py) instead of
being counted here, because a restart would reset them.
"""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

BASE_FEE = Gauge(
    "oracle_txmgr_base_fee_wei",
    "Base fee of the next block, when a transaction was last priced.",
    registry=REGISTRY,
)
TIP = Gauge(
    "oracle_txmgr_tip_wei",
    "Tip that half of the last blocks' gas paid, or our least one, at the same moment.",
    registry=REGISTRY,
)
FEE_CAP = Gauge(
    "oracle_txmgr_fee_cap_wei",
    "Most that a unit of gas may cost us: limits.max_fee_per_gas_wei.",
    registry=REGISTRY,
)


BROADCASTS = Counter(
    "oracle_txmgr_broadcasts_total",
    "Sends of signed bytes to one endpoint, by what it made of them: sent, already, "
    "underpriced, ambiguous, unknown …",
    ["endpoint", "result"],
    registry=REGISTRY,
)
UNDECIDED = Gauge(
    "oracle_txmgr_nonces_without_agreement",
    "Nonces that would be final, but too few witnesses agree on how.",
    ["account"],
    registry=REGISTRY,
)
WITHOUT_RECEIPT = Gauge(
    "oracle_txmgr_nonces_without_receipt",
    "Nonces that the final block counts as used, while no endpoint shows a receipt of"
    " ours: receipts are hidden, or too few show whose transaction it was.",
    ["account"],
    registry=REGISTRY,
)
FOREIGN = Counter(
    "oracle_txmgr_foreign_nonces_total",
    "Nonces of our key that a transaction used which we did not sign, as enough "
    "endpoints show it.",
    registry=REGISTRY,
)
TAKEN_BACK = Counter(
    "oracle_txmgr_reorged_transactions_total",
    "Mined transactions that a reorganisation took back; the same bytes are sent again.",
    registry=REGISTRY,
)
WITHOUT_EFFECT = Counter(
    "oracle_txmgr_missing_effect_total",
    "Final transactions that succeeded without the event that they were sent for.",
    registry=REGISTRY,
)


# `account` is the role of the key: transmitter or dispatcher.
FEE_CAPPED = Gauge(
    "oracle_txmgr_fee_capped",
    "1 while a transaction waits and a cap of [limits], or our ether, forbids to pay "
    "10 % more for it.",
    ["account"],
    registry=REGISTRY,
)
ATTEMPTS_EXHAUSTED = Gauge(
    "oracle_txmgr_attempts_exhausted",
    "1 while a transaction waits for which limits.max_attempts were signed; they are "
    "only sent again.",
    ["account"],
    registry=REGISTRY,
)
BUDGET_USED = Gauge(
    "oracle_txmgr_budget_used_ratio",
    "Share of the limit of an hour or a day that is spent or reserved.",
    ["account", "window"],
    registry=REGISTRY,
)
TOO_BIG = Gauge(
    "oracle_txmgr_over_block_gas",
    "1 while a call waits that takes more gas than a block has.",
    ["account"],
    registry=REGISTRY,
)
