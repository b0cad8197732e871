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
from oracle.cli.write_session import acting
from oracle.daemon.records import Records, open_records
from oracle.queries.health import dispute_text
from oracle.queries.reports.report_models import ReleasedReport
from oracle.queries.reports.report_view import held_report
from oracle.reporting.sanity_gate import held_at, release


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `report`."""
    del app


@report.command("release", epilog="Example: qos-oracle report release 29764920")
def release_report(
    period: Annotated[
        int | None,
        typer.Argument(metavar="PERIOD", help="Whose report; left out: list what is held."),
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
            _list(records, as_json=as_json)
            return
        with acting(records.store, "report release", dry_run=dry_run) as (uow, stamp):
            hold = held_at(uow, period)
            if not dry_run:
                release(uow, period, stamp)
    if as_json:
        print_answer(ReleasedReport(**dict(held_report(hold)), released=not dry_run))
        return
    state = "would be" if dry_run else "is"
    typer.echo(f"the report of period {period} {state} released; it was held: {hold.reason}")


def _list(records: Records, *, as_json: bool) -> None:
    with records.store.reading() as uow:
        held = uow.holds.waiting()
    if as_json:
        print_answer([held_report(hold) for hold in held])
        return
    if not held:
        typer.echo("no report is held")
    disputed = [hold for hold in held if hold.is_disputed]
    for hold in held:
        if not hold.is_disputed:
            typer.echo(f"period {hold.period}: {hold.reason}")
    if disputed:
        typer.echo(dispute_text(disputed))
