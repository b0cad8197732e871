"""`report show`: prints the scores in a period's report, and recomputes them to compare."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.daemon.compose import Index, check_index_chain, open_index
from oracle.daemon.records import Records, open_folded_records
from oracle.domain.fixed_point import format_decimal
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE
from oracle.queries.reports.report_models import ReportDetail, ReportEntry, ReportLane
from oracle.queries.reports.report_view import build_report_entry, compute_report_detail
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, print_table
from oracle.reporting.recompute import find_last_block

_QOS_STEPS = 10_000
_COLUMNS = ("period", "as of block", "round", "words", "new nodes", "state", "reason")

report = typer.Typer(no_args_is_help=True)

_PeriodOption = Annotated[
    int | None,
    typer.Option(
        "--period",
        min=0,
        metavar="P",
        help="Period to show in full. Default: list the newest reports.",
    ),
]


def register(app: typer.Typer) -> None:
    """Register `report` on the command line."""
    app.add_typer(report, name="report", help="Show, push, release and verify score reports.")


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
            _list_reports(records, as_json=as_json)
            return
        with open_index(records) as index:
            _show_report(index, period, as_json=as_json)


def _list_reports(records: Records, *, as_json: bool) -> None:
    with records.store.read_transaction() as uow:
        entries = [build_report_entry(stored) for stored in uow.reports.list_latest()]
    if as_json:
        print_answer(entries)
        return
    if not entries:
        typer.echo("no reports yet; the first is cut when the index reaches the chain head")
        return
    print_table(
        _COLUMNS,
        map(_format_row, entries),
        left_columns=("state", "reason"),
        width=WIDE_TABLE_WIDTH,
    )


def _format_row(entry: ReportEntry) -> list[str]:
    registers = entry.registers
    new_nodes = len(registers.reused) + len(registers.appended)
    round_text = "" if entry.round is None else str(entry.round)
    cells = (entry.period, entry.as_of, round_text, entry.words, new_nodes, entry.state)
    return [*map(str, cells), entry.reason or ""]


def _show_report(index: Index, period: int, *, as_json: bool) -> None:
    settings, chain = index.report_settings, check_index_chain(index)
    as_of = find_last_block(chain, index.store, period, settings.period_seconds)
    detail = compute_report_detail(index.store, index.reader, index.rules, settings, as_of)
    if as_json:
        print_answer(detail)
    else:
        _print_detail(detail, has_shares=index.rules.legacy is not None)
    if detail.is_wrong:
        raise typer.Exit(1)


def _print_detail(detail: ReportDetail, *, has_shares: bool) -> None:
    as_of_text = f"as of block {detail.as_of} (time {detail.as_of_time})"
    typer.echo(f"period {detail.period}, {as_of_text}, on top of round {detail.head_round}")
    if detail.state is None:
        typer.echo("no stored report for this period; recomputed from the stored logs")
    else:
        comparison = "identical" if detail.same_as_cut else "DIFFERENT"
        reason = f": {detail.reason}" if detail.reason else ""
        typer.echo(f"{detail.state}{reason}; the recomputed report is {comparison}")
    if not detail.lanes:
        typer.echo("the report contains no updates")
        return
    for new_node, previous_node in detail.registers.reused:
        typer.echo(f"{new_node} takes the index of {previous_node}, which left")
    for new_node in detail.registers.appended:
        typer.echo(f"{new_node} gets a new index")
    # Incentive shares exist only under legacy rules.
    column_count = 4 if has_shares else 3
    titles = ("lane", "node", "score", "incentive share")[:column_count]
    print_table(
        titles,
        (_format_lane_row(lane)[:column_count] for lane in detail.lanes),
        left_columns=titles[2:],
    )


def _format_lane_row(lane: ReportLane) -> list[str]:
    share_text = "-" if lane.incentive_share is None else format_decimal(lane.incentive_share)
    return [str(lane.index), lane.node or "-", format_report_lane(lane.lane), share_text]


def format_report_lane(lane: int) -> str:
    """Return the QoS of a lane with four digits, or "do not select"."""
    if lane == DO_NOT_SELECT:
        return "do not select"
    return f"{(lane - LOWEST_SCORE) / _QOS_STEPS:.4f}"
