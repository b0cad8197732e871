"""The settings of `qos-oracle gateway`: a file of its own (docs/how-to/run-a-gateway.md).

It has no keys. The token that guards the service stands in a file, or in the environment.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from typing_extensions import override

from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckRules, Unchecked
from oracle.daemon.config.listener_section import ListenerSection
from oracle.daemon.config.loader import (
    LogLines,
    complaint,
    fault_line,
    read_toml,
    resolve_relative_to_config,
)
from oracle.daemon.config.redaction import SecretText, secret_parts, secret_values
from oracle.daemon.config.sections import SecretUrl, Section
from oracle.daemon.web.listener import Listener, ListenerLimits
from oracle.errors import InputError
from oracle.signing.keystore import refuse_readable_by_others
from oracle.systems.pocket.parameters import PORTAL_API_HEAD, ArticleParameters
from oracle.telemetry.safe_text import hide

TOKEN_VARIABLE = "QOS_GATEWAY_TOKEN"  # noqa: S105  the name of a variable
LEAST_TOKEN = 16
MOST_BODY = 1024 * 1024
# Each of them is answered in the server's loop, without a thread.
_MOST_ANSWERS = 1024


class GatewaySection(ListenerSection):
    # For `/v1/outcomes`, `/v1/select` and the others; 0 takes any free port.
    port: int = Field(default=8091, ge=0, le=65_535)
    # The file (mode 600) with the token that requests bear; without it the environment's
    # `QOS_GATEWAY_TOKEN` counts.
    token_file: Path | None = None
    # Requests of one address, on average; five seconds' worth at once.
    requests_per_second: float = Field(default=10_000.0, gt=0, le=1_000_000)

    @property
    def listener(self) -> Listener:
        """Where the gateway is answered."""
        plain = self._listener("gateway", self.port)
        limits = ListenerLimits(
            connections=plain.limits.connections,
            per_address=plain.limits.per_address,
            header_timeout_seconds=plain.limits.header_timeout_seconds,
            response_timeout_seconds=plain.limits.response_timeout_seconds,
            requests_per_second=plain.limits.requests_per_second,
            body_bytes=MOST_BODY,
            most_answers=_MOST_ANSWERS,
        )
        return Listener(plain.section, plain.host, plain.port, limits, plain.tls)


class GatewayDatabase(Section):
    # `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`; never a daemon's.
    url: SecretText = Field(min_length=1)


class PolicySection(Section):
    # Whose rules: `article`, or `portal_api_head`, which has its own numbers
    # (docs/explanation/pocket.md).
    profile: Literal["article", "portal_api_head"] = "article"
    # Outcomes count for so long.
    window_ms: int = Field(default=300_000, ge=1000, le=3_600_000)
    # Each failure takes a node out for so long, one after the other.
    out_ms_per_failure: int = Field(default=6_000, ge=1, le=3_600_000)
    # No node is out for longer.
    out_cap_ms: int = Field(default=300_000, ge=1, le=3_600_000)
    # A ranking stands for so long; 0: each selection ranks anew.
    ranking_ms: int = Field(default=100, ge=0, le=10_000)
    # Where nobody passes the checks: `all` draws from all, marked as degraded, `refuse` from
    # nobody.
    fallback: Literal["all", "refuse"] = "all"

    @property
    def rules(self) -> GatewayRules:
        """The numbers of a selection.

        Raises:
            ValueError: they cannot stand together.
        """
        if self.profile == "portal_api_head":
            return GatewayRules(params=PORTAL_API_HEAD, ranking_ms=self.ranking_ms)
        params = ArticleParameters(
            window_ms=self.window_ms,
            out_ms_per_failure=self.out_ms_per_failure,
            out_cap_ms=self.out_cap_ms,
        )
        return GatewayRules(params=params, ranking_ms=self.ranking_ms)


class StakesSection(Section):
    # The database of a `qos-oracle run` that follows the network: who is a member there is
    # staked. Read only; checks with `stake = "daemon"` need it.
    database_url: SecretText | None = Field(default=None, min_length=1)
    # Between two looks at it.
    every_seconds: float = Field(default=30.0, ge=1, le=3600)


class ChecksSection(Section):
    # The chain that nodes must serve: what `eth_chainId` has to answer.
    chain_id: int = Field(ge=1, lt=2**63)
    # Address of each node, by its name in outcomes and candidates.
    urls: dict[str, SecretUrl] = Field(min_length=1, max_length=10_000)
    # Between two rounds.
    every_seconds: float = Field(default=60.0, ge=1, le=3600)
    # More by chance, as a share of it: not every gateway asks at the same time.
    jitter: float = Field(default=0.1, ge=0, le=1)
    # How long an answer may take to begin.
    timeout_seconds: float = Field(default=4.0, gt=0, le=60)
    # Nodes that are asked at the same time.
    most_at_once: int = Field(default=24, ge=1, le=256)
    # Blocks that a node may be behind the best, or ahead of it.
    allowance: int = Field(default=5, ge=0, le=1_000_000)
    # `daemon`: only nodes that are staked by `[stakes]` are candidates; `none`: not looked at.
    stake: Literal["none", "daemon"] = "none"
    # A node that was not checked yet, or too long ago: `allow` or `refuse`.
    unchecked: Unchecked = Unchecked.ALLOW


class GatewayConfig(Section):
    """Every setting, checked. The attributes are the sections of the file."""

    gateway: GatewaySection = GatewaySection()
    database: GatewayDatabase
    policy: PolicySection = PolicySection()
    stakes: StakesSection = StakesSection()
    checks: dict[str, ChecksSection] = Field(default_factory=dict)
    log: LogLines = LogLines()

    @override
    def __repr__(self) -> str:
        return "GatewayConfig(...)"

    def check_rules(self, chain: str) -> CheckRules:
        """Return what is asked of the nodes of one chain."""
        told = self.checks[chain]
        return CheckRules(
            chain_id=told.chain_id,
            allowance=told.allowance,
            needs_stake=told.stake == "daemon",
            unchecked=told.unchecked,
            all_where_none_passes=self.policy.fallback == "all",
        )


def load_gateway(path: Path) -> GatewayConfig:
    """Read the file.

    Raises:
        InputError: one line for each fault; or it holds a secret, and others may read it.
    """
    written = read_toml(path)
    resolve_relative_to_config(path, written, "database", "url")
    resolve_relative_to_config(path, written, "stakes", "database_url")
    try:
        config = GatewayConfig.model_validate(written)
    except ValidationError as error:
        faults = [fault_line(one["loc"], one["type"], one["msg"]) for one in error.errors()]
        raise InputError(complaint(path, faults)) from None
    faults = _disagreements(config)
    if faults:
        raise InputError(complaint(path, faults))
    secrets = list(secret_parts(secret_values(config)))
    if secrets:
        refuse_readable_by_others(path)
    for part in secrets:
        hide(part)
    return config


def token_of(section: GatewaySection, environ: Mapping[str, str] = os.environ) -> str:
    """Return the token that requests must bear; it is in no log from now on.

    Raises:
        InputError: there is none, it is too short, or others may read its file.
    """
    path = section.token_file
    place = TOKEN_VARIABLE if path is None else str(path)
    try:
        if path is None:
            token = environ.get(TOKEN_VARIABLE, "")
        else:
            refuse_readable_by_others(path)
            token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise InputError(f"gateway.token_file: {path}: {why}") from None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"{place}: holds no token of {LEAST_TOKEN} or more printable characters; make one "
            "with `openssl rand -hex 32`"
        )
    hide(token)
    return token


def _disagreements(config: GatewayConfig) -> list[str]:
    told, faults = config.gateway, []
    try:
        _ = config.policy.rules
    except ValueError as error:
        faults.append(f"policy.{error}")
    if (told.certificate is None) != (told.certificate_key is None):
        faults.append("gateway.certificate and gateway.certificate_key: give both or none")
    if told.client_ca_file is not None and told.certificate is None:
        faults.append("gateway.client_ca_file: needs gateway.certificate")
    faults += [
        f"checks.{name}.stake: needs stakes.database_url"
        for name, one in config.checks.items()
        if one.stake == "daemon" and config.stakes.database_url is None
    ]
    if config.database.url == config.stakes.database_url:
        faults.append("database.url and stakes.database_url: are the same; name one of its own")
    return faults
