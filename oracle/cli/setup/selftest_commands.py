"""Implements `selftest`, which tests everything needed for publishing by signing void data.

Nothing is sent.
"""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, partial
from typing import Annotated

import typer

from oracle.bindings.inspection import inspect_roots_contract
from oracle.bindings.qos_roots import encode_push_report_call
from oracle.bindings.task_network import encode_start_task_call
from oracle.chain.source import ChainSource
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_model
from oracle.cli.setup.key_commands import describe_shared_key
from oracle.daemon.chain_endpoints import (
    CapabilityCache,
    check_chain,
    open_chain,
    reopen_endpoints,
)
from oracle.daemon.compose import compute_rules_hash, get_checked_chain, open_index
from oracle.daemon.config.keys_section import ROLES, Role
from oracle.daemon.config.loader import Config
from oracle.daemon.configured_keys import OpenKey, make_key_opener
from oracle.daemon.event_readers import open_reader
from oracle.daemon.lease_keeper import find_leader
from oracle.daemon.records import Records, open_records
from oracle.daemon.senders import (
    build_expected_contract,
    check_hot_set_contract,
    check_objections,
    get_oracle_address,
    open_dispatch_context,
    open_report_account,
    open_reporter,
    open_reporter_contexts,
    open_reporter_keys,
)
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Address, TaskKey
from oracle.errors import FatalError, InputError, OracleError
from oracle.queries.command_models import SelfTestCheck
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, print_table
from oracle.signing.factory import VOID_STATEMENT, sign_void_statement, sign_void_transaction
from oracle.signing.signer import Signer
from oracle.signing.typed_data import Domain
from oracle.store.database import Store
from oracle.txmgr.client.receipts import fetch_balance
from oracle.txmgr.context import AccountContext, build_dry_run_context, describe_dry_run
from oracle.txmgr.nonce_sync import reconcile_nonces

# No task has this key, so every contract rejects a call about it.
_VOID_TASK = TaskKey("0x" + 64 * "0")

_OpenEndpoints = Callable[[], ChainSource]


def _run_check(checks: list[SelfTestCheck], name: str, check: Callable[[], str]) -> None:
    """Run a check and record its result without raising an OracleError."""
    try:
        checks.append(SelfTestCheck(check=name, passed=True, detail=check()))
    except OracleError as error:
        checks.append(SelfTestCheck(check=name, passed=False, detail=str(error)))


def register(app: typer.Typer) -> None:
    app.command("selftest", epilog="Example: qos-oracle selftest --offline --json")(selftest)


