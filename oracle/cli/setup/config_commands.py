"""`config check`: loads the configuration, tests everything it names, and lists every fault."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated

import typer

from oracle.bindings.inspection import inspected
from oracle.bindings.task_network import START_GAS, START_GROUP_GAS
from oracle.chain.heads import Heads
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.chain.verification.rpc_costs import costs
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.setup.profile_report import (
    contracts_line,
    on_chain_line,
    profile_line,
    profile_warnings,
    registration_line,
    registration_warnings,
)
from oracle.daemon.compose import check_chain, open_chain, open_reader, rules_hash
from oracle.daemon.config.dispatch_section import dispatch_settings
from oracle.daemon.config.keys_section import warnings_of_keys
from oracle.daemon.config.listener_section import warnings_of_listeners
from oracle.daemon.config.loader import LANDING_BLOCKS, SOFT_BLOCKS, Config
from oracle.daemon.config.verify_section import policy_of
from oracle.daemon.records import configured_rules, open_records
from oracle.daemon.senders import (
    OpenKey,
    expected_contract,
    key_opener,
    open_dispatch_account,
    open_results_folder,
    oracle_address,
    report_account,
    reporter_keys,
)
from oracle.domain.scoring.node_scores import longest_exclusion
from oracle.errors import InputError, OracleError, TransientError
from oracle.indexer.rules_binding import shown
from oracle.queries.setup_models import ConfigCheck
from oracle.queries.text.text_tables import print_facts
from oracle.store.schema import SchemaAge, schema_state
from oracle.store.state.rule_set_repository import named_by
from oracle.systems.registry import changes_in
from oracle.telemetry.safe_text import without_secrets
from oracle.txmgr.client.receipts import balance_of

_NAME_WIDTH = 12
# Number of blocks over which the block time is measured.
_MEASURED_BLOCKS = 100

commands = typer.Typer(no_args_is_help=True)

_OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Ask no endpoint; read files and the database only.")
]


def register(app: typer.Typer) -> None:
    """Register `config` on the command line."""
    app.add_typer(commands, name="config", help="Read the configuration and try what it names.")


@dataclass(slots=True)
class _Findings:
    """The facts, warnings and faults found by the check."""

    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # Whether every fault so far may be transient.
    may_pass: bool = True

    def attempt(self, name: str, attempt: Callable[[], str]) -> None:
        """Run one check and record its fact or its fault; never raise an OracleError."""
        try:
            self.facts[name] = attempt()
        except OracleError as error:
            self.faults.append(f"{name}: {error}")
            self.may_pass = self.may_pass and isinstance(error, TransientError)


@dataclass(frozen=True, slots=True)
class _Reach:
    """The context shared by the checks; endpoints and keys are opened once, on first use."""

    config: Config
    reader: EventReader
    open_endpoints: Callable[[], ChainSource]
    open_key: OpenKey


@commands.command(epilog="Example: qos-oracle config check --config config/local.toml")
def check(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    offline: _OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration and report all faults at once.

    Exit code 2 if there is a fault, 1 if all faults may be transient.
    """
    found = _Findings()
    settings = load_config(config)
    reader, open_key = open_reader(settings), key_opener(settings)
    with ExitStack() as closing:
        open_endpoints = cache(lambda: closing.enter_context(open_chain(settings, reader)))
        reach = _Reach(settings, reader, open_endpoints, open_key)
        found.attempt("profile", lambda: _profile(settings, reader, found))
        found.attempt("contracts", lambda: contracts_line(reader))
        found.attempt("on chain", lambda: on_chain_line(settings, reader))
        found.attempt("rules", lambda: _rules(settings))
        found.attempt("rules hash", lambda: _rules_hash(settings, reader))
        found.attempt("database", lambda: _database(settings))
        found.attempt("keys", lambda: _keys(settings, open_key, found))
        if not offline:
            found.attempt("chain", lambda: _chain(settings, open_endpoints(), found))
            if settings.oracle.address is not None and "chain" in found.facts:
                _try_contract(reach, found)
        found.attempt("cost", lambda: _cost(settings, reader, open_endpoints()))
        _add_work_costs(reach, found)
    if as_json:
        print_answer(ConfigCheck(facts=found.facts, warnings=found.warnings, faults=found.faults))
    else:
        print_facts(_lines(found), _NAME_WIDTH)
    if found.faults:
        count = len(found.faults)
        faults = "1 fault" if count == 1 else f"{count} faults"
        line = f"{config}: {faults}, listed above"
        raise TransientError(line) if found.may_pass else InputError(line)


