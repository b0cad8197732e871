"""Implements `status`, which prints health, progress and pending work, and writes nothing."""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from oracle.bindings.qos_words import WordsContract
from oracle.chain.source import ChainSource
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_model
from oracle.daemon.chain_endpoints import CapabilityCache, open_chain, reopen_endpoints
from oracle.daemon.config.loader import Config
from oracle.daemon.configured_keys import find_dispatcher_address, make_key_opener
from oracle.daemon.event_readers import open_reader
from oracle.daemon.lease_keeper import find_leader
from oracle.daemon.records import Records, open_folded_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.blocks import BlockRef
from oracle.domain.coverage import IngestScope
from oracle.domain.health import Condition, HealthReport
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.hot_set.hot_set_rounds import measure_hot_set_lag
from oracle.indexer.provenance import build_ingest_scope
from oracle.indexer.round_leaves import LeafCache
from oracle.queries.answers import BlockView
from oracle.queries.contract_view import (
    AccountBalance,
    ChainView,
    fetch_account_balance,
    fetch_chain_view,
)
from oracle.queries.endpoint_view import load_endpoint_views
from oracle.queries.feed_view import format_feed_lines
from oracle.queries.health import (
    build_health_report,
    build_pause_finding,
    has_current_health_report,
    list_chain_findings,
    list_contract_findings,
)
from oracle.queries.status import add_chain_view, load_operator_status
from oracle.queries.status_models import (
    CatchingUp,
    OperatorStatus,
    build_operator_health,
    build_sender_view,
)
from oracle.queries.text.status_text import (
    format_catch_up_progress,
    format_endpoint_lines,
    format_index_lines,
    format_progress_lines,
    load_proof_status,
)
from oracle.queries.text.text_tables import print_facts
from oracle.rpc.fanout import PoolView
from oracle.store.database import Store
from oracle.store.outbox.records import Account, Pause, PauseKind
from oracle.telemetry.outbox_counts import HotSetLag
from oracle.txmgr.nonce_sync import find_start_refusal_reason

# Timeout in seconds. `status` waits only briefly for a response.
_TIMEOUT_SECONDS = 3.0
# Minimum time to watch, in seconds. The indexer commits about once per second, so a shorter time
# would see at most one commit.
_MIN_WATCH_SECONDS = 2.0
_NAME_WIDTH = 14


def register(app: typer.Typer) -> None:
    app.command("status", epilog="Example: qos-oracle status --json")(show_status)


