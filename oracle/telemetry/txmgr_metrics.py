"""Metrics of sending that the database does not contain: fees, broadcasts and reorgs.

Values that can be counted from the outbox are in `outbox_metrics.py`, because a restart would
reset them if they were counted here.
"""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

BASE_FEE = Gauge(
    "oracle_txmgr_base_fee_wei",
    "Base fee of the next block, in wei, when a transaction was last priced.",
    registry=REGISTRY,
)
TIP = Gauge(
    "oracle_txmgr_tip_wei",
    "Priority fee, in wei, when a transaction was last priced: the median of the recent blocks "
    "by gas, or the configured minimum.",
    registry=REGISTRY,
)
FEE_CAP = Gauge(
    "oracle_txmgr_fee_cap_wei",
    "Maximum price of a unit of gas, in wei: limits.max_fee_per_gas_wei.",
    registry=REGISTRY,
)


BROADCASTS = Counter(
    "oracle_txmgr_broadcasts_total",
    "Broadcasts of signed transactions to one endpoint, by result: sent, already, underpriced, "
    "ambiguous, unknown …",
    ["endpoint", "result"],
    registry=REGISTRY,
)
UNDECIDED = Gauge(
    "oracle_txmgr_nonces_without_agreement",
    "Nonces that are old enough to be final, but on whose outcome too few witnesses agree.",
    ["account"],
    registry=REGISTRY,
)
WITHOUT_RECEIPT = Gauge(
    "oracle_txmgr_nonces_without_receipt",
    "Nonces used at the final block without a receipt of this daemon's transactions: receipts "
    "are missing, or too few endpoints show whose transaction it was.",
    ["account"],
    registry=REGISTRY,
)
FOREIGN = Counter(
    "oracle_txmgr_foreign_nonces_total",
    "Nonces of this daemon's keys used by a transaction that it did not sign, as confirmed by "
    "enough endpoints.",
    registry=REGISTRY,
)
TAKEN_BACK = Counter(
    "oracle_txmgr_reorged_transactions_total",
    "Mined transactions removed by a reorg; the same signed bytes are broadcast again.",
    registry=REGISTRY,
)
WITHOUT_EFFECT = Counter(
    "oracle_txmgr_missing_effect_total",
    "Finalized transactions that succeeded without their expected event.",
    registry=REGISTRY,
)


# The label `account` is the role of the key, which is `transmitter` or `dispatcher`.
FEE_CAPPED = Gauge(
    "oracle_txmgr_fee_capped",
    "1 while a transaction is pending and its fee cannot be bumped by 10 %, because of a cap in "
    "[limits] or the account's balance.",
    ["account"],
    registry=REGISTRY,
)
ATTEMPTS_EXHAUSTED = Gauge(
    "oracle_txmgr_attempts_exhausted",
    "1 while a transaction is pending that has used limits.max_attempts; it is only broadcast "
    "again.",
    ["account"],
    registry=REGISTRY,
)
BUDGET_USED = Gauge(
    "oracle_txmgr_budget_used_ratio",
    "Share of the hourly or daily budget that is spent or reserved, 0 to 1.",
    ["account", "window"],
    registry=REGISTRY,
)
TOO_BIG = Gauge(
    "oracle_txmgr_over_block_gas",
    "1 while a call waits that needs more gas than the block gas limit.",
    ["account"],
    registry=REGISTRY,
)