def _add_work_costs(reach: _Reach, found: _Findings) -> None:
    """Check the costs of reports and of task starts."""
    config = reach.config
    if config.oracle.address is not None:
        found.attempt("new nodes", lambda: _registrations(config, found))
    dispatch = dispatch_settings(config.dispatch, configured_rules(config))
    if dispatch is None:
        return
    found.attempt("dispatch", lambda: _dispatch(reach, found))
    if config.keys.has("dispatcher"):
        gas = START_GAS if dispatch.trios is None else START_GROUP_GAS
        found.attempt("starts", lambda: _starts(config, gas, found))


def _profile(config: Config, reader: EventReader, found: _Findings) -> str:
    found.warnings += profile_warnings(config, reader)
    return profile_line(reader.profile)


def _rules_hash(config: Config, reader: EventReader) -> str:
    return f"{rules_hash(config, reader)}, with the settings of [oracle]"


def _rules(config: Config) -> str:
    rules = configured_rules(config)
    seconds = longest_exclusion(rules)
    changed = ", ".join(f"{name} = {text}" for name, text in changes_in(rules).items())
    return (
        f"{shown(named_by(rules))}, {f'changed: {changed}' if changed else 'as published'}; "
        f"one timeout excludes for at most {seconds} s"
    )


def _database(config: Config) -> str:
    url = config.database.url
    state = schema_state(url)
    if state.age is SchemaAge.EMPTY:
        return f"{without_secrets(url)}, empty; `qos-oracle run` or `migrate` makes the tables"
    if state.age is not SchemaAge.CURRENT:
        with open_records(config):
            # `open_records` raises the error that names the remedy.
            pass
    return f"{without_secrets(url)}, revision {state.found}"


def _cost(config: Config, reader: EventReader, chain: ChainSource) -> str:
    """Estimate the RPC cost of following the chain at the preferred endpoint."""
    facts = next(iter(chain.endpoints)).capabilities
    return str(costs(reader, policy_of(config.verify), facts))


def _keys(config: Config, open_key: OpenKey, found: _Findings) -> str:
    found.warnings += warnings_of_keys(config.keys)
    found.warnings += warnings_of_listeners(config.statements, config.reporters.peers)
    keys = reporter_keys(open_key)
    if keys is None:
        return "none: reports and kickouts can be computed, not sent"
    signer, transmitter = keys.signer, keys.transmitter
    if signer is None:
        found.warnings.append("no signer: only what other reporters signed can be sent")
    if transmitter is None:
        found.warnings.append("no transmitter: statements are signed, and others must send them")
    return (
        f"signer {'none' if signer is None else signer.address}, "
        f"transmitter {'none' if transmitter is None else transmitter.address}"
    )


def _dispatch(reach: _Reach, found: _Findings) -> str:
    """Describe how tasks are dispatched, and check that the dispatcher has funds."""
    section, dispatcher = reach.config.dispatch, reach.open_key("dispatcher")
    policy = (
        f"by {section.policy} from block {section.start_block} on, "
        f"{section.queue_alpha} tasks a member"
    )
    if dispatcher is None:
        return f"{policy}; no key: nodes are drawn, nothing is started"
    sender = dispatcher.address
    if "chain" in found.facts:
        chain = reach.open_endpoints()
        lines = open_dispatch_account(reach.config, chain, reach.open_key).lines
        if balance_of(lines, sender) == 0:
            found.warnings.append(f"the dispatcher {sender} has no ether: nothing can be started")
    results = (
        ""
        if open_results_folder(reach.config) is None
        else f", results from {section.results_folder}"
    )
    return f"{policy}, dispatcher {sender}{results}"


