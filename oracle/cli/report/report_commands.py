"""`report show`: the scores in a period's report, as cut and as recomputed."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.daemon.compose import Index, check_chain_of, open_index
from oracle.daemon.records import Records, open_folded_records
from oracle.domain.fixed_point import decimal_text
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE
from oracle.queries.reports.report_models import ReportDetail, ReportEntry, ReportLane
from oracle.queries.reports.report_view import report_detail, report_entry
from oracle.queries.text.text_tables import WIDE, print_table
from oracle.reporting.recompute import last_block_of

_QOS_STEPS = 10_000
_COLUMNS = ("period", "as of block", "round", "words", "new nodes", "state", "reason")

report = typer.Typer(no_args_is_help=True)

_PeriodOption = Annotated[
    int | None, typer.Option("--period", min=0, metavar="P", help="Only this period, in full.")
]


def register(app: typer.Typer) -> None:
    """Register `report` on the command line."""
    app.add_typer(report, name="report", help="What periods say about nodes.")


@report.command(epilog="Example: qos-oracle report show --period 29764920 --json")
def show(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    period: _PeriodOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest reports, or recompute the report of one period.

    The report is recomputed from the stored logs. The recomputed report is compared with the
    stored one; exit code 1 if they differ.
    """
    with open_folded_records(load_config(config)) as records:
        if period is None:
            _list(records, as_json=as_json)
            return
        with open_index(records) as index:
            _show(index, period, as_json=as_json)


def _list(records: Records, *, as_json: bool) -> None:
    with records.store.reading() as uow:
        entries = [report_entry(stored) for stored in uow.reports.latest()]
    if as_json:
        print_answer(entries)
        return
    if not entries:
        typer.echo("no report was cut yet: that begins when the index is at the chain's head")
        return
    print_table(_COLUMNS, map(_row, entries), left=("state", "reason"), width=WIDE)


def _row(entry: ReportEntry) -> list[str]:
    registers = entry.registers
    new_nodes = len(registers.reused) + len(registers.appended)
    number = "" if entry.round is None else str(entry.round)
    cells = (entry.period, entry.as_of, number, entry.words, new_nodes, entry.state)
    return [*map(str, cells), entry.reason or ""]


def _show(index: Index, period: int, *, as_json: bool) -> None:
    settings, chain = index.report_settings, check_chain_of(index)
    as_of = last_block_of(chain, index.store, period, settings.period_seconds)
    detail = report_detail(index.store, index.reader, index.rules, settings, as_of)
    if as_json:
        print_answer(detail)
    else:
        _print_detail(detail, has_shares=index.rules.legacy is not None)
    if detail.is_wrong:
        raise typer.Exit(1)


def _print_detail(detail: ReportDetail, *, has_shares: bool) -> None:
    when = f"as of block {detail.as_of} (time {detail.as_of_time})"
    typer.echo(f"period {detail.period}, {when}, on top of round {detail.head_round}")
    if detail.state is None:
        typer.echo("no report was cut for it: this one was computed from the stored logs")
    else:
        comparison = "the same" if detail.same_as_cut else "NOT the same"
        reason = f": {detail.reason}" if detail.reason else ""
        typer.echo(f"{detail.state}{reason}; computed anew it is {comparison}")
    if not detail.lanes:
        typer.echo("it has nothing to say")
        return
    for fresh, old in detail.registers.reused:
        typer.echo(f"{fresh} takes the index of {old}, which left")
    for fresh in detail.registers.appended:
        typer.echo(f"{fresh} gets a new index")
    # Incentive shares exist only under legacy rules.
    shown = 4 if has_shares else 3
    titles = ("lane", "node", "says", "incentive share")[:shown]
    print_table(titles, (_lane_cells(lane)[:shown] for lane in detail.lanes), left=titles[2:])


def _lane_cells(lane: ReportLane) -> list[str]:
    share = "-" if lane.incentive_share is None else decimal_text(lane.incentive_share)
    return [str(lane.index), lane.node or "-", lane_text(lane.lane), share]


def lane_text(lane: int) -> str:
    """Return the QoS of a lane with four digits, or "do not select"."""
    if lane == DO_NOT_SELECT:
        return "do not select"
    return f"{(lane - LOWEST_SCORE) / _QOS_STEPS:.4f}"