def selftest(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Contact no endpoint; test keys and the database only."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Test keys, endpoints, contract, database and balances.

    Exit code 1 if a check fails. Each key signs data that no contract accepts: a report of round
    0, and a call with a nonce that no account reaches. Nothing is sent or written.
    """
    checks: list[SelfTestCheck] = []
    loaded_config = load_config(config)
    with ExitStack() as stack:
        open_database = cache(lambda: stack.enter_context(open_records(loaded_config)))
        _run_check(checks, "database", lambda: _check_lease(open_database().store))
        records = open_database() if checks[0].passed else None
        store = None if records is None else records.store
        capability_cache = CapabilityCache(store, unix_seconds)

        @cache
        def open_endpoints() -> ChainSource:
            return stack.enter_context(
                open_chain(loaded_config, open_reader(loaded_config), capability_cache)
            )

        open_key = make_key_opener(loaded_config)
        if not offline:
            _check_chain_access(loaded_config, open_endpoints, open_key, store, checks)
        _check_keys(loaded_config, open_key, None if offline else open_endpoints, checks)
        _run_check(checks, "keys apart", partial(_check_keys_are_distinct, open_key))
        if not offline and records is not None:
            _check_nonces(records, open_key, checks)
    if as_json:
        print_model(checks)
    else:
        rows = [
            [result.check, "ok" if result.passed else "FAILED", result.detail] for result in checks
        ]
        columns = ("check", "result", "detail")
        print_table(columns, rows, left_columns=columns, width=WIDE_TABLE_WIDTH)
    failed_count = sum(not result.passed for result in checks)
    if failed_count:
        raise FatalError(f"{config}: {failed_count} of {len(checks)} checks failed")


def _check_chain_access(
    config: Config,
    open_endpoints: _OpenEndpoints,
    open_key: OpenKey,
    store: Store | None,
    checks: list[SelfTestCheck],
) -> None:
    for position in range(len(config.chain.endpoints)):
        _run_check(
            checks,
            f"endpoint {position + 1}",
            partial(_check_endpoint, config, open_endpoints, position),
        )
    if config.oracle.address is not None:
        _run_check(
            checks, "contract", partial(_check_contract, config, open_endpoints, open_key, store)
        )


def _check_keys(
    config: Config,
    open_key: OpenKey,
    open_endpoints: _OpenEndpoints | None,
    checks: list[SelfTestCheck],
) -> None:
    """Check each key, and its balance if `open_endpoints` is given."""
    for role in ROLES:
        if config.keys.has_key(role):
            _run_check(checks, role, partial(_check_key_can_sign, config, open_key, role))
            if role != "signer" and open_endpoints is not None:
                _run_check(
                    checks,
                    f"{role}'s balance",
                    partial(_check_balance, config, open_endpoints, open_key, role),
                )


def _check_lease(store: Store) -> str:
    """Check that the database can be read, and describe who holds the lease.

    The check fails if there is no database with the schema of this version.
    """
    with store.read_transaction() as uow:
        holder = find_leader(uow.lease.get_state())
    return "the lease is free" if holder is None else f"the lease is held by {holder}"


def _check_endpoint(config: Config, open_endpoints: _OpenEndpoints, position: int) -> str:
    """Check that one endpoint serves the configured chain."""
    chain_id = config.chain.id
    with reopen_endpoints(config, open_endpoints()) as pool:
        caller = pool.create_view().callers[position]
        if not caller.serves_chain(chain_id):
            raise InputError(f"{caller.name}: the endpoint does not serve chain {chain_id}")
        return f"{caller.name} serves chain {chain_id}"


def _check_contract(
    config: Config, open_endpoints: _OpenEndpoints, open_key: OpenKey, store: Store | None
) -> str:
    """Compare the contract's code, rules, signers and limits with the configuration."""
    reader = open_reader(config)
    expected_contract = build_expected_contract(config, reader, open_reporter_keys(open_key))
    chain = check_chain(config, open_endpoints(), store)
    address = get_oracle_address(config)
    pool_view = open_report_account(config, chain).pool_view
    contract_configuration, mismatches = inspect_roots_contract(
        pool_view, address, expected_contract
    )
    if mismatches:
        raise InputError("; ".join(difference.format_line() for difference in mismatches))
    check_hot_set_contract(config, pool_view, contract_configuration)
    check_objections(config, pool_view, contract_configuration)
    return f"{address} matches the configuration, rules {compute_rules_hash(config, reader)}"


def _check_key_can_sign(config: Config, open_key: OpenKey, role: Role) -> str:
    """Open a key, and check that the key can sign void data."""
    signer = _open_required_signer(open_key, role)
    chain_id = config.chain.id
    if role == "signer":
        sign_void_statement(signer, Domain(chain_id, get_oracle_address(config)))
        return f"{signer.address} signed a void report for chain {chain_id}"
    if role == "transmitter":
        contract_address = get_oracle_address(config)
        calldata = encode_push_report_call(VOID_STATEMENT, 0, b"")
    else:
        contract_address = Address(config.network.contracts["TaskNetwork"])
        calldata = encode_start_task_call(_VOID_TASK, signer.address)
    sign_void_transaction(signer, chain_id, contract_address, calldata)
    return f"{signer.address} signed a void transaction for chain {chain_id}"


def _check_balance(
    config: Config, open_endpoints: _OpenEndpoints, open_key: OpenKey, role: Role
) -> str:
    signer = _open_required_signer(open_key, role)
    with reopen_endpoints(config, open_endpoints()) as pool:
        balance_wei = fetch_balance(pool.create_view(), signer.address)
    if balance_wei == 0:
        raise InputError(f"{signer.address} has no ether, so nothing can be sent")
    return f"{signer.address} has {format_decimal(balance_wei)} ether"


def _check_keys_are_distinct(open_key: OpenKey) -> str:
    """Check that no two roles share a key.

    A key that cannot be opened is skipped here, because it fails another check.
    """
    address_by_role: dict[Role, Address | None] = {}
    for role in ROLES:
        with suppress(OracleError):
            signer = open_key(role)
            address_by_role[role] = None if signer is None else signer.address
    fault = describe_shared_key(address_by_role)
    if fault is not None:
        raise InputError(fault)
    return "no two roles have the same key"


def _check_nonces(records: Records, open_key: OpenKey, checks: list[SelfTestCheck]) -> None:
    """Check that no lost database or key used elsewhere will make `run` refuse to start."""
    config = records.config
    if config.keys.has_key("transmitter") and config.oracle.address is not None:
        _run_check(
            checks, "transmitter's nonces", lambda: _check_transmitter_nonces(records, open_key)
        )
    if config.keys.has_key("dispatcher") and records.dispatch_settings is not None:
        _run_check(
            checks, "dispatcher's nonces", lambda: _check_dispatcher_nonces(records, open_key)
        )


def _check_transmitter_nonces(records: Records, open_key: OpenKey) -> str:
    with open_index(records) as index, open_reporter(index, open_key) as reporter:
        get_checked_chain(index)
        return _compare_nonces_with_chain(
            open_reporter_contexts(reporter, 0, unix_seconds).account_context
        )


def _check_dispatcher_nonces(records: Records, open_key: OpenKey) -> str:
    with open_index(records) as index:
        get_checked_chain(index)
        return _compare_nonces_with_chain(
            open_dispatch_context(index, open_key, 0, unix_seconds).account_context
        )


def _compare_nonces_with_chain(context: AccountContext) -> str:
    unused_text = "the key has never sent a transaction; nonces start at 0"
    nonce_difference = describe_dry_run(
        lambda: reconcile_nonces(build_dry_run_context(context)), unused_text
    )
    return nonce_difference or "the database matches the nonces on-chain"


def _open_required_signer(open_key: OpenKey, role: Role) -> Signer:
    signer = open_key(role)
    if signer is None:
        raise InputError(f"keys.{role}: no key is configured")
    return signer