def _starts(config: Config, gas: int, found: _Findings) -> str:
    """Return how many task starts per day fit the limits at the maximum gas price."""
    limits = config.limits
    cost = gas * limits.max_fee_per_gas_wei
    many = limits.max_cost_per_day_wei // cost
    if not many:
        found.warnings.append("limits.max_cost_per_day_wei: no start fits at the highest fee")
    if cost > limits.max_cost_per_transaction_wei:
        found.warnings.append(
            "limits.max_cost_per_transaction_wei: no start fits at the highest fee"
        )
    return (
        f"{many} a day fit limits.max_cost_per_day_wei at limits.max_fee_per_gas_wei "
        f"({gas} gas each), more where gas is cheaper; half may go to queueTask and dropTask"
    )


def _registrations(config: Config, found: _Findings) -> str:
    found.warnings += registration_warnings(config)
    return registration_line(config)


def _chain(config: Config, chain: ChainSource, found: _Findings) -> str:
    heads = check_chain(config, chain).heads()
    seconds = _seconds_a_block(chain, heads)
    found.warnings += _warnings(config, heads, seconds)
    found.faults += _faults(config, heads, seconds)
    return f"{config.chain.id}, head {heads.latest.number}, {seconds:.1f} s a block"


def _seconds_a_block(chain: ChainSource, heads: Heads) -> float:
    below = max(0, heads.latest.number - _MEASURED_BLOCKS)
    older = chain.header(below)
    if older is None or older.number == heads.latest.number:
        return 0.0
    return (heads.latest.time - older.time) / (heads.latest.number - older.number)


def _lag_seconds(config: Config, heads: Heads, seconds: float) -> float:
    """Return the age of the as-of block of a report at the configured level."""
    if config.oracle.level == "safe":
        return heads.latest.time - (heads.safe or heads.final).time
    return SOFT_BLOCKS * seconds


def _warnings(config: Config, heads: Heads, seconds: float) -> Iterator[str]:
    told, longest = config.oracle, longest_exclusion(configured_rules(config))
    slowest = told.period_seconds + _lag_seconds(config, heads, seconds)
    if told.address is not None and slowest > longest > 0:
        yield (
            "an exclusion may be over before the chain hears of it: "
            f"it lasts at most {longest} s, and a period plus the lag of level {told.level} "
            f"take up to {slowest:.0f} s"
        )


def _faults(config: Config, heads: Heads, seconds: float) -> Iterator[str]:
    told = config.oracle
    needed = _lag_seconds(config, heads, seconds) + LANDING_BLOCKS * seconds
    if told.address is not None and needed > told.report_ttl_seconds:
        yield (
            f"oracle.report_ttl_seconds: {told.report_ttl_seconds} s are too few on this chain: a "
            f"report is {needed:.0f} s old before it can have landed"
        )
    if told.address is not None and seconds and needed > told.anchor_window * seconds:
        yield (
            f"oracle.anchor_window: {told.anchor_window} blocks of {seconds:.1f} s are too few: a "
            f"report is {needed:.0f} s old before it can have landed"
        )


def _try_contract(reach: _Reach, found: _Findings) -> None:
    """Check the contract if the keys can be opened; a key fault is not reported twice."""
    if "keys" in found.facts:
        found.attempt("contract", lambda: _contract(reach, found))
    else:
        found.warnings.append("the oracle contract was not looked at: put the keys right first")


def _contract(reach: _Reach, found: _Findings) -> str:
    config, keys = reach.config, reporter_keys(reach.open_key)
    address, lines = oracle_address(config), report_account(config, reach.open_endpoints()).lines
    if keys is not None and keys.transmitter is not None:
        payer = keys.transmitter.address
        if balance_of(lines, payer) == 0:
            found.warnings.append(f"the transmitter {payer} has no ether: nothing can be sent")
    expected = expected_contract(config, reach.reader, keys)
    constitution, different = inspected(lines, address, expected)
    if different:
        raise InputError("; ".join(difference.line() for difference in different))
    limits = constitution.contract_status.limits
    if limits.anchor_window != config.oracle.anchor_window:
        raise InputError(
            f"oracle.anchor_window is {config.oracle.anchor_window}, the contract's is "
            f"{limits.anchor_window}"
        )
    return f"{address} is as configured"


def _lines(found: _Findings) -> Iterator[tuple[str, str]]:
    yield from found.facts.items()
    yield from (("warning", warning) for warning in found.warnings)
    yield from (("fault", fault) for fault in found.faults)