def show_status(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show health problems, indexing progress and pending work.

    Exit code 0: healthy; 1: something needs attention; 2: indexing or sending has stopped.
    Problems come first, in capital letters, as last reported by the daemon. Ages also use this
    machine's clock. While a daemon catches up, the command measures its progress for two seconds
    to estimate the remaining time. Chain head, contract state and dispatcher balance are read from
    an endpoint, and are unknown if none responds. The states of the endpoints are as last reported
    by the daemon.
    """
    started_at = time.monotonic()
    with (
        open_folded_records(load_config(config)) as records,
        _open_endpoints(records) as (chain, endpoint_facts, scope),
    ):
        with records.store.read_transaction() as uow:
            reported_health = build_health_report(uow, find_leader)
            is_reported = has_current_health_report(uow, find_leader)
        status = load_operator_status(
            records.store,
            find_leader,
            health=reported_health,
            endpoints=load_endpoint_views(chain, endpoint_facts),
            dispatcher=_fetch_dispatcher_balance(records.config, chain),
        )
        chain_view = _read_chain_view(records, chain, status.folded)
        status = add_chain_view(status, chain_view)
        has_dispatch = records.dispatch_settings is not None
        has_contract = records.config.oracle.address is not None
        heartbeat = records.report_settings.heartbeat_seconds if has_contract else None
        now = int(unix_seconds())
        unproven_findings, verification_facts = load_proof_status(records.store, chain, scope)
        # Without a recent report from a daemon, all findings about the chain come from the view.
        chain_findings = (
            list_contract_findings(chain_view, heartbeat)
            if is_reported
            else list_chain_findings(status, chain_view, heartbeat, now)
        )
        refused_senders = {} if chain_view.head is None else _find_refused_senders(records, chain)
        sender_findings = [build_pause_finding(*sender) for sender in refused_senders.items()]
        health = _remove_funding_advice(
            HealthReport.from_findings(
                [*reported_health.findings, *sender_findings, *unproven_findings]
            ).merge(chain_findings),
            chain_view,
        )
        refused_views = {
            account.address: build_sender_view(account, pause)
            for account, pause in refused_senders.items()
        }
        full_status = status.model_copy(
            update={
                "health": build_operator_health(health),
                "catching_up": _measure_catch_up_speed(
                    records.store, status, health, started_at, now
                ),
                "senders": [
                    refused_views.get(Address(sender.address), sender) for sender in status.senders
                ],
            }
        )
    if as_json:
        print_model(full_status)
        raise typer.Exit(health.severity)
    leading_facts = [("health", health.format_line())]
    if full_status.catching_up is not None:
        leading_facts.append(
            ("catching up", format_catch_up_progress(full_status.catching_up, now))
        )
    finding_facts = ((finding.condition.label, finding.detail) for finding in health.findings)
    facts = itertools.chain(
        leading_facts,
        finding_facts,
        format_progress_lines(full_status, heartbeat, now),
        verification_facts,
        format_feed_lines(full_status.feed),
        format_endpoint_lines(full_status),
        format_index_lines(full_status, has_dispatch=has_dispatch),
    )
    print_facts(facts, _NAME_WIDTH)
    raise typer.Exit(health.severity)


@contextmanager
def _open_endpoints(
    records: Records,
) -> Iterator[tuple[ChainSource, CapabilityCache, IngestScope]]:
    """Open the endpoints with their capability cache and the ingest scope."""
    reader = open_reader(records.config)
    endpoint_facts = CapabilityCache(records.store, unix_seconds)
    with open_chain(records.config, reader, endpoint_facts) as chain:
        yield chain, endpoint_facts, build_ingest_scope(reader)


def _measure_catch_up_speed(
    store: Store, status: OperatorStatus, health: HealthReport, started_at: float, now: int
) -> CatchingUp | None:
    """Measure how fast the lease holder's process catches up.

    The result is None if no process holds the lease, or if the index is not behind.
    """
    is_behind = Condition.BEHIND in health.conditions
    if status.folded is None or status.head is None or status.lease is None or not is_behind:
        return None
    start_block = status.folded.number
    return measure_catch_up(store, start_block, started_at, status.head, time.sleep, now)


def _read_chain_view(
    records: Records, chain: ChainSource, folded_block: BlockView | None
) -> ChainView:
    block_number = None if folded_block is None else folded_block.number
    hot_set_address = records.config.hot_set.address

    def measure_hot_set(pool_view: PoolView, block: BlockRef) -> HotSetLag | None:
        contract = WordsContract(pool_view, Address(hot_set_address or ""))
        return measure_hot_set_lag(records.store, LeafCache(), contract, block)

    with reopen_endpoints(records.config, chain) as endpoints:
        return fetch_chain_view(
            endpoints,
            records.config.oracle.address,
            block_number,
            None if hot_set_address is None else measure_hot_set,
        )


def _fetch_dispatcher_balance(config: Config, chain: ChainSource) -> AccountBalance | None:
    """Return the dispatcher's balance, or None if dispatch is off or has no key."""
    try:
        address = find_dispatcher_address(config, make_key_opener(config))
    except InputError as error:
        return AccountBalance(address=None, balance_wei=None, unknown=str(error))
    if address is None:
        return None
    with reopen_endpoints(config, chain) as endpoints:
        return fetch_account_balance(endpoints, address)


def _find_refused_senders(records: Records, chain: ChainSource) -> dict[Account, Pause]:
    """Return a pause for each sender that `run` would refuse because of its nonces.

    Such a sender's nonce is ahead on-chain, or the sender's nonces are lost.

    `run` refuses such a sender at its start, before a pause can be stored, so the database does
    not contain the pause. An old copy of a database, for example, shows no problem by itself.
    """
    with records.store.read_transaction() as uow:
        unpaused_accounts = [
            account
            for account in uow.outbox.counts.get_nonce_progress_by_account()
            if uow.outbox.accounts.find_pause(account) is None
        ]
    with reopen_endpoints(records.config, chain) as pool:
        pool_view = pool.create_view(_TIMEOUT_SECONDS)
        return {
            account: Pause(PauseKind.FOREIGN, reason)
            for account in unpaused_accounts
            if (reason := find_start_refusal_reason(records.store, pool_view, account)) is not None
        }


def _remove_funding_advice(health: HealthReport, chain_view: ChainView) -> HealthReport:
    """Remove advice on funding from a health report if the chain is unreachable.

    The balances in the report may be of another chain, on which the sender accounts never existed.
    """
    if chain_view.head is not None:
        return health
    unknown_note = f"the present balance is unknown: {chain_view.unknown_reason}"
    return HealthReport(
        tuple(
            finding._replace(
                detail=f"{finding.detail.rpartition('; send ether')[0]}; {unknown_note}"
            )
            if finding.condition is Condition.SENDER_FUNDS
            else finding
            for finding in health.findings
        )
    )


def measure_catch_up(
    store: Store,
    start_block: int,
    started_at: float,
    head_number: int,
    sleep: Callable[[float], None],
    now: int,
) -> CatchingUp:
    """Measure how far the cursor moves beyond `start_block` in a few seconds.

    `started_at` is the time at which `start_block` was read, on the monotonic clock. `head_number`
    is the newest block. `now` is in unix seconds of this machine's clock.
    """
    sleep(max(0.0, started_at + _MIN_WATCH_SECONDS - time.monotonic()))
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
    block_number = start_block if cursor is None else cursor.number
    blocks_left = max(0, head_number - block_number)
    blocks_folded = max(0, block_number - start_block)
    seconds = time.monotonic() - started_at
    return CatchingUp(
        blocks_left=blocks_left,
        blocks_per_second=blocks_folded / seconds,
        watched_seconds=seconds,
        until=now + round(blocks_left * seconds / blocks_folded) if blocks_folded else None,
    )
