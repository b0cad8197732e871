"""Implements `config check`, which checks the whole configuration and lists its faults."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated

import typer

from oracle.bindings.inspection import inspect_roots_contract
from oracle.bindings.task_network import START_GAS, START_GROUP_GAS
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.chain.verification.rpc_costs import estimate_rpc_costs
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_model
from oracle.cli.setup.profile_report import (
    describe_on_chain_support,
    find_profile_warnings,
    format_profile,
    format_profile_contracts,
)
from oracle.daemon.chain_endpoints import check_chain, open_chain
from oracle.daemon.compose import compute_rules_hash
from oracle.daemon.config.chain_section import build_verification_policy
from oracle.daemon.config.dispatch_section import build_dispatch_settings
from oracle.daemon.config.keys_section import find_key_warnings
from oracle.daemon.config.listener_section import find_listener_warnings
from oracle.daemon.config.loader import LANDING_BLOCKS, SOFT_BLOCKS, Config
from oracle.daemon.configured_keys import OpenKey, make_key_opener
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import build_configured_rules, open_records
from oracle.daemon.senders import (
    build_expected_contract,
    check_hot_set_contract,
    check_objections,
    get_oracle_address,
    open_dispatch_account,
    open_report_account,
    open_reporter_keys,
    open_results_folder,
)
from oracle.domain.scoring.node_scores import compute_max_exclusion_seconds
from oracle.errors import InputError, OracleError, TransientError
from oracle.indexer.rules_binding import format_rule_set
from oracle.queries.command_models import ConfigCheck
from oracle.queries.text.text_tables import print_facts
from oracle.rpc.endpoints.providers import list_shared_address_warnings
from oracle.store.schema import SchemaAge, inspect_schema
from oracle.store.state.rule_set_repository import identify_rules
from oracle.systems.registry import compute_rule_changes
from oracle.telemetry.safe_text import redact_secrets
from oracle.txmgr.client.receipts import fetch_balance

_NAME_WIDTH = 12
# The block time is measured over this many blocks.
_MEASURED_BLOCKS = 100

commands = typer.Typer(no_args_is_help=True)

_OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Contact no endpoint; check files and the database only.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="config", help="Check the configuration and everything it names.")


@dataclass(slots=True)
class _CheckFindings:
    """The facts, warnings and faults that `config check` found."""

    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # True if all faults found so far may be transient.
    may_be_transient: bool = True

    def run_check(self, name: str, check: Callable[[], str]) -> None:
        """Run a check, and record its fact or its fault without raising an OracleError."""
        try:
            self.facts[name] = check()
        except OracleError as error:
            self.faults.append(f"{name}: {error}")
            self.may_be_transient = self.may_be_transient and isinstance(error, TransientError)


@commands.command(epilog="Example: qos-oracle config check --config config/local.toml")
def check(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    offline: _OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration and report all faults at once.

    Exits with 1 if all faults may be transient, and with 2 if any other fault is found.
    """
    findings = _CheckFindings()
    loaded_config = load_config(config)
    reader = open_reader(loaded_config)
    open_key = make_key_opener(loaded_config)
    with ExitStack() as stack:
        open_endpoints = cache(lambda: stack.enter_context(open_chain(loaded_config, reader)))
        findings.run_check("profile", lambda: _check_profile(loaded_config, reader, findings))
        findings.run_check("contracts", lambda: format_profile_contracts(reader))
        findings.run_check("on chain", lambda: describe_on_chain_support(loaded_config, reader))
        findings.run_check("rules", lambda: _describe_rules(loaded_config))
        findings.run_check("rules hash", lambda: _describe_rules_hash(loaded_config, reader))
        findings.run_check("database", lambda: _check_database(loaded_config))
        findings.run_check("keys", lambda: _check_keys(loaded_config, open_key, findings))
        if not offline:
            findings.warnings += list_shared_address_warnings(
                loaded_config.chain.endpoints, loaded_config.chain.providers
            )
            findings.run_check(
                "chain", lambda: _check_chain_timing(loaded_config, open_endpoints(), findings)
            )
            if loaded_config.oracle.address is not None and "chain" in findings.facts:
                _check_contract_if_keys_open(
                    loaded_config, reader, open_endpoints(), open_key, findings
                )
        findings.run_check(
            "cost", lambda: _estimate_rpc_cost(loaded_config, reader, open_endpoints())
        )
        _check_task_start_costs(loaded_config, open_endpoints, open_key, findings)
    if as_json:
        print_model(ConfigCheck.model_validate(findings))
    else:
        print_facts(_render_findings(findings), _NAME_WIDTH)
    if findings.faults:
        found_fault_count = len(findings.faults)
        fault_count = "1 fault" if found_fault_count == 1 else f"{found_fault_count} faults"
        message = f"{config}: {fault_count}, listed above"
        raise TransientError(message) if findings.may_be_transient else InputError(message)


