"""The section `[limits]`: what may be spent, when to pay more, how sure a receipt must be."""

from typing import Literal

from pydantic import Field

from oracle.daemon.config.section import Section


class LimitsSection(Section):
    max_fee_per_gas_wei: int = Field(default=200 * 10**9, ge=1)
    max_cost_per_transaction_wei: int = Field(default=10**17, ge=1)
    max_cost_per_hour_wei: int = Field(default=3 * 10**17, ge=1)
    max_cost_per_day_wei: int = Field(default=10**18, ge=1)
    # The least tip that is offered; some chains ask for one (Polygon: 30 gwei).
    min_tip_wei: int = Field(default=0, ge=0)
    # What a rollup takes beside gas, for data and for its operator, and where it says so.
    l1_fee: Literal["none", "optimism", "arbitrum"] = "none"
    # A transaction that waits is replaced by a dearer one after both have passed.
    bump_blocks: int = Field(default=3, ge=1)
    bump_seconds: int = Field(default=30, ge=0)
    # Signed for one nonce at most; after that the best is only sent again.
    max_attempts: int = Field(default=10, ge=1, le=100)
    # Nonces of the transmitter that are not final yet.
    max_in_flight: int = Field(default=64, ge=1, le=1000)
    # Blocks on top of the receipt's before a transaction counts as final.
    confirmations: int = Field(default=12, ge=1)
