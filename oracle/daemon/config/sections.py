"""The base class of all settings sections, and the sections without a module of their own."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
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
from typing_extensions import override

from oracle.chain.hex_names import parse_address
from oracle.daemon.config.redaction import SECRET, SecretText, is_secret_setting

if TYPE_CHECKING:
    from oracle.rpc.transport import HttpAccess


class Section(BaseModel):
    """A settings section that rejects unknown keys, is immutable, and hides input in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @override
    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Return the fields for `repr`, without the secret settings."""
        fields = type(self).model_fields
        public_names = {name for name, setting in fields.items() if not is_secret_setting(setting)}
        return ((name, value) for name, value in super().__repr_args__() if name in public_names)


def _check_http_url(value: str) -> str:
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        raise ValueError("expected an http:// or https:// URL")
    return value


def split_list(value: object) -> object:
    """Split a list that is written as `a,b` in the environment; return other values unchanged."""
    return value.split(",") if isinstance(value, str) else value


Label = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[\w][\w .:#/@+-]*$")]
ContractAddress = Annotated[str, AfterValidator(parse_address)]
# URLs may contain keys.
SecretUrl = Annotated[str, AfterValidator(_check_http_url), SECRET]
# A list in TOML, `a,b` in the environment.
SecretUrls = Annotated[tuple[SecretUrl, ...], NoDecode, BeforeValidator(split_list)]


class DatabaseSection(Section):
    # `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`. A relative FILE is resolved
    # against the folder of the configuration file; in an environment variable, against the current
    # folder.
    url: SecretText = Field(min_length=1)


class LimitsSection(Section):
    # The highest fee per gas of any transaction, in wei.
    max_fee_per_gas_wei: int = Field(default=200 * 10**9, ge=1)
    # The highest cost of any transaction, in wei.
    max_cost_per_transaction_wei: int = Field(default=10**17, ge=1)
    # The highest cost of all transactions of an hour, in wei, including bumps, no-ops and open
    # ones.
    max_cost_per_hour_wei: int = Field(default=3 * 10**17, ge=1)
    # The highest cost of all transactions of 24 hours for each sending account, in wei.
    max_cost_per_day_wei: int = Field(default=10**18, ge=1)
    # The lowest priority fee that is offered, in wei; Polygon requires 30 gwei.
    min_tip_wei: int = Field(default=0, ge=0)
    # `optimism` or `arbitrum`: the rollup's fees beside gas, for data and for its operator, are
    # included in the cost.
    l1_fee: Literal["none", "optimism", "arbitrum"] = "none"
    # Blocks after which an unconfirmed transaction gets a fee bump; `limits.bump_seconds` must
    # have passed, too.
    bump_blocks: int = Field(default=3, ge=1)
    # Seconds of the chain's time after which an unconfirmed transaction gets a fee bump;
    # `limits.bump_blocks` must have passed, too.
    bump_seconds: int = Field(default=30, ge=0)
    # The maximum number of transactions signed for one nonce; then the best one is only resent.
    max_attempts: int = Field(default=10, ge=1, le=100)
    # The transmitter's maximum number of nonces that are not final; no further nonce is used
    # meanwhile.
    max_in_flight: int = Field(default=64, ge=1, le=1000)
    # Blocks above a receipt before it counts as final, in addition to finality.
    confirmations: int = Field(default=12, ge=1)


class NetworkSection(Section):
    # The profile that decodes the contracts: `reference`, `crynux-vss`, `crynux-commit`,
    # `crynux-staking`, or the path of your own `.toml` file (docs/how-to/add-a-network.md).
    profile: str = "reference"
    # Contract name to address: `{ TaskNetwork = "0x…" }`; contracts whose address the profile
    # contains may be left out.
    contracts: dict[str, ContractAddress] = Field(default_factory=dict)
    # Options that override the profile's own: `{ blame_missing_upload = false }`.
    options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)
    # Labels of addresses, shown on the pages and in the read API, and found by the search: `{
    # "0x…" = "rack 3" }`.
    labels: dict[ContractAddress, Label] = Field(default_factory=dict)


class TracingSection(Section):
    # The collector of the daemon's traces (OTLP over HTTP, `http://127.0.0.1:4318/v1/traces`);
    # left out: no traces. Needs the extra `otel`.
    endpoint: SecretUrl | None = None


class ReportersSection(Section):
    # URLs at which the other reporters publish their signatures; keys in the URLs are never shown.
    # Needed to transmit if the quorum is above one.
    peers: SecretUrls = Field(default=(), max_length=64)
    # Client certificate (PEM) for peers that require mTLS.
    certificate: Path | None = None
    # The key of `reporters.certificate` (PEM, mode 600).
    certificate_key: Path | None = None
    # Trusted certificate authorities of the peers (PEM); left out: the system's.
    ca_file: Path | None = None
    # Seconds between two requests to the peers while a round is open and signatures are missing.
    poll_seconds: float = Field(default=2.0, gt=0, le=600)
    # Timeout of a request to a peer, in seconds; all peers are requested at once.
    timeout_seconds: float = Field(default=2.0, gt=0, le=30)
    # This transmitter's rank among several: rank 0 sends at once, the others wait.
    transmit_rank: int = Field(default=0, ge=0, le=100)
    # Seconds of the chain's time, times the rank, that a push waits for lower ranks.
    transmit_delay_seconds: int = Field(default=60, ge=1, le=3600)
    # Blocks, times the rank, that a push and every kickout call wait for lower ranks.
    transmit_delay_blocks: int = Field(default=5, ge=1, le=1000)

    @property
    def http_access(self) -> "HttpAccess | None":
        """Client certificate and trusted authorities for the peers; None for system defaults."""
        if self.certificate is None and self.ca_file is None:
            return None
        from oracle.rpc.transport import HttpAccess  # noqa: PLC0415  no setting opens connections

        certificate = None
        if self.certificate is not None and self.certificate_key is not None:
            certificate = (str(self.certificate), str(self.certificate_key))
        ca_file = None if self.ca_file is None else str(self.ca_file)
        return HttpAccess(certificate=certificate, ca_file=ca_file)

    @property
    def head_start_seconds(self) -> int:
        """The head start given to transmitters of a lower rank, in seconds of the chain's time."""
        return self.transmit_rank * self.transmit_delay_seconds

    @property
    def head_start_blocks(self) -> int:
        """The head start given to transmitters of a lower rank, in blocks."""
        return self.transmit_rank * self.transmit_delay_blocks


def find_reporter_faults(reporters: ReportersSection) -> list[str]:
    """Return the conflicts between settings of `[reporters]`, one line each."""
    if (reporters.certificate is None) != (reporters.certificate_key is None):
        return ["reporters.certificate and reporters.certificate_key: give both or none"]
    return []