def _check_task_start_costs(
    config: Config,
    open_endpoints: Callable[[], ChainSource],
    open_key: OpenKey,
    findings: _CheckFindings,
) -> None:
    dispatch_settings = build_dispatch_settings(config.dispatch, build_configured_rules(config))
    if dispatch_settings is None:
        return
    findings.run_check(
        "dispatch", lambda: _check_dispatch(config, open_endpoints, open_key, findings)
    )
    if config.keys.has_key("dispatcher"):
        gas = START_GAS if dispatch_settings.legacy_policy is None else START_GROUP_GAS
        findings.run_check("starts", lambda: _check_task_start_budget(config, gas, findings))


def _check_profile(config: Config, reader: EventReader, findings: _CheckFindings) -> str:
    findings.warnings += find_profile_warnings(config, reader)
    return format_profile(reader.profile)


def _describe_rules_hash(config: Config, reader: EventReader) -> str:
    return f"{compute_rules_hash(config, reader)}, with the settings of [oracle]"


def _describe_rules(config: Config) -> str:
    rules = build_configured_rules(config)
    exclusion_seconds = compute_max_exclusion_seconds(rules)
    changes_text = ", ".join(
        f"{name} = {text}" for name, text in compute_rule_changes(rules).items()
    )
    return (
        f"{format_rule_set(identify_rules(rules))}, "
        f"{f'changed: {changes_text}' if changes_text else 'as published'}; one timeout excludes "
        f"for at most {exclusion_seconds} s"
    )


def _check_database(config: Config) -> str:
    url = config.database.url
    schema_state = inspect_schema(url)
    if schema_state.age is SchemaAge.EMPTY:
        return f"{redact_secrets(url)}, empty; `qos-oracle run` or `migrate` creates the tables"
    with open_records(config):
        # `open_records` rejects a different schema, chain or contract, and says how to resolve it.
        pass
    return f"{redact_secrets(url)}, revision {schema_state.found_revision}"


def _estimate_rpc_cost(config: Config, reader: EventReader, chain: ChainSource) -> str:
    """Describe the estimated RPC cost of following the chain at the preferred endpoint."""
    capabilities = next(iter(chain.endpoints)).capabilities
    return str(estimate_rpc_costs(reader, build_verification_policy(config.verify), capabilities))


def _check_keys(config: Config, open_key: OpenKey, findings: _CheckFindings) -> str:
    findings.warnings += find_key_warnings(config.keys)
    findings.warnings += find_listener_warnings(config.statements, config.reporters.peers)
    keys = open_reporter_keys(open_key)
    if keys is None:
        return "none: reports and kickouts are computed but cannot be sent"
    signer, transmitter = keys.signer, keys.transmitter
    if signer is None:
        findings.warnings.append(
            "no signer: only statements signed by other reporters can be sent"
        )
    if transmitter is None:
        findings.warnings.append(
            "no transmitter: statements are signed, but other reporters have to send them"
        )
    return (
        f"signer {'none' if signer is None else signer.address}, transmitter "
        f"{'none' if transmitter is None else transmitter.address}"
    )


def _check_dispatch(
    config: Config,
    open_endpoints: Callable[[], ChainSource],
    open_key: OpenKey,
    findings: _CheckFindings,
) -> str:
    """Describe how tasks are dispatched, and check that the dispatcher has funds."""
    section = config.dispatch
    dispatcher = open_key("dispatcher")
    policy = (
        f"policy {section.policy} from block {section.start_block} on, {section.queue_alpha} "
        "waiting tasks per member"
    )
    if dispatcher is None:
        return f"{policy}; no key: nodes are drawn, but no task is started"
    sender_address = dispatcher.address
    if "chain" in findings.facts:
        pool_view = open_dispatch_account(config, open_endpoints(), open_key).pool_view
        if fetch_balance(pool_view, sender_address) == 0:
            findings.warnings.append(
                f"the dispatcher {sender_address} has no ether: nothing can be started"
            )
    results_note = (
        "" if open_results_folder(config) is None else f", results from {section.results_folder}"
    )
    return f"{policy}, dispatcher {sender_address}{results_note}"


def _check_task_start_budget(config: Config, gas: int, findings: _CheckFindings) -> str:
    """Check the limits on task starts, and describe how many starts a day they allow.

    The number is computed for the maximum fee.
    """
    limits = config.limits
    max_start_cost = gas * limits.max_fee_per_gas_wei
    starts_per_day = limits.max_cost_per_day_wei // max_start_cost
    if not starts_per_day:
        findings.warnings.append(
            "limits.max_cost_per_day_wei: too low for one task start at the max fee"
        )
    if max_start_cost > limits.max_cost_per_transaction_wei:
        findings.warnings.append(
            "limits.max_cost_per_transaction_wei: too low for one task start at the max fee"
        )
    return (
        f"{starts_per_day} per day fit limits.max_cost_per_day_wei at limits.max_fee_per_gas_wei "
        f"({gas} gas each), more if gas is cheaper; half may be spent on queueTask and dropTask"
    )


