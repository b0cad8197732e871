"""The base class of all configuration sections, and the sections without their own module."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
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
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode
from typing_extensions import override

from oracle.chain.hex_names import parse_address
from oracle.daemon.config.redaction import SECRET, SecretText, is_secret_setting
from oracle.domain.ids import Address
from oracle.notify.notice_kinds import SELECTABLE_KINDS

if TYPE_CHECKING:
    from oracle.notify.subscriptions import SubscriptionTerms
    from oracle.rpc.transport import HttpAccess


class Section(BaseModel):
    """An immutable section of settings that rejects unknown keys and hides input in errors."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _reject_boolean_as_number(cls, value: object, setting: ValidationInfo) -> object:
        """Reject true and false as numbers, which pydantic would convert to 1 and 0."""
        annotation = cls.model_fields[setting.field_name or ""].annotation
        if isinstance(value, bool) and {int, float} & {annotation, *get_args(annotation)}:
            raise ValueError("expected a number, not true or false")
        return value

    @override
    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Return the fields for `repr` without the secret settings."""
        fields = type(self).model_fields
        public_names = {name for name, setting in fields.items() if not is_secret_setting(setting)}
        return ((name, value) for name, value in super().__repr_args__() if name in public_names)


def check_http_url(value: str) -> str:
    """Return the URL unchanged; raise ValueError if it is not an http or https URL."""
    if urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname:
        raise ValueError("expected an http:// or https:// URL")
    return value


def find_incomplete_pair_faults(
    section_name: str, section: Section, first: str, second: str
) -> list[str]:
    """Return a message if only one of two paired settings is set."""
    if (getattr(section, first) is None) == (getattr(section, second) is None):
        return []
    return [f"{section_name}.{first} and {section_name}.{second}: set both or neither"]


def split_comma_separated(value: object) -> object:
    """Split a comma-separated string into a list; return other values unchanged."""
    return value.split(",") if isinstance(value, str) else value


# A block explorer's URL, to which `/tx/0x…` or `/address/0x…` is appended.
ExplorerUrl = Annotated[
    str, AfterValidator(check_http_url), AfterValidator(lambda url: url.rstrip("/"))
]
# The operator's contact, which the pages show as a link.
ContactUrl = Annotated[str, Field(max_length=200, pattern=r"^(https://|mailto:)[^\s\"'<>]+$")]
# The length is limited outside the pattern, because each command would spend 11 ms to compile a
# bounded repetition of the Unicode class `\w`.
_LABEL_PATTERN, _MAX_LABEL_LENGTH = r"^\w[\w .:#/@+-]*$", 32
Label = Annotated[str, Field(max_length=_MAX_LABEL_LENGTH, pattern=_LABEL_PATTERN)]
ContractAddress = Annotated[str, AfterValidator(parse_address)]
# URLs are secret, because they may contain keys.
SecretUrl = Annotated[str, AfterValidator(check_http_url), SECRET]
# A list in TOML, or `a,b` in an environment variable.
SecretUrls = Annotated[tuple[SecretUrl, ...], NoDecode, BeforeValidator(split_comma_separated)]
_SITE = re.compile(r"https?://[a-z0-9.:\[\]-]+")
_MAIL_SCHEMES = ("mailto://", "mailtos://")


def _read_address_labels(path: Path) -> dict[str, str]:
    """Read a file of address labels, and return the labels by address.

    Raises:
        ValueError: the file cannot be read, or a line is invalid; the message contains the number
            of the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the file is not UTF-8 text"
        raise ValueError(f"labels_file: {path}: cannot be read: {reason}") from None
    label_by_address: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        address_text, _, label = line.strip().partition(" ")
        try:
            address = parse_address(address_text)
        except ValueError as error:
            raise ValueError(f"labels_file: {path}, line {number}: {error}") from None
        label = label.strip()
        is_label = len(label) <= _MAX_LABEL_LENGTH and re.match(_LABEL_PATTERN, label)
        if address in label_by_address or not is_label:
            fault = (
                f"{address} has two labels"
                if address in label_by_address
                else "expected an address, a space, and a label of up to 32 letters, digits, "
                "spaces and .:#/@+-"
            )
            raise ValueError(f"labels_file: {path}, line {number}: {fault}")
        label_by_address[address] = label
    return label_by_address


