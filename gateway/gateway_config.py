"""Reads the settings of `qos-oracle gateway` from a file (docs/how-to/run-a-gateway.md).

This file is separate. The file contains no keys; the service's token is in another file or in the
environment.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from typing_extensions import override

from gateway.gateway_rules import GatewayRules
from gateway.node_checks import CheckRules, UncheckedPolicy
from oracle.daemon.config.listener_section import ListenerSection
from oracle.daemon.config.loader import (
    LogSection,
    format_fault,
    format_faults,
    read_toml,
    resolve_config_relative_path,
)
from oracle.daemon.config.redaction import SecretText, iter_secret_url_parts, iter_secret_values
from oracle.daemon.config.sections import SecretUrl, Section
from oracle.errors import InputError
from oracle.signing.keystore import check_private_file_mode
from oracle.systems.pocket.parameters import PORTAL_API_HEAD, ArticleParameters
from oracle.telemetry.safe_text import register_secret

TOKEN_VARIABLE = "QOS_GATEWAY_TOKEN"  # noqa: S105  the name of a variable
MIN_TOKEN_LENGTH = 16


class GatewaySection(ListenerSection):
    section_name = "gateway"
    body_bytes = 1024 * 1024
    # The limit is high, because requests are handled in the server's event loop and need no
    # threads.
    max_answers = 1024

    # Port of `/v1/outcomes`, `/v1/select` and the other paths; 0 uses any free port.
    port: int = Field(default=8091, ge=0, le=65_535)
    # The file (mode 600) with the token that requests must contain; by default the environment
    # variable `QOS_GATEWAY_TOKEN` is used.
    token_file: Path | None = None
    # Maximum average of requests per second from one address; a burst may contain the requests of
    # five seconds.
    requests_per_second: float = Field(default=10_000.0, gt=0, le=1_000_000)


class GatewayDatabase(Section):
    # `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`; it must not be a daemon's
    # database.
    url: SecretText = Field(min_length=1)


class PolicySection(Section):
    # The selection profile: `article`, or `portal_api_head`, which has its own parameters
    # (docs/explanation/pocket.md).
    profile: Literal["article", "portal_api_head"] = "article"
    # Time for which outcomes count, in milliseconds.
    window_ms: int = Field(default=300_000, ge=1000, le=3_600_000)
    # Time for which each failure excludes a node, in milliseconds; consecutive failures add up.
    out_ms_per_failure: int = Field(default=6_000, ge=1, le=3_600_000)
    # The maximum exclusion, in milliseconds.
    out_cap_ms: int = Field(default=300_000, ge=1, le=3_600_000)
    # Time for which a ranking is reused, in milliseconds; 0 computes a new ranking for each
    # selection.
    ranking_ms: int = Field(default=100, ge=0, le=10_000)
    # What happens if no candidate passes the checks: `all` draws from all candidates and marks the
    # response as degraded; `refuse` draws no node.
    fallback: Literal["all", "refuse"] = "all"

    @property
    def rules(self) -> GatewayRules:
        """The rules of the selection service, built from this section.

        Raises:
            ValueError: a setting is invalid, alone or together with others; it is named.
        """
        if self.profile == "portal_api_head":
            return GatewayRules(params=PORTAL_API_HEAD, ranking_ms=self.ranking_ms)
        article_parameters = ArticleParameters(
            window_ms=self.window_ms,
            out_ms_per_failure=self.out_ms_per_failure,
            out_cap_ms=self.out_cap_ms,
        )
        return GatewayRules(params=article_parameters, ranking_ms=self.ranking_ms)


class StakesSection(Section):
    # The database of a `qos-oracle run` for the network; the members of the network are the staked
    # nodes. It is only read. Checks with `stake = "daemon"` need it.
    database_url: SecretText | None = Field(default=None, min_length=1)
    # Seconds between two reads of the stakes.
    every_seconds: float = Field(default=30.0, ge=1, le=3600)


class ChecksSection(Section):
    # The chain id that nodes must return from `eth_chainId`.
    chain_id: int = Field(ge=1, lt=2**63)
    # The URL of each node, by its name in outcomes and candidates.
    urls: dict[str, SecretUrl] = Field(min_length=1, max_length=10_000)
    # Seconds between two rounds of checks.
    every_seconds: float = Field(default=60.0, ge=1, le=3600)
    # A random delay, as a share of the interval, so that gateways do not check at the same time.
    jitter: float = Field(default=0.1, ge=0, le=1)
    # Maximum seconds until a response begins.
    timeout_seconds: float = Field(default=4.0, gt=0, le=60)
    # The number of nodes checked at the same time.
    most_at_once: int = Field(default=24, ge=1, le=256)
    # The maximum number of blocks that a node may be behind the best height, or ahead of it.
    allowance: int = Field(default=5, ge=0, le=1_000_000)
    # `daemon`: only nodes with a stake according to `[stakes]` are candidates; `none`: stakes are
    # ignored.
    stake: Literal["none", "daemon"] = "none"
    # Whether a node is a candidate if it was not checked yet, or not recently: `allow` or
    # `refuse`.
    unchecked: UncheckedPolicy = UncheckedPolicy.ALLOW


class GatewayConfig(Section):
    """All checked settings.

    The attributes are the sections of the file.
    """

    gateway: GatewaySection = GatewaySection()
    database: GatewayDatabase
    policy: PolicySection = PolicySection()
    stakes: StakesSection = StakesSection()
    checks: dict[str, ChecksSection] = Field(default_factory=dict)
    log: LogSection = LogSection()

    @override
    def __repr__(self) -> str:
        return "GatewayConfig(...)"

    def build_check_rules(self, chain: str) -> CheckRules:
        check_section = self.checks[chain]
        return CheckRules(
            chain_id=check_section.chain_id,
            allowance=check_section.allowance,
            needs_stake=check_section.stake == "daemon",
            unchecked=check_section.unchecked,
            allows_degraded_draw=self.policy.fallback == "all",
        )


def read_gateway_config(path: Path) -> GatewayConfig:
    """Read the configuration file.

    Raises:
        InputError: the file is invalid (the message has one line per fault), or it contains a
            secret and other users can read it.
    """
    raw_settings = read_toml(path)
    resolve_config_relative_path(path, raw_settings, "database", "url")
    resolve_config_relative_path(path, raw_settings, "stakes", "database_url")
    try:
        config = GatewayConfig.model_validate(raw_settings)
    except ValidationError as error:
        faults = [
            format_fault(
                validation_error["loc"], validation_error["type"], validation_error["msg"]
            )
            for validation_error in error.errors()
        ]
        raise InputError(format_faults(path, faults)) from None
    faults = _list_setting_conflicts(config)
    if faults:
        raise InputError(format_faults(path, faults))
    secrets = list(iter_secret_url_parts(iter_secret_values(config)))
    if secrets:
        check_private_file_mode(path)
    for secret in secrets:
        register_secret(secret)
    return config


def read_token(section: GatewaySection, environ: Mapping[str, str] = os.environ) -> str:
    """Read the token that requests must contain, and redact it in all logs.

    Raises:
        InputError: the token is missing or too short, or other users can read its file.
    """
    token_path = section.token_file
    source = TOKEN_VARIABLE if token_path is None else str(token_path)
    try:
        if token_path is None:
            token = environ.get(TOKEN_VARIABLE, "")
        else:
            check_private_file_mode(token_path)
            token = token_path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"gateway.token_file: {token_path}: {reason}") from None
    if (
        len(token) < MIN_TOKEN_LENGTH
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise InputError(
            f"{source}: the token is invalid; expected at least {MIN_TOKEN_LENGTH} printable "
            "ASCII characters without spaces; create one with `openssl rand -hex 32`"
        )
    register_secret(token)
    return token


def _list_setting_conflicts(config: GatewayConfig) -> list[str]:
    gateway_section, faults = config.gateway, []
    try:
        _ = config.policy.rules
    except ValueError as error:
        faults.append(f"policy.{error}")
    if (gateway_section.certificate is None) != (gateway_section.certificate_key is None):
        faults.append("gateway.certificate and gateway.certificate_key: set both or neither")
    if gateway_section.client_ca_file is not None and gateway_section.certificate is None:
        faults.append("gateway.client_ca_file: requires gateway.certificate")
    faults += [
        f"checks.{name}.stake: 'daemon' requires stakes.database_url"
        for name, checks_section in config.checks.items()
        if checks_section.stake == "daemon" and config.stakes.database_url is None
    ]
    if config.database.url == config.stakes.database_url:
        faults.append("database.url and stakes.database_url: set two different databases")
    return faults
