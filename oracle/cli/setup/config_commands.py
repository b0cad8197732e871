"""`config check`: reads the configuration, tries everything it names, and lists every fault."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

import typer

from oracle.bindings.inspection import inspected
from oracle.bindings.task_network import START_GAS, START_GROUP_GAS
from oracle.chain.heads import Heads
from oracle.chain.verification.rpc_costs import costs
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_answer
from oracle.cli.setup.profile_report import (
    contracts_line,
    on_chain_line,
    profile_line,
    profile_warnings,
    registration_line,
    registration_warnings,
)
from oracle.daemon.app import App
from oracle.daemon.config.keys_section import warnings_of_keys
from oracle.daemon.config.listener_section import warnings_of_listeners
from oracle.daemon.config.loader import LANDING_BLOCKS, SOFT_BLOCKS
from oracle.daemon.config.verify_section import policy_of
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
# Blocks over which the time between blocks is measured.
_MEASURED_BLOCKS = 100

commands = typer.Typer(no_args_is_help=True)

_OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Ask no endpoint; read files and the database only.")
]


def register(app: typer.Typer) -> None:
    """Put `config` on the command line."""
    app.add_typer(commands, name="config", help="Read the configuration and try what it names.")


@dataclass(slots=True)
class _Findings:
    """What is there, what deserves a thought, and what is wrong."""

    facts: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # Whether every fault may be gone in a while.
    may_pass: bool = True

    def attempt(self, name: str, attempt: Callable[[], str]) -> None:
        """Note what was found, or the fault; go on either way."""
        try:
            self.facts[name] = attempt()
        except OracleError as error:
            self.faults.append(f"{name}: {error}")
            self.may_pass = self.may_pass and isinstance(error, TransientError)


@commands.command(epilog="Example: qos-oracle config check --config config/local.toml")
def check(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    offline: _OfflineOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find every fault at once; exit code 2 where there is any, 1 where all of them may pass."""
    found = _Findings()
    with open_app(config) as app:
        found.attempt("profile", lambda: _profile(app, found))
        found.attempt("contracts", lambda: contracts_line(app))
        found.attempt("on chain", lambda: on_chain_line(app))
        found.attempt("rules", lambda: _rules(app))
        found.attempt("rules hash", lambda: f"{app.rules_hash}, with the settings of [oracle]")
        found.attempt("database", lambda: _database(app))
        found.attempt("keys", lambda: _keys(app, found))
        if not offline:
            found.attempt("chain", lambda: _chain(app, found))
            if app.config.oracle.address is not None and "chain" in found.facts:
                _try_contract(app, found)
        found.attempt("cost", lambda: _cost(app))
        _add_work_costs(app, found)
    if as_json:
        print_answer(ConfigCheck(facts=found.facts, warnings=found.warnings, faults=found.faults))
    else:
        print_facts(_lines(found), _NAME_WIDTH)
    if found.faults:
        count = len(found.faults)
        faults = "1 fault" if count == 1 else f"{count} faults"
        line = f"{config}: {faults}, listed above"
        raise TransientError(line) if found.may_pass else InputError(line)


def _add_work_costs(app: App, found: _Findings) -> None:
    """Look at what reports and starts of tasks cost."""
    if app.config.oracle.address is not None:
        found.attempt("new nodes", lambda: _registrations(app, found))
    if app.dispatch_settings is None:
        return
    is_online = "chain" in found.facts
    found.attempt("dispatch", lambda: _dispatch(app, found, is_online=is_online))
    if app.config.keys.has("dispatcher"):
        found.attempt("starts", lambda: _starts(app, found))


def _profile(app: App, found: _Findings) -> str:
    found.warnings += profile_warnings(app)
    return profile_line(app.reader.profile)


def _rules(app: App) -> str:
    rules, seconds = app.rules, longest_exclusion(app.rules)
    changed = ", ".join(f"{name} = {text}" for name, text in changes_in(rules).items())
    return (
        f"{shown(named_by(rules))}, {f'changed: {changed}' if changed else 'as published'}; "
        f"one timeout excludes for at most {seconds} s"
    )


def _database(app: App) -> str:
    url = app.config.database.url
    state = schema_state(url)
    if state.age is SchemaAge.EMPTY:
        return f"{without_secrets(url)}, empty; `qos-oracle run` or `migrate` makes the tables"
    if state.age is not SchemaAge.CURRENT:
        # Says what to do about it.
        app.store.close()
    return f"{without_secrets(url)}, revision {state.found}"


def _cost(app: App) -> str:
    """Say what following the chain costs at the preferred endpoint, by these settings."""
    facts = next(iter(app.source.endpoints)).capabilities
    return str(costs(app.reader, policy_of(app.config.verify), facts))


