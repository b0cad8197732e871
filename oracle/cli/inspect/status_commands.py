"""`status`: progress, health and pending work. The command only reads."""

import time
from itertools import chain

import typer

from oracle.cli.inspect.catching_up import watch_catching_up
from oracle.cli.inspect.refused_senders import refused_findings, with_refused, without_advice
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.daemon.compose import Index, fresh_endpoints, open_index
from oracle.daemon.lease.lease_keeper import worker
from oracle.daemon.records import open_folded_records
from oracle.daemon.senders import dispatcher_address, key_opener
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.blocks import BlockRef
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.errors import InputError
from oracle.queries.contract_view import AccountBalance, ChainView, account_balance, ask_chain
from oracle.queries.endpoint_view import recall
from oracle.queries.feed_view import feed_lines
from oracle.queries.health import (
    findings_from_chain_view,
    health_of,
    is_reported_now,
    report_findings,
)
from oracle.queries.operator_status import operator_status
from oracle.queries.status import StatusReport, overview
from oracle.queries.status_models import CatchingUp
from oracle.queries.text.certainty_text import certainty_of
from oracle.queries.text.status_text import catching_up_text, index_lines, reading_lines, situation
from oracle.queries.text.text_tables import print_facts

_NAME_WIDTH = 14


def register(app: typer.Typer) -> None:
    """Register `status` on the command line."""
    app.command("status", epilog="Example: qos-oracle status --json")(status)


def status(config: ConfigOption = DEFAULT_CONFIG, *, as_json: JsonOption = False) -> None:
    """Show health problems, indexing progress and pending work.

    Exit code 0: healthy; 1: something needs attention; 2: nothing progresses. Problems come first,
    in capital letters, as last reported by the daemon. Ages also use this machine's clock. While a
    daemon catches up, it is observed for two seconds to estimate the remaining time. Chain head,
    contract state and dispatcher balance are read from an endpoint, and are unknown if none
    responds. The state of the endpoints is the one last seen by the daemon.
    """
    since = time.monotonic()
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        seen, account_balance = overview(index.store, worker), _balance_of_dispatcher(index)
        looked = _read_chain_view(index, seen.folded)
        if looked.head is not None:
            seen = with_refused(index, seen)
        is_on, endpoints = index.dispatch_settings is not None, recall(index.chain, index.facts)
        has_contract = index.config.oracle.address is not None
        heartbeat = index.report_settings.heartbeat_seconds if has_contract else None
        now = int(unix_seconds())
        unproven, surety = certainty_of(index.store, index.chain, index.folder.scope)
        health = _judged(index, seen, looked, now, unproven)
        answer = operator_status(
            seen,
            health=health,
            chain=looked,
            endpoints=endpoints,
            dispatcher=account_balance,
            catching_up=_progress(index, seen, looked, health, since, now),
        )
    if as_json:
        print_answer(answer)
        raise typer.Exit(health.severity)
    first = [("health", health.text())]
    if answer.catching_up is not None:
        first.append(("catching up", catching_up_text(answer.catching_up, now)))
    wrong = ((finding.condition.label, finding.detail) for finding in health.findings)
    facts = chain(
        first,
        wrong,
        situation(answer, heartbeat, now),
        surety,
        feed_lines(answer.feed),
        reading_lines(answer),
        index_lines(answer, has_dispatch=is_on),
    )
    print_facts(facts, _NAME_WIDTH)
    raise typer.Exit(health.severity)


def _judged(
    index: Index, seen: StatusReport, looked: ChainView, now: int, unproven: list[HealthFinding]
) -> HealthReport:
    """Return the health; without a reporting daemon, derive it from the chain view."""
    with index.store.reading() as uow:
        health, is_reported = health_of(uow, worker), is_reported_now(uow, worker)
    has_contract = index.config.oracle.address is not None
    heartbeat = index.report_settings.heartbeat_seconds if has_contract else None
    own = (
        report_findings(looked, heartbeat)
        if is_reported
        else findings_from_chain_view(seen, looked, heartbeat, now)
    )
    found = [*health.findings, *refused_findings(seen), *unproven]
    return without_advice(HealthReport.of(found).merge(own), looked)


def _progress(
    index: Index,
    seen: StatusReport,
    looked: ChainView,
    health: HealthReport,
    since: float,
    now: int,
) -> CatchingUp | None:
    """Return the catch-up speed of the process that works on the database, or None.

    None means that no process holds the lease, or that none has to catch up.
    """
    if seen.folded is None or looked.head is None or seen.lease is None:
        return None
    if Condition.BEHIND not in health.conditions:
        return None
    return watch_catching_up(index.store, seen.folded, since, looked.head.number, time.sleep, now)


def _read_chain_view(index: Index, folded: BlockRef | None) -> ChainView:
    number = None if folded is None else folded.number
    with fresh_endpoints(index.config, index.chain) as endpoints:
        return ask_chain(endpoints, index.config.oracle.address, number)


def _balance_of_dispatcher(index: Index) -> AccountBalance | None:
    """Return the balance that pays for task starts; None if dispatch is off or has no key."""
    try:
        address = dispatcher_address(index.config, key_opener(index.config))
    except InputError as error:
        return AccountBalance(address=None, balance_wei=None, unknown=str(error))
    if address is None:
        return None
    with fresh_endpoints(index.config, index.chain) as endpoints:
        return account_balance(endpoints, address)
