"""`status`: prints health, progress and pending work. The command only reads."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import typer

from oracle.bindings.qos_words import WordsContract
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_model
from oracle.daemon.compose import Index, open_index, reopen_endpoints
from oracle.daemon.lease_keeper import find_leader
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import find_dispatcher_address, make_key_opener
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.blocks import BlockRef
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.domain.ids import Address
from oracle.errors import InputError
from oracle.hot_set.hot_set_rounds import measure_hot_set_lag
from oracle.indexer.round_leaves import LeafCache
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
from oracle.queries.status import StatusReport, build_operator_status, load_status_report
from oracle.queries.status_models import CatchingUp
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
from oracle.store.outbox.records import Pause, PauseKind
from oracle.telemetry.outbox_counts import HotSetLag
from oracle.txmgr.nonce_sync import find_start_refusal_reason

# Request timeout in seconds; a read-only command waits only briefly.
_TIMEOUT_SECONDS = 3.0
# The indexer commits about once per second; a shorter time would see no new block or one window.
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
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        status_report = load_status_report(index.store, find_leader)
        dispatcher_balance = _fetch_dispatcher_balance(index)
        chain_view = _read_chain_view(index, status_report.folded_block)
        if chain_view.head is not None:
            status_report = _mark_refused_senders_paused(index, status_report)
        has_dispatch = index.dispatch_settings is not None
        endpoints = load_endpoint_views(index.chain, index.endpoint_facts)
        has_contract = index.config.oracle.address is not None
        heartbeat = index.report_settings.heartbeat_seconds if has_contract else None
        now = int(unix_seconds())
        unproven_findings, verification_facts = load_proof_status(
            index.store, index.chain, index.folder.scope
        )
        health = _assess_health(index, status_report, chain_view, now, unproven_findings)
        answer = build_operator_status(
            status_report,
            health=health,
            chain=chain_view,
            endpoints=endpoints,
            dispatcher=dispatcher_balance,
            catching_up=_measure_catch_up_speed(
                index, status_report, chain_view, health, started_at, now
            ),
        )
    if as_json:
        print_model(answer)
        raise typer.Exit(health.severity)
    leading_facts = [("health", health.format_line())]
    if answer.catching_up is not None:
        leading_facts.append(("catching up", format_catch_up_progress(answer.catching_up, now)))
    finding_facts = ((finding.condition.label, finding.detail) for finding in health.findings)
    facts = chain(
        leading_facts,
        finding_facts,
        format_progress_lines(answer, heartbeat, now),
        verification_facts,
        format_feed_lines(answer.feed),
        format_endpoint_lines(answer),
        format_index_lines(answer, has_dispatch=has_dispatch),
    )
    print_facts(facts, _NAME_WIDTH)
    raise typer.Exit(health.severity)


def _assess_health(
    index: Index,
    status_report: StatusReport,
    chain_view: ChainView,
    now: int,
    unproven_findings: list[HealthFinding],
) -> HealthReport:
    """Return the stored health report, merged with findings from the chain view.

    If no daemon has reported recently, the chain view is used for all findings about the chain.
    """
    with index.store.read_transaction() as uow:
        health = build_health_report(uow, find_leader)
        is_reported = has_current_health_report(uow, find_leader)
    has_contract = index.config.oracle.address is not None
    heartbeat = index.report_settings.heartbeat_seconds if has_contract else None
    direct_findings = (
        list_contract_findings(chain_view, heartbeat)
        if is_reported
        else list_chain_findings(status_report, chain_view, heartbeat, now)
    )
    findings = [*health.findings, *_list_paused_sender_findings(status_report), *unproven_findings]
    return _remove_funding_advice(
        HealthReport.from_findings(findings).merge(direct_findings), chain_view
    )


def _measure_catch_up_speed(
    index: Index,
    status_report: StatusReport,
    chain_view: ChainView,
    health: HealthReport,
    started_at: float,
    now: int,
) -> CatchingUp | None:
    """Return the catch-up speed of the process that holds the lease, or None.

    The result is None if no process holds the lease, or if the index is not behind.
    """
    if (
        status_report.folded_block is None
        or chain_view.head is None
        or status_report.lease_holder is None
    ):
        return None
    if Condition.BEHIND not in health.conditions:
        return None
    return measure_catch_up(
        index.store,
        status_report.folded_block,
        started_at,
        chain_view.head.number,
        time.sleep,
        now,
    )


def _read_chain_view(index: Index, folded_block: BlockRef | None) -> ChainView:
    block_number = None if folded_block is None else folded_block.number
    hot_set = index.config.hot_set.address

    def measure_hot_set(pool_view: PoolView, block: BlockRef) -> HotSetLag | None:
        contract = WordsContract(pool_view, Address(hot_set or ""))
        return measure_hot_set_lag(index.store, LeafCache(), contract, block)

    with reopen_endpoints(index.config, index.chain) as endpoints:
        return fetch_chain_view(
            endpoints,
            index.config.oracle.address,
            block_number,
            None if hot_set is None else measure_hot_set,
        )


def _fetch_dispatcher_balance(index: Index) -> AccountBalance | None:
    """Return the dispatcher's balance, or None if dispatch is off or has no key."""
    try:
        address = find_dispatcher_address(index.config, make_key_opener(index.config))
    except InputError as error:
        return AccountBalance(address=None, balance_wei=None, unknown=str(error))
    if address is None:
        return None
    with reopen_endpoints(index.config, index.chain) as endpoints:
        return fetch_account_balance(endpoints, address)


