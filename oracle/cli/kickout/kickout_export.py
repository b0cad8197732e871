"""`kickout export`: who was expelled, for the operator of a network that no contract can ask."""

import csv
import sys
from typing import Annotated

import typer

from oracle.cli.kickout.kickout_commands import kickout
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.daemon.records import open_folded_records
from oracle.queries.kickout_models import ExpulsionEntry
from oracle.queries.kickout_view import expulsions


def register(app: typer.Typer) -> None:
    """Nothing is left to do: the command stands under `kickout`, on the command line already."""
    del app


@kickout.command(epilog="Example: qos-oracle kickout export > expelled.csv")
def export(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    since: Annotated[
        int, typer.Option("--since", metavar="BLOCK", help="Only those of this block and later.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """List the nodes that the oracle has expelled, as CSV or JSON: one row each, oldest first.

    Where no contract ends memberships, the network's operator does, by this list: the evidence
    names the public file that tells why; `until` is in unix seconds, 1099511627775 is for ever;
    `network` says what came of asking it: nobody, done, refused.
    """
    with open_folded_records(load_config(config)) as records, records.store.reading() as uow:
        entries = list(expulsions(uow.rounds.expelled(), since))
    if as_json:
        print_answer(entries)
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    columns = list(ExpulsionEntry.model_fields)
    writer.writerow(columns)
    writer.writerows([getattr(entry, name) for name in columns] for entry in entries)
