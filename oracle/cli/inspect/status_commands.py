"""`status`: how far we are, and what stands still. It only reads."""

import time
from collections.abc import Iterator
from itertools import chain

import typer

from oracle.cli.inspect.catching_up import Progress, progress
from oracle.cli.inspect.refused_senders import refused_findings, with_refused, without_advice
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_folded, print_answer
from oracle.daemon.app import App
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.blocks import BlockRef
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.errors import InputError
from oracle.indexer.rules_binding import shown
from oracle.queries.contract_view import AccountBalance, ChainView, account_balance, ask_chain
from oracle.queries.endpoint_view import EndpointView, recall
from oracle.queries.feed_view import feed_lines
from oracle.queries.health import (
    findings_from_chain_view,
    health_of,
    is_reported_now,
    report_findings,
)
from oracle.queries.operator_status import operator_status
from oracle.queries.status import StatusReport, overview
from oracle.queries.text.certainty_text import certainty_of
from oracle.queries.text.status_text import shown_time, situation
from oracle.queries.text.text_tables import print_facts

_NAME_WIDTH = 14


def register(app: typer.Typer) -> None:
    """Put `status` on the command line."""
    app.command("status", epilog="Example: qos-oracle status --json")(status)


def status(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Say what stands still and why, how far the database has come, and what is under way.

    Exit code 0: well; 1: something needs attention; 2: nothing goes on. What is wrong is in
    capital letters, and first, as the daemon reported it last. Ages are by this machine's clock,
    too. Where a daemon catches up, it is watched for two seconds, to say until when. An endpoint
    tells where chain and contract are, and what the dispatcher has; where none answers that is
    unknown. How the endpoints are is what the daemon saw of them last.
    """
    since = time.monotonic()
    with open_folded(config) as app:
        seen, account_balance = overview(app.store, worker), _balance_of_dispatcher(app)
        looked = _read_chain_view(app, seen.folded)
        if looked.head is not None:
            seen = with_refused(app, seen)
        is_on, endpoints = app.dispatch_settings is not None, recall(app.source, app.facts)
        settings = None if app.config.oracle.address is None else app.report_settings
        now = int(unix_seconds())
        unproven, surety = certainty_of(app.store, app.source, app.folder.scope)
        health = _judged(app, seen, looked, now, unproven)
        ahead = _progress(app, seen, looked, health, since)
    if as_json:
        print_answer(
            operator_status(
                seen,
                health=health,
                chain=looked,
                endpoints=endpoints,
                dispatcher=account_balance,
                catching_up=None if ahead is None else ahead.view(now),
            )
        )
        raise typer.Exit(health.severity)
    others = chain(
        feed_lines(seen.feed),
        _of_reading(seen, endpoints),
        _lines(seen, account_balance, is_on=is_on),
    )
    first = [("health", health.text())]
    if ahead is not None:
        first.append(("catching up", ahead.text(now)))
    wrong = ((one.condition.label, one.detail) for one in health.findings)
    how = situation(seen, looked, settings, now)
    print_facts(chain(first, wrong, how, surety, others), _NAME_WIDTH)
    raise typer.Exit(health.severity)


def _judged(
    app: App, seen: StatusReport, looked: ChainView, now: int, unproven: list[HealthFinding]
) -> HealthReport:
    """Return the health; where no daemon reports, by one look at the chain of our own."""
    with app.store.reading() as uow:
        health, is_reported = health_of(uow, worker), is_reported_now(uow, worker)
    has_contract = app.config.oracle.address is not None
    heartbeat = app.report_settings.heartbeat_seconds if has_contract else None
    own = (
        report_findings(looked, heartbeat)
        if is_reported
        else findings_from_chain_view(seen, looked, heartbeat, now)
    )
    found = [*health.findings, *refused_findings(seen), *unproven]
    return without_advice(HealthReport.of(found).merge(own), looked)


def _progress(
    app: App, seen: StatusReport, looked: ChainView, health: HealthReport, since: float
) -> Progress | None:
    """Return how fast who works on the database catches up; None: nobody does, or need to."""
    if seen.folded is None or looked.head is None or seen.lease is None:
        return None
    if Condition.BEHIND not in health.conditions:
        return None
    return progress(app.store, seen.folded, since, looked.head.number, time.sleep)


def _read_chain_view(app: App, folded: BlockRef | None) -> ChainView:
    number = None if folded is None else folded.number
    with app.fresh_endpoints() as endpoints:
        return ask_chain(endpoints, app.config.oracle.address, number)


def _balance_of_dispatcher(app: App) -> AccountBalance | None:
    """Return what starts of tasks are paid from; None: nobody is drawn, or there is no key."""
    try:
        address = app.dispatcher_address()
    except InputError as error:
        return AccountBalance(address=None, balance_wei=None, unknown=str(error))
    if address is None:
        return None
    with app.fresh_endpoints() as endpoints:
        return account_balance(endpoints, address)


def _lines(
    seen: StatusReport, account_balance: AccountBalance | None, *, is_on: bool
) -> Iterator[tuple[str, str]]:
    if seen.network.chain_id is None:
        yield "chain", "not known yet; `qos-oracle run --once` indexes it"
        return
    yield "chain", f"{seen.network.chain_id}, from block {seen.network.start_block}"
    if seen.rules is not None:
        yield "rules", shown(seen.rules)
    if seen.folded is not None:
        yield "final", "unknown" if seen.final is None else f"block {seen.final}"
    counts = [f"{count} {name.replace('_', ' ')}" for name, count in sorted(seen.nodes.items())]
    yield "nodes", ", ".join(counts) or "none"
    for kept in seen.reports:
        reason = f": {kept.reason}" if kept.reason else ""
        yield "report", f"period {kept.report.period}, {kept.outcome}{reason}"
    for calls in seen.network.outbox:
        yield "outbox", f"{calls.count} {calls.kind} {calls.state}"
    yield from _of_tasks(seen, account_balance, is_on=is_on)
    yield "anomalies", str(seen.network.anomalies)


def _of_reading(seen: StatusReport, endpoints: list[EndpointView]) -> Iterator[tuple[str, str]]:
    """Say who tells us of the chain, and how sure we are."""
    for view in endpoints:
        head = "" if view.head is None else f", at block {view.head}"
        # Who has nothing to do is hardly asked: that it lags is not known.
        lag = (
            ""
            if not view.lag_blocks
            else f" when it was asked last, {view.lag_blocks} below the newest"
        )
        yield "endpoint", f"{view.endpoint}{head}{lag}, {view.state}"
    levels = [f"{blocks} {level}" for level, blocks in seen.network.levels.items()]
    yield "blocks read", ", ".join(levels) or "none"
    yield "dead letters", str(seen.network.dead_letters)
    reorg = seen.network.last_reorg
    if reorg is not None:
        when = shown_time(reorg.time)
        yield "last fork", f"{reorg.depth} blocks above block {reorg.ancestor}, {when}"


def _of_tasks(
    seen: StatusReport, account_balance: AccountBalance | None, *, is_on: bool
) -> Iterator[tuple[str, str]]:
    """Say what waits to be given out, and by whom."""
    yield "tasks", f"{seen.network.tasks_waiting} waiting"
    if is_on or seen.network.draws_standing:
        since = "" if seen.oldest_draw is None else f", the oldest of block {seen.oldest_draw}"
        yield "draws", f"{seen.network.draws_standing} standing{since}"
    if is_on:
        yield (
            "dispatcher",
            "no key: nothing is started" if account_balance is None else account_balance.text(),
        )
