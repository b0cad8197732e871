"""What every section of the settings is made of, and those that have no file of their own."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_settings import NoDecode


class Section(BaseModel):
    """Refuses what it does not know, never changes, never shows what was written in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _address(value: str) -> str:
    if re.fullmatch(r"0x[0-9a-fA-F]{40}", value) is None:
        raise ValueError("an address is 0x and 40 hex digits")
    return value.lower()


def _http_url(value: str) -> str:
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        raise ValueError("an endpoint is an http:// or https:// address")
    return value


def _split(value: object) -> object:
    """Let the environment write a list as `a,b`."""
    return value.split(",") if isinstance(value, str) else value


ContractAddress = Annotated[str, AfterValidator(_address)]
Url = Annotated[str, AfterValidator(_http_url)]
# In TOML a list, in the environment `a,b`.
Urls = Annotated[tuple[Url, ...], NoDecode, BeforeValidator(_split)]


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


class NetworkSection(Section):
    # The name of a shipped profile, or the path of a file that ends in `.toml`.
    profile: str = "reference"
    # By their names in the profile; one whose address the profile knows may be left out.
    contracts: dict[str, ContractAddress] = Field(default_factory=dict)
    # Options of the profile that are not to be as it has them.
    options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)


class ReportersSection(Section):
    # Where the other reporters show what they signed.
    peers: Urls = Field(default=(), max_length=64, repr=False)
    # Between two looks at them, and how long one may take.
    poll_seconds: float = Field(default=2.0, gt=0, le=600)
    timeout_seconds: float = Field(default=2.0, gt=0, le=30)
    # Of several who transmit the first has rank 0; each waits so long for those before it.
    transmit_rank: int = Field(default=0, ge=0, le=100)
    transmit_delay_seconds: int = Field(default=60, ge=1, le=3600)
    # And so many blocks, whatever their time is.
    transmit_delay_blocks: int = Field(default=5, ge=1, le=1000)

    @property
    def head_start(self) -> int:
        """Seconds of the chain that we leave to those of a lower rank."""
        return self.transmit_rank * self.transmit_delay_seconds

    @property
    def blocks_ahead(self) -> int:
        """Blocks that we leave to them."""
        return self.transmit_rank * self.transmit_delay_blocks
