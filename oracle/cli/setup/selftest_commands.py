"""`selftest`: tries everything that publishing needs, signs what is void, and sends nothing."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import typer

from oracle.bindings.inspection import inspected
from oracle.bindings.qos_oracle import push_call
from oracle.bindings.task_network import start_call
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_answer
from oracle.cli.setup.key_commands import shared_key
from oracle.daemon.app import App
from oracle.daemon.config.keys_section import ROLES, Role
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address, TaskKey
from oracle.errors import FatalError, InputError, OracleError
from oracle.queries.setup_models import SelfTestCheck
from oracle.queries.text.text_tables import WIDE, print_table
from oracle.signing.factory import VOID_STATEMENT, try_statement, try_transaction
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.txmgr.client.receipts import balance_of
from oracle.txmgr.context import TxContext
from oracle.txmgr.dry_run import dry_context, dry_run_text
from oracle.txmgr.nonce_sync import reconcile

# A task that there is not.
_NO_TASK = TaskKey("0x" + 64 * "0")


@dataclass(slots=True)
class _Checks:
    made: list[SelfTestCheck] = field(default_factory=list)

    def attempt(self, name: str, attempt: Callable[[], str]) -> None:
        """Note what was found, or why not; go on either way."""
        try:
            self.made.append(SelfTestCheck(check=name, passed=True, detail=attempt()))
        except OracleError as error:
            self.made.append(SelfTestCheck(check=name, passed=False, detail=str(error)))


def register(app: typer.Typer) -> None:
    """Put `selftest` on the command line."""
    app.command("selftest", epilog="Example: qos-oracle selftest --offline --json")(selftest)


def selftest(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no endpoint: keys and the database only.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Try keys, endpoints, contract, database and balances; exit code 1 where anything fails.

    Each key signs what no contract would take: a report of round 0, a call with a nonce that no
    account comes to. Nothing is sent and nothing is written.
    """
    checks = _Checks()
    with open_app(config) as app:
        checks.attempt("database", partial(_lease, app))
        if not offline:
            _ask_chain(app, checks)
        for role in ROLES:
            if app.config.keys.has(role):
                checks.attempt(role, partial(_key, app, role))
                if role != "signer" and not offline:
                    checks.attempt(f"{role}'s balance", partial(_balance, app, role))
        checks.attempt("keys apart", partial(_apart, app))
        if not offline and checks.made[0].passed:
            _ask_nonces(app, checks)
    if as_json:
        print_answer(checks.made)
    else:
        rows = [[one.check, "ok" if one.passed else "FAILED", one.detail] for one in checks.made]
        columns = ("check", "result", "detail")
        print_table(columns, rows, left=columns, width=WIDE)
    failed = sum(not one.passed for one in checks.made)
    if failed:
        raise FatalError(f"{config}: {failed} of {len(checks.made)} checks failed")


def _ask_chain(app: App, checks: _Checks) -> None:
    for place in range(len(app.config.chain.endpoints)):
        checks.attempt(f"endpoint {place + 1}", partial(_endpoint, app, place))
    if app.config.oracle.address is not None:
        checks.attempt("contract", partial(_contract, app))


def _lease(app: App) -> str:
    """Say who works on the database: it must be there, and be of this version."""
    with app.store.reading() as uow:
        working = worker(uow.lease.current())
    return "the lease is free" if working is None else f"the lease is held by {working}"


def _endpoint(app: App, place: int) -> str:
    """Ask an endpoint by itself which chain it is of."""
    wanted = app.config.chain.id
    with app.fresh_endpoints() as pool:
        line = pool.view().all[place]
        if not line.supports(wanted):
            raise InputError(f"{line.name} is of another chain than {wanted}")
        return f"{line.name} is of chain {wanted}"


def _contract(app: App) -> str:
    """Compare it with the configuration: code, rules, signers, limits."""
    _, found = inspected(app.publisher.lines, app.oracle_address, app.expected)
    if found:
        raise InputError("; ".join(difference.line() for difference in found))
    return f"{app.oracle_address} is as configured, rules {app.rules_hash}"


def _key(app: App, role: Role) -> str:
    """Open a key, have it sign something void, and recover it."""
    signer = _opened(app, role)
    chain_id = app.config.chain.id
    if role == "signer":
        try_statement(signer, Domain(chain_id, app.oracle_address))
        return f"{signer.address} signed a void report for chain {chain_id}"
    if role == "transmitter":
        to, calldata = app.oracle_address, push_call(VOID_STATEMENT, 0, b"")
    else:
        to = Address(app.config.network.contracts["TaskNetwork"])
        calldata = start_call(_NO_TASK, signer.address)
    try_transaction(signer, chain_id, to, calldata)
    return f"{signer.address} signed a void transaction for chain {chain_id}"


def _balance(app: App, role: Role) -> str:
    signer = _opened(app, role)
    with app.fresh_endpoints() as pool:
        wei = balance_of(pool.view(), signer.address)
    if wei == 0:
        raise InputError(f"{signer.address} has no ether: nothing can be sent")
    return f"{signer.address} has {decimal_text(wei)} ether"


def _apart(app: App) -> str:
    """Compare the keys that can be opened; what keeps one from it is told beside it."""
    found: dict[Role, Address | None] = {}
    for role in ROLES:
        with suppress(OracleError):
            signer = app.key(role)
            found[role] = None if signer is None else signer.address
    fault = shared_key(found)
    if fault is not None:
        raise InputError(fault)
    return "no two roles have the same key"


def _ask_nonces(app: App, checks: _Checks) -> None:
    """Find out before the first start what would refuse it: a lost database, a used key."""
    has = app.config.keys.has
    if has("transmitter") and app.config.oracle.address is not None:
        checks.attempt("transmitter's nonces", lambda: _nonces(app.reporter(0, unix_seconds).tx))
    if has("dispatcher") and app.dispatch_settings is not None:
        checks.attempt("dispatcher's nonces", lambda: _nonces(app.starter(0, unix_seconds).tx))


def _nonces(context: TxContext) -> str:
    never = "the key has never sent anything, and starts with nonce 0"
    said = dry_run_text(lambda: reconcile(dry_context(context)), never)
    return said or "this database knows all that the chain has counted"


def _opened(app: App, role: Role) -> Signer:
    signer = app.key(role)
    if signer is None:
        raise InputError(f"keys.{role}: is not configured")
    return signer
