"""Loads the TOML file and the environment into a `Config`, or reports all faults together.

Environment variables take precedence: `QOS_ORACLE_<SECTION>__<KEY>` (`make reference` lists every
setting). Other packages never see these classes; the daemon passes them the values they need.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from typing_extensions import override

from oracle.chain.profiles.profile import Profile
from oracle.chain.profiles.profile_loader import load_profile
from oracle.daemon.config.chain_section import ChainSection, HistorySection, VerifySection
from oracle.daemon.config.dispatch_section import (
    DispatchSection,
    ProbingSection,
    find_dispatch_faults,
    find_probing_faults,
)
from oracle.daemon.config.feed_section import FeedSection, find_feed_faults
from oracle.daemon.config.keys_section import KeysSection, find_key_faults
from oracle.daemon.config.listener_section import (
    ApiSection,
    StatementsSection,
    WebSection,
    find_listener_faults,
)
from oracle.daemon.config.oracle_section import (
    HotSetSection,
    ObjectionsSection,
    OracleSection,
    find_objection_faults,
)
from oracle.daemon.config.redaction import (
    has_secret_value,
    iter_secret_url_parts,
    iter_secret_values,
)
from oracle.daemon.config.sections import (
    DatabaseSection,
    LimitsSection,
    MetricsSection,
    NetworkSection,
    NotifySection,
    ReportersSection,
    Section,
    ShadowSection,
    SubscriptionsSection,
    TracingSection,
    find_notify_faults,
    find_reporter_faults,
    find_shadow_faults,
    find_subscription_faults,
)
from oracle.domain.scoring.rules import Rules
from oracle.errors import InputError
from oracle.signing.keystore import check_private_file_mode
from oracle.systems.overrides import parse_change_table
from oracle.systems.registry import build_rules, list_rule_set_names
from oracle.telemetry.safe_text import register_secret


class RulesSection(Section):
    # The rule set: `crynux`, `relay`, `crynux-docs`, or `legacy`, for which you have to set some
    # parameters. Part of the rules hash.
    set: str = "crynux"
    # The event at which a group is scored, if it differs from the rule set's: `validated` or
    # `terminal`. Part of the rules hash.
    close: Literal["validated", "terminal"] | None = None
    # Other rules that override the set's, by name: `{ tau_seconds = 900, penalty = "0.5" }`;
    # `rules show` lists them. Part of the rules hash.
    change: Annotated[dict[str, str], BeforeValidator(parse_change_table)] = Field(
        default_factory=dict
    )
    # The folder for rules that were announced (`rules announce`) and for their reasons. Each file
    # is named after its hash.
    announced_folder: Path = Path("announced-rules")
    _switched_rules: Rules | None = PrivateAttr(default=None)

    @property
    def changes(self) -> dict[str, str]:
        """All overrides of the rule set."""
        return self.change if self.close is None else {**self.change, "close": self.close}

    @property
    def switched_rules(self) -> Rules | None:
        """The rules that the daemon has switched to, or None for the configured rules."""
        return self._switched_rules

    def build_rule_set(self) -> Rules:
        """Build the section's rule set with all changes applied."""
        return build_rules(self.set, self.changes)

    def with_switched_rules(self, rules: Rules | None) -> "RulesSection":
        """Return a copy of the section with the rules that the daemon switched to.

        If `rules` is None, the copy uses the configured rules.
        """
        switched_section = self.model_copy()
        switched_section._switched_rules = rules  # noqa: SLF001  of the same class
        return switched_section


def find_rule_faults(rules_section: RulesSection) -> list[str]:
    """Return the faults of `[rules]`, such as an unknown set or a rejected parameter."""
    if rules_section.close is not None and "close" in rules_section.change:
        return ["rules.close and rules.change.close: give only one of them"]
    try:
        rules_section.build_rule_set()
    except ValueError as error:
        setting_name = "change" if rules_section.set in list_rule_set_names() else "set"
        return [f"rules.{setting_name}: {error}"]
    return []


_SQLITE_PREFIX = "sqlite:///"
ENVIRONMENT_PREFIX = "QOS_ORACLE_"

# A `soft` report is based on the block this far below the head
# (docs/explanation/reports.md#when-to-publish).
SOFT_BLOCKS = 2
# The contract that starts drawn tasks.
TASK_NETWORK_CONTRACT = "TaskNetwork"
# The maximum number of blocks expected between the end of a report's period and the block that
# includes the report.
LANDING_BLOCKS = 6


class LogSection(Section):
    # `json`, `text`, or `auto`: text if stderr is a terminal.
    format: Literal["auto", "json", "text"] = "auto"
    # The lowest log level that is written.
    level: Literal["debug", "info", "warning", "error"] = "info"


