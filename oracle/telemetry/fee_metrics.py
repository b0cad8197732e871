"""What the chain asks for gas, beside the most that we pay for it."""

from prometheus_client import Gauge

from oracle.telemetry.metrics import REGISTRY

BASE_FEE = Gauge(
    "oracle_publisher_base_fee_wei",
    "Base fee of the next block, when a transaction was last priced.",
    registry=REGISTRY,
)
TIP = Gauge(
    "oracle_publisher_tip_wei",
    "Tip that half of the last blocks' gas paid, or our least one, at the same moment.",
    registry=REGISTRY,
)
FEE_CAP = Gauge(
    "oracle_publisher_fee_cap_wei",
    "Most that a unit of gas may cost us: limits.max_fee_per_gas_wei.",
    registry=REGISTRY,
)
