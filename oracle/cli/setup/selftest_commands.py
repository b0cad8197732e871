"""`selftest`: tests everything that publishing needs with void signatures, and sends nothing."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated

import typer

from oracle.bindings.inspection import inspected
from oracle.bindings.qos_oracle import push_call
from oracle.bindings.task_network import start_call
from oracle.chain.source import ChainSource
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.setup.key_commands import shared_key
from oracle.daemon.compose import (
    check_chain,
    check_chain_of,
    fresh_endpoints,
    open_chain,
    open_index,
    open_reader,
    rules_hash,
)
from oracle.daemon.config.keys_section import ROLES, Role
from oracle.daemon.config.loader import Config
from oracle.daemon.endpoints.capability_cache import CapabilityCache
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.records import Records, open_records
from oracle.daemon.senders import (
    OpenKey,
    expected_contract,
    key_opener,
    open_dispatcher,
    open_reporter,
    oracle_address,
    report_account,
    reporter_contexts,
    reporter_keys,
)
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address, TaskKey
from oracle.errors import FatalError, InputError, OracleError
from oracle.queries.setup_models import SelfTestCheck
from oracle.queries.text.text_tables import WIDE, print_table
from oracle.signing.factory import VOID_STATEMENT, try_statement, try_transaction
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.txmgr.client.receipts import balance_of
from oracle.txmgr.context import TxContext
from oracle.txmgr.dry_run import dry_context, dry_run_text
from oracle.txmgr.nonce_sync import reconcile

# The key of a task that cannot exist.
_NO_TASK = TaskKey("0x" + 64 * "0")


def _attempt(checks: list[SelfTestCheck], name: str, attempt: Callable[[], str]) -> None:
    """Run one check and record its result; never raise an OracleError."""
    try:
        checks.append(SelfTestCheck(check=name, passed=True, detail=attempt()))
    except OracleError as error:
        checks.append(SelfTestCheck(check=name, passed=False, detail=str(error)))


def register(app: typer.Typer) -> None:
    """Register `selftest` on the command line."""
    app.command("selftest", epilog="Example: qos-oracle selftest --offline --json")(selftest)


def selftest(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no endpoint: keys and the database only.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Test keys, endpoints, contract, database and balances.

    Exit code 1 if a check fails. Each key signs data that no contract accepts: a report of round
    0, and a call with a nonce that no account reaches. Nothing is sent or written.
    """
    checks: list[SelfTestCheck] = []
    settings = load_config(config)
    with ExitStack() as closing:
        open_database = cache(lambda: closing.enter_context(open_records(settings)))
        _attempt(checks, "database", lambda: _lease(open_database().store))
        records = open_database() if checks[0].passed else None
        store = None if records is None else records.store
        facts = CapabilityCache(store, unix_seconds)

        @cache
        def open_endpoints() -> ChainSource:
            return closing.enter_context(open_chain(settings, open_reader(settings), facts))

        reach = _Reach(settings, open_endpoints, key_opener(settings))
        if not offline:
            _ask_chain(reach, store, checks)
        _try_keys(reach, checks, is_online=not offline)
        _attempt(checks, "keys apart", partial(_apart, reach))
        if not offline and records is not None:
            _ask_nonces(records, reach.open_key, checks)
    if as_json:
        print_answer(checks)
    else:
        rows = [[one.check, "ok" if one.passed else "FAILED", one.detail] for one in checks]
        columns = ("check", "result", "detail")
        print_table(columns, rows, left=columns, width=WIDE)
    failed = sum(not one.passed for one in checks)
    if failed:
        raise FatalError(f"{config}: {failed} of {len(checks)} checks failed")


@dataclass(frozen=True, slots=True)
class _Reach:
    """The context shared by the checks; endpoints and keys are opened once, on first use."""

    config: Config
    open_endpoints: Callable[[], ChainSource]
    open_key: OpenKey


def _ask_chain(reach: _Reach, store: Store | None, checks: list[SelfTestCheck]) -> None:
    for place in range(len(reach.config.chain.endpoints)):
        _attempt(checks, f"endpoint {place + 1}", partial(_endpoint, reach, place))
    if reach.config.oracle.address is not None:
        _attempt(checks, "contract", partial(_contract, reach, store))