class Config(BaseSettings):
    """All validated settings; each attribute is a section of the configuration file."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        hide_input_in_errors=True,
    )

    database: DatabaseSection
    chain: ChainSection
    network: NetworkSection
    feed: FeedSection = FeedSection.model_construct()
    verify: VerifySection = VerifySection.model_construct()
    history: HistorySection = HistorySection.model_construct()
    oracle: OracleSection = OracleSection.model_construct()
    hot_set: HotSetSection = HotSetSection.model_construct()
    objections: ObjectionsSection = ObjectionsSection.model_construct()
    rules: RulesSection = RulesSection.model_construct()
    shadow: Annotated[tuple[ShadowSection, ...], Field(max_length=4)] = ()
    dispatch: DispatchSection = DispatchSection.model_construct()
    probing: ProbingSection = ProbingSection.model_construct()
    keys: KeysSection = KeysSection.model_construct()
    limits: LimitsSection = LimitsSection.model_construct()
    reporters: ReportersSection = ReportersSection.model_construct()
    web: WebSection = WebSection.model_construct()
    statements: StatementsSection = StatementsSection.model_construct()
    api: ApiSection = ApiSection.model_construct()
    notify: tuple[NotifySection, ...] = ()
    subscriptions: SubscriptionsSection = SubscriptionsSection.model_construct()
    metrics: MetricsSection = MetricsSection.model_construct()
    tracing: TracingSection = TracingSection.model_construct()
    log: LogSection = LogSection.model_construct()

    @property
    def has_notice_recipients(self) -> bool:
        """Whether any recipient of notices is configured."""
        return bool(self.notify) or self.subscriptions.enabled

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the environment and then the file as the only sources of settings."""
        return env_settings, init_settings


def read_config(path: Path) -> Config:
    """Read the file and the environment, and return the validated settings.

    Raises:
        InputError: the configuration has faults, which the message lists; or the file contains a
            secret and is readable by others.
    """
    raw_settings = read_toml(path)
    if has_secret_value(raw_settings, Config):
        check_private_file_mode(path)
    resolve_config_relative_path(path, raw_settings, "database", "url")
    resolve_config_relative_path(path, raw_settings, "history", "stage")
    resolve_config_relative_path(path, raw_settings, "dispatch", "results_folder")
    resolve_config_relative_path(path, raw_settings, "rules", "announced_folder")
    resolve_config_relative_path(path, raw_settings, "network", "labels_file")
    for shadow_set in raw_settings.get("shadow", ()):
        resolve_config_relative_path(path, {"shadow": shadow_set}, "shadow", "rules")
    faults = _find_unknown_variable_faults(os.environ)
    config = None
    try:
        config = Config(**raw_settings)
    except ValidationError as error:
        faults += [
            format_fault(
                validation_error["loc"], validation_error["type"], validation_error["msg"]
            )
            for validation_error in error.errors()
        ]
    except SettingsError as error:
        faults.append(str(error))
    if config is not None:
        faults += _find_conflicts(config)
    if config is None or faults:
        raise InputError(format_faults(path, faults))
    for secret in iter_secret_url_parts(iter_secret_values(config)):
        register_secret(secret)
    return config


def read_shadow_rules(config: Config) -> dict[str, Rules]:
    """Return the rules of each `[[shadow]]` section, by name.

    Raises:
        InputError: a file cannot be read, or has no valid rules.
    """
    rules_by_name = {}
    for shadow_set in config.shadow:
        try:
            rules_by_name[shadow_set.name] = Rules.from_json(shadow_set.rules.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"shadow.rules: {shadow_set.rules}: {error}") from None
    return rules_by_name


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises:
        InputError: the file cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: configuration not found; choose one with --config") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: the file is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: invalid TOML: {error}") from error
    except RecursionError:
        raise InputError(f"{path}: invalid TOML: too deeply nested") from None


def resolve_config_relative_path(
    path: Path, raw_settings: dict[str, Any], section: str, setting: str
) -> None:
    """Resolve a relative path or SQLite URL against the configuration file's folder.

    The same file then names the same database wherever a command is started. Values from the
    environment stay relative to the current folder.
    """
    section_table = raw_settings.get(section)
    if not isinstance(section_table, dict) or not isinstance(section_table.get(setting), str):
        return
    setting_value: str = section_table[setting]
    prefix = _SQLITE_PREFIX if setting_value.startswith(_SQLITE_PREFIX) else ""
    name = setting_value.removeprefix(prefix)
    is_file = name and not name.startswith((":memory:", "file:", "?")) and "://" not in name
    if is_file:
        section_table[setting] = f"{prefix}{path.parent.absolute() / name}"


def _find_unknown_variable_faults(environ: Mapping[str, str]) -> list[str]:
    """Return a message for each environment variable with an unknown section.

    Otherwise a misspelled section would be ignored silently.
    """
    section_names = set(Config.model_fields)
    variable_names = (
        name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and "__" in name
    )
    return [
        f"{name}: no such section (sections: {', '.join(sorted(section_names))})"
        for name in sorted(variable_names)
        if name.removeprefix(ENVIRONMENT_PREFIX).split("__")[0].lower() not in section_names
    ]


def format_fault(setting_path: tuple[int | str, ...], kind: str, message: str) -> str:
    """Format a fault found by pydantic as a line with the name of the setting."""
    message_by_kind = {"missing": "missing", "extra_forbidden": "unknown setting"}
    setting_name = ".".join(str(part) for part in setting_path)
    return f"{setting_name}: {message_by_kind.get(kind, message.removeprefix('Value error, '))}"


