"""What every section of the settings is made of, and those that have no file of their own."""

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
from oracle.daemon.config.redaction import SECRET, SecretText, is_secret

if TYPE_CHECKING:
    from oracle.rpc.transport import HttpAccess


class Section(BaseModel):
    """Refuses what it does not know, never changes, never shows what was written in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @override
    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Leave secret settings out."""
        fields = type(self).model_fields
        shown = {name for name, setting in fields.items() if not is_secret(setting)}
        return ((name, value) for name, value in super().__repr_args__() if name in shown)


def _http_url(value: str) -> str:
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        raise ValueError("an endpoint is an http:// or https:// address")
    return value


def split_list(value: object) -> object:
    """Let the environment write a list as `a,b`."""
    return value.split(",") if isinstance(value, str) else value


Label = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[\w][\w .:#/@+-]*$")]
ContractAddress = Annotated[str, AfterValidator(parse_address)]
# Keys may be part of an address.
SecretUrl = Annotated[str, AfterValidator(_http_url), SECRET]
# In TOML a list, in the environment `a,b`.
SecretUrls = Annotated[tuple[SecretUrl, ...], NoDecode, BeforeValidator(split_list)]


class Database(Section):
    # `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`. A relative FILE lies beside the
    # configuration file; in an environment variable it is relative to the current folder.
    url: SecretText = Field(min_length=1)


class LimitsSection(Section):
    # No transaction pays more per gas.
    max_fee_per_gas_wei: int = Field(default=200 * 10**9, ge=1)
    # No transaction can cost more.
    max_cost_per_transaction_wei: int = Field(default=10**17, ge=1)
    # All transactions of an hour together cost no more, bumps, no-ops and what is still open
    # included.
    max_cost_per_hour_wei: int = Field(default=3 * 10**17, ge=1)
    # All transactions of 24 hours together cost no more, for each account that sends.
    max_cost_per_day_wei: int = Field(default=10**18, ge=1)
    # The least tip that is offered; Polygon asks for 30 gwei.
    min_tip_wei: int = Field(default=0, ge=0)
    # `optimism` or `arbitrum`: what the rollup takes beside gas, for data and for its
    # operator, is counted in.
    l1_fee: Literal["none", "optimism", "arbitrum"] = "none"
    # Blocks after which a transaction that waits gets a fee bump; `limits.bump_seconds`
    # must have passed, too.
    bump_blocks: int = Field(default=3, ge=1)
    # Seconds of the chain's time after which a transaction that waits gets a fee bump;
    # `limits.bump_blocks` must have passed, too.
    bump_seconds: int = Field(default=30, ge=0)
    # Transactions signed for one nonce at most; then the best is only sent again.
    max_attempts: int = Field(default=10, ge=1, le=100)
    # Nonces of the transmitter that are not final; then no new one is opened.
    max_in_flight: int = Field(default=64, ge=1, le=1000)
    # Blocks on top of a receipt before it counts as final, beside finality.
    confirmations: int = Field(default=12, ge=1)


class NetworkSection(Section):
    # How the contracts speak: `reference`, `crynux-vss`, `crynux-commit`, `crynux-staking`, or the
    # path of a file of your own that ends in `.toml` (docs/how-to/add-a-network.md).
    profile: str = "reference"
    # Contract name to address: `{ TaskNetwork = "0x…" }`; may leave out those whose address
    # the profile knows.
    contracts: dict[str, ContractAddress] = Field(default_factory=dict)
    # Options of the profile that are not to be as it has them: `{ blame_missing_upload =
    # false }`.
    options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)
    # Names of addresses, shown on the pages and in the read API, and found by the search:
    # `{ "0x…" = "rack 3" }`.
    labels: dict[ContractAddress, Label] = Field(default_factory=dict)


class TracingSection(Section):
    # A collector that takes traces of the daemon's steps (OTLP over HTTP,
    # `http://127.0.0.1:4318/v1/traces`); none: none are made. Needs the extra `otel`.
    endpoint: SecretUrl | None = None


class ReportersSection(Section):
    # Where the other reporters show what they signed; keys in the addresses are never shown.
    # Needed to transmit where the quorum is above one.
    peers: SecretUrls = Field(default=(), max_length=64)
    # Client certificate (PEM) for those of them that ask for one: mTLS.
    certificate: Path | None = None
    # Its key (PEM, mode 600).
    certificate_key: Path | None = None
    # Who may vouch for them (PEM); none: the system's.
    ca_file: Path | None = None
    # Between two looks at them, while a round is open and signatures are missing.
    poll_seconds: float = Field(default=2.0, gt=0, le=600)
    # How long one of them may take; all are asked at once.
    timeout_seconds: float = Field(default=2.0, gt=0, le=30)
    # Of several who transmit: 0 sends at once, the others wait.
    transmit_rank: int = Field(default=0, ge=0, le=100)
    # How long a reporter waits for those before it, times its rank, in the chain's time,
    # with a push.
    transmit_delay_seconds: int = Field(default=60, ge=1, le=3600)
    # How many blocks it waits, times its rank, with a push and with every call about a
    # kickout.
    transmit_delay_blocks: int = Field(default=5, ge=1, le=1000)

    @property
    def access(self) -> "HttpAccess | None":
        """Who we are to them, and who they must be; None: as anybody on the web."""
        if self.certificate is None and self.ca_file is None:
            return None
        from oracle.rpc.transport import HttpAccess  # noqa: PLC0415  no setting opens connections

        certificate = None
        if self.certificate is not None and self.certificate_key is not None:
            certificate = (str(self.certificate), str(self.certificate_key))
        ca_file = None if self.ca_file is None else str(self.ca_file)
        return HttpAccess(certificate=certificate, ca_file=ca_file)

    @property
    def head_start(self) -> int:
        """Seconds of the chain that we leave to those of a lower rank."""
        return self.transmit_rank * self.transmit_delay_seconds

    @property
    def blocks_ahead(self) -> int:
        """Blocks that we leave to them."""
        return self.transmit_rank * self.transmit_delay_blocks


def faults_in_reporters(reporters: ReportersSection) -> list[str]:
    """Return what cannot stand together in `[reporters]`, in one line each."""
    if (reporters.certificate is None) != (reporters.certificate_key is None):
        return ["reporters.certificate and reporters.certificate_key: give both or none"]
    return []
