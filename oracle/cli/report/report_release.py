"""`report release`: lists reports held by the sanity gate, and releases one after review."""

from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    DryRunOption,
    JsonOption,
    load_config,
    print_answer,
)
from oracle.cli.report.report_commands import report
from oracle.cli.write_session import open_write_session
from oracle.daemon.records import Records, open_records
from oracle.queries.health import format_dispute
from oracle.queries.reports.report_models import ReleasedReport
from oracle.queries.reports.report_view import build_held_report
from oracle.reporting.sanity_gate import get_active_hold, release_held_report


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `report`."""
    del app


@report.command("release", epilog="Example: qos-oracle report release 29764920")
def release_report(
    period: Annotated[
        int | None,
        typer.Argument(
            metavar="PERIOD",
            help="Period of the report to release. Default: list the held reports.",
        ),
    ] = None,
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release a report held by the sanity gate, after manual review.

    Later reports are compared with its lanes, whether or not the report still reaches the chain.
    """
    with open_records(load_config(config)) as records:
        if period is None:
            _list_held_reports(records, as_json=as_json)
            return
        with open_write_session(records.store, "report release", dry_run=dry_run) as (uow, stamp):
            hold = get_active_hold(uow, period)
            if not dry_run:
                release_held_report(uow, period, stamp)
    if as_json:
        print_answer(ReleasedReport(**dict(build_held_report(hold)), released=not dry_run))
        return
    verb = "would be" if dry_run else "is"
    typer.echo(f"the report of period {period} {verb} released; it was held: {hold.reason}")


def _list_held_reports(records: Records, *, as_json: bool) -> None:
    with records.store.read_transaction() as uow:
        holds = uow.holds.list_awaiting_operator()
    if as_json:
        print_answer([build_held_report(hold) for hold in holds])
        return
    if not holds:
        typer.echo("no report is held")
    disputed = [hold for hold in holds if hold.is_disputed]
    for hold in holds:
        if not hold.is_disputed:
            typer.echo(f"period {hold.period}: {hold.reason}")
    if disputed:
        typer.echo(format_dispute(disputed))