def _find_conflicts(config: Config) -> list[str]:
    """Return the conflicts between settings that are valid by themselves."""
    oracle, keys = config.oracle, config.keys
    faults = find_rule_faults(config.rules)
    faults += find_key_faults(keys, config.chain.id)
    faults += _find_network_faults(config)
    faults += find_listener_faults(config.web, config.statements, config.api)
    faults += find_reporter_faults(config.reporters)
    faults += find_notify_faults(config.notify)
    faults += find_subscription_faults(config.subscriptions)
    faults += find_shadow_faults(config.shadow)
    if oracle.publish and oracle.address is None:
        faults.append("oracle.publish: requires oracle.address")
    if oracle.publish and not keys.has_key("signer") and not keys.has_key("transmitter"):
        faults.append(
            "keys: oracle.publish is on, but neither a signer nor a transmitter is configured"
        )
    requiring_settings = {
        "hot_set.address": config.hot_set.address,
        "oracle.timelock": oracle.timelock,
        "objections.address": config.objections.address,
    }
    faults += [
        f"{name}: requires oracle.address"
        for name, address in requiring_settings.items()
        if address is not None and oracle.address is None
    ]
    faults += find_objection_faults(config.objections, has_payer=keys.has_key("transmitter"))
    faults += find_dispatch_faults(
        config.dispatch, config.chain.start_block, has_key=keys.has_key("dispatcher")
    )
    faults += find_probing_faults(
        config.probing,
        is_dispatching=config.dispatch.start_block is not None and keys.has_key("dispatcher"),
    )
    flag_by_setting = {
        "oracle.publish": oracle.publish,
        "dispatch.enabled": config.dispatch.enabled,
    }
    publishing_settings = [name for name, is_on in flag_by_setting.items() if is_on]
    faults += find_feed_faults(
        config.feed, config.rules.set, config.rules.changes, publishing_settings
    )
    return faults + _find_timing_faults(config)


def _find_network_faults(config: Config) -> list[str]:
    network = config.network
    try:
        profile = load_profile(network.profile, network.options)
    except InputError as error:
        first_line, *fault_lines = str(error).splitlines()
        # With several faults, the first line only states how many there are (`format_faults`).
        return fault_lines or [first_line]
    contracts_with_address = {
        name for name, contract in profile.contracts.items() if contract.address is not None
    }
    missing_contracts = sorted(
        profile.contracts.keys() - contracts_with_address - network.contracts.keys()
    )
    faults = [
        f"network.contracts: {name} is missing; the profile {profile.name} requires it"
        for name in missing_contracts
    ]
    faults += [
        f"network.contracts.{name}: unknown contract; the profile {profile.name} has "
        f"{', '.join(sorted(profile.contracts))}"
        for name in sorted(network.contracts.keys() - profile.contracts.keys())
    ]
    faults += _find_duplicate_contract_faults(config, profile)
    if config.dispatch.start_block is not None and TASK_NETWORK_CONTRACT not in profile.contracts:
        faults.append(
            f"network.profile: {profile.name} has no {TASK_NETWORK_CONTRACT} contract to start "
            "drawn tasks; remove dispatch.start_block"
        )
    return faults


def _find_duplicate_contract_faults(config: Config, profile: Profile) -> list[str]:
    """Return a message for each address that several contracts share.

    The events of such contracts could not be distinguished.
    """
    address_by_name = {name: contract.address for name, contract in profile.contracts.items()}
    address_by_name |= {
        **config.network.contracts,
        "oracle.address": config.oracle.address,
        "oracle.timelock": config.oracle.timelock,
        "hot_set.address": config.hot_set.address,
        "objections.address": config.objections.address,
    }
    names_by_address: dict[str, list[str]] = {}
    for name, address in address_by_name.items():
        if address is not None:
            names_by_address.setdefault(address.lower(), []).append(name)
    return [
        f"network.contracts: {' and '.join(names)} have the same address, {address}"
        for address, names in names_by_address.items()
        if len(names) > 1
    ]


def _find_timing_faults(config: Config) -> list[str]:
    oracle = config.oracle
    faults = []
    if oracle.heartbeat_seconds < oracle.period_seconds:
        faults.append("oracle.heartbeat_seconds: must be at least oracle.period_seconds")
    depth_blocks = SOFT_BLOCKS if oracle.level == "soft" else config.chain.finality_depth
    if depth_blocks + LANDING_BLOCKS > oracle.anchor_window:
        faults.append(
            f"oracle.anchor_window: {oracle.anchor_window} blocks are too few; a report of level "
            f"{oracle.level} is as of a block up to {depth_blocks} blocks below the head, and "
            f"needs {LANDING_BLOCKS} more blocks to land"
        )
    return faults


def format_faults(path: Path, faults: list[str]) -> str:
    """Format all faults of a configuration file as one message."""
    if len(faults) == 1:
        return f"{path}: {faults[0]}"
    return "\n".join([f"{path}: {len(faults)} faults", *(f"  {fault}" for fault in faults)])