def _try_keys(reach: _Reach, checks: list[SelfTestCheck], *, is_online: bool) -> None:
    for role in ROLES:
        if reach.config.keys.has(role):
            _attempt(checks, role, partial(_key, reach, role))
            if role != "signer" and is_online:
                _attempt(checks, f"{role}'s balance", partial(_balance, reach, role))


def _lease(store: Store) -> str:
    """Return the holder of the lease; the database must exist and have this version's schema."""
    with store.reading() as uow:
        working = worker(uow.lease.current())
    return "the lease is free" if working is None else f"the lease is held by {working}"


def _endpoint(reach: _Reach, place: int) -> str:
    """Check that one endpoint serves the configured chain."""
    wanted = reach.config.chain.id
    with fresh_endpoints(reach.config, reach.open_endpoints()) as pool:
        line = pool.view().all[place]
        if not line.supports(wanted):
            raise InputError(f"{line.name} is of another chain than {wanted}")
        return f"{line.name} is of chain {wanted}"


def _contract(reach: _Reach, store: Store | None) -> str:
    """Compare the contract with the configuration: code, rules, signers, limits."""
    config, reader = reach.config, open_reader(reach.config)
    expected = expected_contract(config, reader, reporter_keys(reach.open_key))
    chain, address = check_chain(config, reach.open_endpoints(), store), oracle_address(config)
    _, found = inspected(report_account(config, chain).lines, address, expected)
    if found:
        raise InputError("; ".join(difference.line() for difference in found))
    return f"{address} is as configured, rules {rules_hash(config, reader)}"


def _key(reach: _Reach, role: Role) -> str:
    """Open a key, sign void data with it, and recover the address."""
    signer = _opened(reach, role)
    config, chain_id = reach.config, reach.config.chain.id
    if role == "signer":
        try_statement(signer, Domain(chain_id, oracle_address(config)))
        return f"{signer.address} signed a void report for chain {chain_id}"
    if role == "transmitter":
        to, calldata = oracle_address(config), push_call(VOID_STATEMENT, 0, b"")
    else:
        to = Address(config.network.contracts["TaskNetwork"])
        calldata = start_call(_NO_TASK, signer.address)
    try_transaction(signer, chain_id, to, calldata)
    return f"{signer.address} signed a void transaction for chain {chain_id}"


def _balance(reach: _Reach, role: Role) -> str:
    signer = _opened(reach, role)
    with fresh_endpoints(reach.config, reach.open_endpoints()) as pool:
        wei = balance_of(pool.view(), signer.address)
    if wei == 0:
        raise InputError(f"{signer.address} has no ether: nothing can be sent")
    return f"{signer.address} has {decimal_text(wei)} ether"


def _apart(reach: _Reach) -> str:
    """Check that opened keys differ; a key that cannot be opened has its own failed check."""
    found: dict[Role, Address | None] = {}
    for role in ROLES:
        with suppress(OracleError):
            signer = reach.open_key(role)
            found[role] = None if signer is None else signer.address
    fault = shared_key(found)
    if fault is not None:
        raise InputError(fault)
    return "no two roles have the same key"


def _ask_nonces(records: Records, open_key: OpenKey, checks: list[SelfTestCheck]) -> None:
    """Detect before the first start whether it would be refused: lost database, used key."""
    config = records.config
    if config.keys.has("transmitter") and config.oracle.address is not None:
        _attempt(checks, "transmitter's nonces", lambda: _transmitter_nonces(records, open_key))
    if config.keys.has("dispatcher") and records.dispatch_settings is not None:
        _attempt(checks, "dispatcher's nonces", lambda: _dispatcher_nonces(records, open_key))


def _transmitter_nonces(records: Records, open_key: OpenKey) -> str:
    with open_index(records) as index, open_reporter(index, open_key) as reporter:
        check_chain_of(index)
        return _nonces(reporter_contexts(reporter, 0, unix_seconds).tx)


def _dispatcher_nonces(records: Records, open_key: OpenKey) -> str:
    with open_index(records) as index:
        check_chain_of(index)
        return _nonces(open_dispatcher(index, open_key, 0, unix_seconds).tx)


def _nonces(context: TxContext) -> str:
    never = "the key has never sent anything, and starts with nonce 0"
    said = dry_run_text(lambda: reconcile(dry_context(context)), never)
    return said or "this database knows all that the chain has counted"


def _opened(reach: _Reach, role: Role) -> Signer:
    signer = reach.open_key(role)
    if signer is None:
        raise InputError(f"keys.{role}: is not configured")
    return signer