class DatabaseSection(Section):
    # `sqlite:///FILE` (four slashes for an absolute path) or `postgresql://USER@HOST/NAME`. Put a
    # URL with a password into the environment variable `QOS_ORACLE_DATABASE__URL`. A relative FILE
    # is resolved against the folder of the configuration file, or, if an environment variable has
    # the URL, against the working directory.
    url: SecretText = Field(min_length=1)


class LimitsSection(Section):
    # The maximum fee per gas of one transaction, in wei.
    max_fee_per_gas_wei: int = Field(default=200 * 10**9, ge=1)
    # The maximum cost of one transaction, in wei.
    max_cost_per_transaction_wei: int = Field(default=10**17, ge=1)
    # The maximum cost of all transactions in an hour, in wei, including bumps, no-ops and open
    # transactions.
    max_cost_per_hour_wei: int = Field(default=3 * 10**17, ge=1)
    # The maximum cost of all transactions in 24 hours, in wei, for each sending account.
    max_cost_per_day_wei: int = Field(default=10**18, ge=1)
    # The lowest priority fee that is offered, in wei; Polygon requires 30 gwei.
    min_tip_wei: int = Field(default=0, ge=0)
    # `optimism` or `arbitrum`: the rollup's additional fees, for data and for its operator, are
    # included in the cost.
    l1_fee: Literal["none", "optimism", "arbitrum"] = "none"
    # Blocks after which an unconfirmed transaction gets a fee bump; `limits.bump_seconds` must
    # have passed as well.
    bump_blocks: int = Field(default=3, ge=1)
    # Seconds of the chain's time after which an unconfirmed transaction gets a fee bump;
    # `limits.bump_blocks` must have passed as well.
    bump_seconds: int = Field(default=30, ge=0)
    # The maximum number of transactions that are signed for one nonce; after that, the transaction
    # with the highest fee is only sent again.
    max_attempts: int = Field(default=10, ge=1, le=100)
    # The maximum number of the transmitter's nonces that are not final; at this number no further
    # nonce is used.
    max_in_flight: int = Field(default=64, ge=1, le=1000)
    # Number of blocks above a receipt, in addition to finality, before the receipt counts as
    # final. If it exceeds `chain.finality_depth`, the excess is counted below the final block.
    confirmations: int = Field(default=12, ge=1, le=1_000_000)