def _keys(app: App, found: _Findings) -> str:
    told = app.config
    found.warnings += warnings_of_keys(told.keys)
    found.warnings += warnings_of_listeners(told.statements, told.reporters.peers)
    if app.keys is None:
        return "none: reports and kickouts can be computed, not sent"
    signer, transmitter = app.keys.signer, app.keys.transmitter
    if signer is None:
        found.warnings.append("no signer: only what other reporters signed can be sent")
    if transmitter is None:
        found.warnings.append("no transmitter: statements are signed, and others must send them")
    return (
        f"signer {'none' if signer is None else signer.address}, "
        f"transmitter {'none' if transmitter is None else transmitter.address}"
    )


def _dispatch(app: App, found: _Findings, *, is_online: bool) -> str:
    """Describe how tasks are given out, and check that the network accepts the dispatcher."""
    section = app.config.dispatch
    policy = (
        f"by {section.policy} from block {section.start_block} on, "
        f"{section.queue_alpha} tasks a member"
    )
    if app.dispatcher is None:
        return f"{policy}; no key: nodes are drawn, nothing is started"
    sender = app.dispatcher.address
    if is_online and balance_of(app.dispatch_publisher.lines, sender) == 0:
        found.warnings.append(f"the dispatcher {sender} has no ether: nothing can be started")
    results = "" if app.results_folder is None else f", results from {section.results_folder}"
    return f"{policy}, dispatcher {sender}{results}"


def _starts(app: App, found: _Findings) -> str:
    """Say how many starts a day the limits let through while gas is as dear as it may be."""
    limits = app.config.limits
    settings = app.dispatch_settings
    gas = START_GAS if settings is None or settings.trios is None else START_GROUP_GAS
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


def _registrations(app: App, found: _Findings) -> str:
    found.warnings += registration_warnings(app)
    return registration_line(app)


def _chain(app: App, found: _Findings) -> str:
    heads = app.chain.heads()
    seconds = _seconds_a_block(app, heads)
    found.warnings += _warnings(app, heads, seconds)
    found.faults += _faults(app, heads, seconds)
    return f"{app.config.chain.id}, head {heads.latest.number}, {seconds:.1f} s a block"


def _seconds_a_block(app: App, heads: Heads) -> float:
    below = max(0, heads.latest.number - _MEASURED_BLOCKS)
    older = app.chain.header(below)
    if older is None or older.number == heads.latest.number:
        return 0.0
    return (heads.latest.time - older.time) / (heads.latest.number - older.number)


def _lag_seconds(app: App, heads: Heads, seconds: float) -> float:
    """Return how old the block is that a report of the configured level speaks of."""
    if app.config.oracle.level == "safe":
        return heads.latest.time - (heads.safe or heads.final).time
    return SOFT_BLOCKS * seconds


def _warnings(app: App, heads: Heads, seconds: float) -> Iterator[str]:
    told, longest = app.config.oracle, longest_exclusion(app.rules)
    slowest = told.period_seconds + _lag_seconds(app, heads, seconds)
    if told.address is not None and slowest > longest > 0:
        yield (
            "an exclusion may be over before the chain hears of it: "
            f"it lasts at most {longest} s, and a period plus the lag of level {told.level} "
            f"take up to {slowest:.0f} s"
        )


def _faults(app: App, heads: Heads, seconds: float) -> Iterator[str]:
    told = app.config.oracle
    needed = _lag_seconds(app, heads, seconds) + LANDING_BLOCKS * seconds
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


def _try_contract(app: App, found: _Findings) -> None:
    """Look at the contract, which must know our keys: a fault of theirs is not told twice."""
    if "keys" in found.facts:
        found.attempt("contract", lambda: _contract(app, found))
    else:
        found.warnings.append("the oracle contract was not looked at: put the keys right first")


def _contract(app: App, found: _Findings) -> str:
    if app.keys is not None and app.keys.transmitter is not None:
        payer = app.keys.transmitter.address
        if balance_of(app.publisher.lines, payer) == 0:
            found.warnings.append(f"the transmitter {payer} has no ether: nothing can be sent")
    constitution, different = inspected(app.publisher.lines, app.oracle_address, app.expected)
    if different:
        raise InputError("; ".join(difference.line() for difference in different))
    limits = constitution.contract_status.limits
    if limits.anchor_window != app.config.oracle.anchor_window:
        raise InputError(
            f"oracle.anchor_window is {app.config.oracle.anchor_window}, the contract's is "
            f"{limits.anchor_window}"
        )
    return f"{app.oracle_address} is as configured"


def _lines(found: _Findings) -> Iterator[tuple[str, str]]:
    yield from found.facts.items()
    yield from (("warning", warning) for warning in found.warnings)
    yield from (("fault", fault) for fault in found.faults)