def _mark_refused_senders_paused(index: Index, status_report: StatusReport) -> StatusReport:
    """Mark as paused each sender whose nonce is ahead on-chain, or whose nonces are lost.

    `run` refuses such a sender at its start, before it can store a pause. The database therefore
    does not contain the pause. An old copy of a database, for example, shows no problem by itself.
    """
    with reopen_endpoints(index.config, index.chain) as pool:
        pool_view = pool.create_view(_TIMEOUT_SECONDS)
        reason_by_account = {
            account: find_start_refusal_reason(index.store, pool_view, account)
            for account, pause in status_report.pause_by_account.items()
            if pause is None
        }
    pause_by_account = {
        account: Pause(PauseKind.FOREIGN, reason)
        for account, reason in reason_by_account.items()
        if reason is not None
    }
    return replace(
        status_report, pause_by_account={**status_report.pause_by_account, **pause_by_account}
    )


def _list_paused_sender_findings(status_report: StatusReport) -> list[HealthFinding]:
    """Return a finding for each paused sender, including those that `run` would refuse."""
    return [
        build_pause_finding(account, pause)
        for account, pause in status_report.pause_by_account.items()
        if pause is not None
    ]


def _remove_funding_advice(health: HealthReport, chain_view: ChainView) -> HealthReport:
    """Return the health report without funding advice if the chain is unreachable.

    The endpoint may serve another chain, on which the sender accounts never existed.
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
    start_block: BlockRef,
    started_at: float,
    head_number: int,
    sleep: Callable[[float], None],
    now: int,
) -> CatchingUp:
    """Measure how far the cursor advances from `start_block` in a few seconds.

    `started_at` is the time at which `start_block` was read, on the monotonic clock. `head_number`
    is the newest block. `now` is in unix seconds of this machine's clock.
    """
    sleep(max(0.0, started_at + _MIN_WATCH_SECONDS - time.monotonic()))
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
    block_number = start_block.number if cursor is None else cursor.number
    blocks_left = max(0, head_number - block_number)
    blocks_folded = max(0, block_number - start_block.number)
    seconds = time.monotonic() - started_at
    return CatchingUp(
        blocks_left=blocks_left,
        blocks_per_second=blocks_folded / seconds,
        watched_seconds=seconds,
        until=now + round(blocks_left * seconds / blocks_folded) if blocks_folded else None,
    )
