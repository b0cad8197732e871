"""The section `[limits]`: what may be spent, and how sure a receipt must be."""

from pydantic import Field

from oracle.settings.section import Section


class Limits(Section):
    max_fee_per_gas_wei: int = Field(default=200 * 10**9, ge=1)
    max_cost_per_transaction_wei: int = Field(default=10**17, ge=1)
    max_cost_per_day_wei: int = Field(default=10**18, ge=1)
    # Blocks on top of the receipt's before a transaction counts as final.
    confirmations: int = Field(default=12, ge=1)
