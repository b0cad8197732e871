"""`kickout export`: expelled nodes, for networks whose operator ends memberships manually."""

import csv
import sys
from typing import Annotated

import typer

from oracle.cli.kickout.kickout_commands import kickout
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.daemon.records import open_folded_records
from oracle.queries.kickout_models import ExpulsionEntry
from oracle.queries.kickout_view import build_expulsion_entries


def register(app: typer.Typer) -> None:
    """Do nothing: importing the module registers the command under `kickout`."""
    del app


@kickout.command(epilog="Example: qos-oracle kickout export > expelled.csv")
def export(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    since_block: Annotated[
        int,
        typer.Option("--since", metavar="BLOCK", help="Only expulsions from this block on."),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the nodes expelled by the oracle as CSV or JSON.

    The output has one row per node, oldest first. Where no contract ends memberships, the operator
    of the network enforces this list. The evidence column names the public evidence file. `until`
    is in unix seconds; 1099511627775 means forever. `network` is the outcome of the request to
    the network: nobody, done or refused.
    """
    with (
        open_folded_records(load_config(config)) as records,
        records.store.read_transaction() as uow,
    ):
        entries = list(build_expulsion_entries(uow.rounds.list_expulsions(), since_block))
    if as_json:
        print_answer(entries)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = list(ExpulsionEntry.model_fields)
    writer.writerow(columns)
    writer.writerows([getattr(entry, name) for name in columns] for entry in entries)
