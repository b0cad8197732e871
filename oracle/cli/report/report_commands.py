"""`report show`: what a period says about every node, as it was cut and computed anew."""

from typing import Annotated

import typer

from oracle.bindings.qos_oracle import REGISTRATION_GAS
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_folded, print_json
from oracle.daemon.app import App
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_data import decode_records
from oracle.queries.legacy_answers import share_answer
from oracle.queries.reports.report_view import ReportLane, ReportView, report_view
from oracle.queries.text.text_tables import WIDE, print_table
from oracle.reporting.recompute import last_block_of
from oracle.store.reports.report_repository import StoredReport

_QOS_STEPS = 10_000
_COLUMNS = ("period", "as of block", "round", "words", "new nodes", "state", "reason")

report = typer.Typer(no_args_is_help=True)

_PeriodOption = Annotated[
    int | None, typer.Option("--period", min=0, metavar="P", help="Only this period, in full.")
]


def register(app: typer.Typer) -> None:
    """Put `report` on the command line."""
    app.add_typer(report, name="report", help="What periods say about nodes.")


@report.command(epilog="Example: qos-oracle report show --period 29764920 --json")
def show(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    period: _PeriodOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest reports, or compute one period's anew from the stored logs.

    The computed report is compared with the one that was cut; exit code 1 if they differ.
    """
    with open_folded(config) as app:
        if period is None:
            _list(app, as_json=as_json)
            return
        _show(app, period, as_json=as_json)


def _list(app: App, *, as_json: bool) -> None:
    with app.store.reading() as uow:
        stored = uow.reports.latest()
    if as_json:
        print_json([{**report_facts(one.report), **_fate(one)} for one in stored])
        return
    if not stored:
        typer.echo("no report was cut yet: that begins when the index is at the chain's head")
        return
    print_table(_COLUMNS, map(_row, stored), left=("state", "reason"), width=WIDE)


def _row(one: StoredReport) -> list[str]:
    words = len(decode_records(one.report.records))
    number = "" if one.round is None else str(one.round)
    new = len(one.report.registrations.fresh)
    facts = (one.report.period, one.report.as_of.number, number, words, new, one.outcome)
    return [*map(str, facts), one.reason or ""]


def _show(app: App, period: int, *, as_json: bool) -> None:
    settings = app.report_settings
    as_of = last_block_of(app.chain, app.store, period, settings.period_seconds)
    seen = report_view(app.store, app.reader, app.rules, settings, as_of)
    if as_json:
        fate = {} if seen.stored is None else _fate(seen.stored)
        lanes = [_lane(one) for one in seen.lanes]
        print_json(
            {**report_facts(seen.computed), **fate, "same_as_cut": seen.comparison, "lanes": lanes}
        )
    else:
        _print_one(seen, has_shares=app.rules.legacy is not None)
    if seen.comparison is False:
        raise typer.Exit(1)


def _lane(one: ReportLane) -> dict[str, object]:
    return {
        "index": one.index,
        "node": one.node,
        "says": _spoken(one.lane),
        "incentive_share": share_answer(one.incentive_share),
    }


def _print_one(seen: ReportView, *, has_shares: bool) -> None:
    computed, stored = seen.computed, seen.stored
    when = f"as of block {computed.as_of.number} (time {computed.as_of.time})"
    typer.echo(f"period {computed.period}, {when}, on top of round {computed.head_round}")
    if stored is None:
        typer.echo("no report was cut for it: this one was computed from the stored logs")
    else:
        words = "the same" if stored.report == computed else "NOT the same"
        reason = f": {stored.reason}" if stored.reason else ""
        typer.echo(f"{stored.outcome}{reason}; computed anew it is {words}")
    if not seen.lanes:
        typer.echo("it has nothing to say")
        return
    for fresh, old in computed.registrations.reused:
        typer.echo(f"{fresh} takes the index of {old}, which left")
    for fresh in computed.registrations.appended:
        typer.echo(f"{fresh} gets a new index")
    # Nobody has a share under rules that are not legacy ones.
    shown = 4 if has_shares else 3
    titles = ("lane", "node", "says", "incentive share")[:shown]
    print_table(titles, (_cells(one)[:shown] for one in seen.lanes), left=titles[2:])


def _cells(one: ReportLane) -> list[str]:
    share = share_answer(one.incentive_share) or "-"
    return [str(one.index), one.node or "-", _spoken(one.lane), share]


def report_facts(found: Report) -> dict[str, object]:
    """Say of a report what it rests on, and its fingerprint."""
    return {
        "period": found.period,
        "as_of": {
            "block": found.as_of.number,
            "hash": found.as_of.hash,
            "time": found.as_of.time,
        },
        "head_round": found.head_round,
        "prev": found.prev,
        "deadline": found.deadline,
        "words": len(decode_records(found.records)),
        "registers": {
            "reused": [list(pair) for pair in found.registrations.reused],
            "appended": list(found.registrations.appended),
            "gas": REGISTRATION_GAS * len(found.registrations.fresh),
        },
        "fingerprint": found.fingerprint,
    }


def _fate(stored: StoredReport) -> dict[str, object]:
    return {
        "state": stored.outcome,
        "reason": stored.reason,
        "round": stored.round,
        "digest": stored.digest,
    }


def _spoken(lane: int) -> str:
    if lane == DO_NOT_SELECT:
        return "do not select"
    return f"{(lane - LOWEST_SCORE) / _QOS_STEPS:.4f}"