class NetworkSection(Section):
    # The profile that decodes the contracts: `reference`, `crynux-vss`, `crynux-commit`,
    # `crynux-staking`, or the path of your own `.toml` file (docs/how-to/add-a-network.md).
    profile: str = "reference"
    # The address of each contract, by its name: `{ TaskNetwork = "0x…" }`. You can omit contracts
    # whose address the profile contains.
    contracts: dict[str, ContractAddress] = Field(default_factory=dict)
    # Options that override the profile's own: `{ blame_missing_upload = false }`.
    options: dict[str, StrictBool | StrictInt | StrictStr] = Field(default_factory=dict)
    # Labels of addresses, which are shown in the web UI and the read API, and can be searched for:
    # `{ "0x…" = "rack 3" }`.
    labels: dict[ContractAddress, Label] = Field(default_factory=dict)
    # A text file with more labels, one a line: an address, spaces, and the label. Lines that begin
    # with `#` are comments. A label in `network.labels` takes precedence.
    labels_file: Path | None = None
    # A block explorer to which the web UI links transactions and addresses:
    # `https://etherscan.io`. By default, there are no links.
    explorer: ExplorerUrl | None = None
    # Contact of the operator for node owners, shown on the page of each node:
    # `mailto:qos@example.org`, or an `https://` page. By default, the pages show no contact.
    contact: ContactUrl | None = None

    @property
    def label_by_address(self) -> dict[Address, str]:
        """The address labels from the settings and from the file."""
        return {Address(address): label for address, label in self.labels.items()}

    @model_validator(mode="before")
    @classmethod
    def _add_labels_of_file(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """Add the file's labels to `labels`; raise ValueError for an invalid line."""
        labels_path = settings.get("labels_file")
        labels = settings.get("labels", {})
        if not isinstance(labels_path, str | Path) or not isinstance(labels, dict):
            return settings
        own_addresses = {str(address).lower() for address in labels}
        file_labels = {
            address: label
            for address, label in _read_address_labels(Path(labels_path)).items()
            if address not in own_addresses
        }
        return {**settings, "labels": file_labels | labels}


class TracingSection(Section):
    # The collector of the daemon's traces (OTLP over HTTP, `http://127.0.0.1:4318/v1/traces`); by
    # default, no traces are sent. Needs the extra `otel`.
    endpoint: SecretUrl | None = None


class ReportersSection(Section):
    # URLs at which the other reporters publish their signatures. Logs and commands never show keys
    # in these URLs. A transmitter needs this setting if the quorum is larger than one.
    peers: SecretUrls = Field(default=(), max_length=64)
    # Client certificate (PEM) for peers that require mTLS.
    certificate: Path | None = None
    # Private key of `reporters.certificate` (PEM, mode 600).
    certificate_key: Path | None = None
    # Trusted certificate authorities of the peers (PEM); by default, the system's authorities.
    ca_file: Path | None = None
    # Seconds between two requests to the peers while a round is open and signatures are missing.
    poll_seconds: float = Field(default=2.0, gt=0, le=600)
    # Timeout of a request to a peer, in seconds; all peers are queried in parallel.
    timeout_seconds: float = Field(default=2.0, gt=0, le=30)
    # The rank of this transmitter: rank 0 sends at once, and higher ranks wait.
    transmit_rank: int = Field(default=0, ge=0, le=100)
    # Seconds of chain time, multiplied by the rank, for which a push or a word of the hot set
    # waits for transmitters of lower rank.
    transmit_delay_seconds: int = Field(default=60, ge=1, le=3600)
    # Blocks, multiplied by the rank, for which a push, a kickout call or a word of the hot set
    # waits for transmitters of lower rank.
    transmit_delay_blocks: int = Field(default=5, ge=1, le=1000)

    @property
    def http_access(self) -> "HttpAccess | None":
        """The client certificate and trusted authorities for peers, or None if none are set."""
        if self.certificate is None and self.ca_file is None:
            return None
        from oracle.rpc.transport import HttpAccess  # noqa: PLC0415  no setting opens connections

        certificate_and_key = None
        if self.certificate is not None and self.certificate_key is not None:
            certificate_and_key = (str(self.certificate), str(self.certificate_key))
        ca_file = None if self.ca_file is None else str(self.ca_file)
        return HttpAccess(certificate=certificate_and_key, ca_file=ca_file)

    @property
    def head_start_seconds(self) -> int:
        """How long transmitters of a lower rank may go first, in seconds of chain time."""
        return self.transmit_rank * self.transmit_delay_seconds

    @property
    def head_start_blocks(self) -> int:
        """How long transmitters of a lower rank may go first, in blocks."""
        return self.transmit_rank * self.transmit_delay_blocks


def find_reporter_faults(reporters: ReportersSection) -> list[str]:
    """Return a message for each conflict between settings of `[reporters]`."""
    return find_incomplete_pair_faults("reporters", reporters, "certificate", "certificate_key")


def _check_notice_kind(name: str) -> str:
    if name not in SELECTABLE_KINDS:
        raise ValueError(f"expected one of {', '.join(sorted(SELECTABLE_KINDS))}")
    return name


class NotifySection(Section):
    # The target's name in commands, metrics and the log; delivery resumes by name when the URL
    # changes.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    # `https://…` is a webhook; any other address is a URL of Apprise (`mailto://…`, `slack://…`),
    # which needs the extra `notify`.
    url: SecretText = Field(min_length=1)
    # For webhooks: a file (mode 600) with the secret, of at least 16 characters, with which
    # messages are signed.
    secret_file: Path | None = None
    # The notices to deliver: kinds of notices, and conditions of the daemon's health
    # (docs/explanation/health.md). By default all notices are delivered.
    kinds: tuple[Annotated[str, AfterValidator(_check_notice_kind)], ...] = ()
    # Seconds between heartbeats, for a dead man's switch; by default no heartbeats are sent.
    heartbeat_seconds: float | None = Field(default=None, ge=1)
    # The nodes whose notices are delivered. By default the notices of all nodes are delivered, and
    # also those about reports and halts.
    nodes: tuple[ContractAddress, ...] = Field(default=(), max_length=1000)
    # For webhooks: timeout of a request, in seconds.
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    # For webhooks: allow addresses that are not public.
    allow_private: bool = False

    @property
    def is_webhook(self) -> bool:
        """Whether the daemon sends notices itself, without Apprise."""
        return self.url.startswith(("http://", "https://"))


class ShadowSection(Section):
    # The set's name in commands, in the read API and on pages.
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    # The JSON file of the rules, in the format of `rules show --json`. These rules do not have to
    # be announced.
    rules: Path


class MetricsSection(Section):
    # Whether to export QoS, reliability and exclusion of each member.
    nodes: bool = False
    # The maximum number of members with their own series; members with the most scores come first.
    # Each member has three series.
    max_nodes: int = Field(default=1000, ge=1, le=20_000)


def find_shadow_faults(shadow_sets: Sequence[ShadowSection]) -> list[str]:
    """Return a message for each conflict between settings of `[[shadow]]`."""
    return [
        f"shadow.name: {name} is the name of {count} sets; names must be unique"
        for name, count in Counter(shadow_set.name for shadow_set in shadow_sets).items()
        if count > 1
    ]


def find_notify_faults(targets: Sequence[NotifySection]) -> list[str]:
    """Return a message for each conflict between settings of `[[notify]]`."""
    faults = [
        f"notify.name: {name} is the name of {target_count} targets; names must be unique"
        for name, target_count in Counter(target.name for target in targets).items()
        if target_count > 1
    ]
    for target in targets:
        if target.is_webhook and target.secret_file is None:
            faults.append(f"notify.secret_file: missing; required for the webhook {target.name}")
        if not target.is_webhook and target.secret_file is not None:
            faults.append(
                f"notify.secret_file: only for webhooks, and {target.name} is none; remove it"
            )
    return faults


class SubscriptionsSection(Section):
    # Whether owners may subscribe to the notices of their node, by a signature of the node's key.
    # Requires `subscriptions.site`.
    enabled: bool = False
    # The address of your pages, as owners enter it (`https://qos.example.org`). Links in messages
    # begin with it, and it is part of the text that owners sign.
    site: str | None = None
    # The mail server for mails to owners, as a URL of Apprise
    # (`mailtos://user:password@smtp.example.org?from=qos@example.org`). By default, owners can
    # only register webhooks. Needs the extra `notify`.
    mail_url: SecretText | None = None
    # The maximum number of subscriptions of one node.
    max_per_node: int = Field(default=3, ge=1, le=100)
    # The maximum number of subscriptions in all.
    max_total: int = Field(default=1000, ge=1, le=100_000)
    # The maximum number of requests of one client address within an hour (IPv6: of one /64
    # network).
    requests_per_hour: int = Field(default=30, ge=1, le=10_000)
    # Days after which a subscription ends if every delivery failed.
    max_failing_days: int = Field(default=7, ge=1, le=365)
    # Whether webhooks without TLS (`http://`) may be registered.
    allow_http: bool = False
    # Whether webhooks may have an address that is not public, such as an address in your own
    # network.
    allow_private: bool = False

    @property
    def terms(self) -> "SubscriptionTerms | None":
        """The settings of subscriptions, or None if owners cannot subscribe."""
        if not self.enabled or self.site is None:
            return None
        # Imported here, because only processes that serve or notify need this module.
        from oracle.notify.subscriptions import SubscriptionTerms  # noqa: PLC0415

        return SubscriptionTerms(
            site=self.site,
            max_per_node=self.max_per_node,
            max_total=self.max_total,
            requests_per_hour=self.requests_per_hour,
            max_failing_days=self.max_failing_days,
            mail_url=self.mail_url,
            allow_http=self.allow_http,
            allow_private=self.allow_private,
        )


def find_subscription_faults(section: SubscriptionsSection) -> list[str]:
    """Return a message for each conflict between settings of `[subscriptions]`."""
    faults = []
    if section.enabled and section.site is None:
        faults.append("subscriptions.site: missing; subscriptions.enabled requires it")
    if section.site is not None and not _SITE.fullmatch(section.site):
        faults.append(
            "subscriptions.site: expected http(s)://, a host in lower case and an optional port, "
            "without a path"
        )
    if section.mail_url is not None and not section.mail_url.startswith(_MAIL_SCHEMES):
        faults.append("subscriptions.mail_url: expected mailto:// or mailtos://")
    return faults