def _check_chain_timing(config: Config, chain: ChainSource, findings: _CheckFindings) -> str:
    heads = check_chain(config, chain).fetch_heads()
    block_seconds = _measure_block_seconds(chain, heads)
    findings.warnings += _find_timing_warnings(config, heads, block_seconds)
    findings.faults += _find_timing_faults(config, heads, block_seconds)
    return f"{config.chain.id}, head {heads.latest.number}, {block_seconds:.1f} s a block"


def _measure_block_seconds(chain: ChainSource, heads: Heads) -> float:
    older_number = max(0, heads.latest.number - _MEASURED_BLOCKS)
    older_header = chain.fetch_header(older_number)
    if older_header is None or older_header.number == heads.latest.number:
        return 0.0
    return (heads.latest.time - older_header.time) / (heads.latest.number - older_header.number)


def _compute_as_of_lag_seconds(config: Config, heads: Heads, block_seconds: float) -> float:
    """Return how old a report's as-of block is at the configured finality, in seconds."""
    if config.oracle.level == "safe":
        return heads.latest.time - (heads.safe or heads.final).time
    return SOFT_BLOCKS * block_seconds


def _find_timing_warnings(config: Config, heads: Heads, block_seconds: float) -> Iterator[str]:
    oracle_section = config.oracle
    max_exclusion_seconds = compute_max_exclusion_seconds(build_configured_rules(config))
    max_delay_seconds = oracle_section.period_seconds + _compute_as_of_lag_seconds(
        config, heads, block_seconds
    )
    if oracle_section.address is not None and max_delay_seconds > max_exclusion_seconds > 0:
        yield (
            "an exclusion may end before it is reported on-chain: it lasts at most "
            f"{max_exclusion_seconds} s, but a period plus the lag of level "
            f"{oracle_section.level} takes up to {max_delay_seconds:.0f} s"
        )


def _find_timing_faults(config: Config, heads: Heads, block_seconds: float) -> Iterator[str]:
    oracle_section = config.oracle
    landing_seconds = (
        _compute_as_of_lag_seconds(config, heads, block_seconds) + LANDING_BLOCKS * block_seconds
    )
    if oracle_section.address is not None and landing_seconds > oracle_section.report_ttl_seconds:
        yield (
            f"oracle.report_ttl_seconds: {oracle_section.report_ttl_seconds} s are too short for "
            f"this chain; a report is {landing_seconds:.0f} s old before it can have landed"
        )
    if (
        oracle_section.address is not None
        and block_seconds
        and landing_seconds > oracle_section.anchor_window * block_seconds
    ):
        yield (
            f"oracle.anchor_window: {oracle_section.anchor_window} blocks of {block_seconds:.1f} "
            f"s are too few; a report is {landing_seconds:.0f} s old before it can have landed"
        )


def _check_contract_if_keys_open(
    config: Config,
    reader: EventReader,
    chain: ChainSource,
    open_key: OpenKey,
    findings: _CheckFindings,
) -> None:
    """Check the contract if the keys could be opened.

    Otherwise the check would report the same key fault again.
    """
    if "keys" in findings.facts:
        findings.run_check(
            "contract", lambda: _check_contract(config, reader, chain, open_key, findings)
        )
    else:
        findings.warnings.append("the oracle contract was not checked; fix the keys first")


def _check_contract(
    config: Config,
    reader: EventReader,
    chain: ChainSource,
    open_key: OpenKey,
    findings: _CheckFindings,
) -> str:
    keys = open_reporter_keys(open_key)
    address = get_oracle_address(config)
    pool_view = open_report_account(config, chain).pool_view
    if keys is not None and keys.transmitter is not None:
        payer_address = keys.transmitter.address
        if fetch_balance(pool_view, payer_address) == 0:
            findings.warnings.append(
                f"the transmitter {payer_address} has no ether: nothing can be sent"
            )
    expected_contract = build_expected_contract(config, reader, keys)
    contract_state, mismatches = inspect_roots_contract(pool_view, address, expected_contract)
    if mismatches:
        raise InputError("; ".join(difference.format_line() for difference in mismatches))
    limits = contract_state.contract_status.limits
    if limits.anchor_window != config.oracle.anchor_window:
        raise InputError(
            f"oracle.anchor_window: {config.oracle.anchor_window} differs from the contract's "
            f"value {limits.anchor_window}"
        )
    check_hot_set_contract(config, pool_view, contract_state)
    check_objections(config, pool_view, contract_state)
    return f"{address} matches the configuration"


def _render_findings(findings: _CheckFindings) -> Iterator[tuple[str, str]]:
    yield from findings.facts.items()
    yield from (("warning", warning) for warning in findings.warnings)
    yield from (("fault", fault) for fault in findings.faults)
