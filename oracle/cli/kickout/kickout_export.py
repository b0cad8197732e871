"""`kickout export`: who was expelled, for the operator of a network that no contract can ask."""

import csv
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from oracle.cli.kickout.kickout_commands import kickout
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_json
from oracle.daemon.records import open_folded_records
from oracle.domain.reports.kicks import NO_TARGET, Kick

_COLUMNS = ("node", "evidence", "round", "block", "until", "network")


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
        rows = list(rows_of(uow.rounds.expelled(), since))
    if as_json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows(rows)


def rows_of(kicks: Sequence[Kick], since: int) -> Iterator[tuple[str | int, ...]]:
    """Yield what is told of each expulsion from block `since` on, oldest first."""
    found = [(kick, kick.expulsion) for kick in kicks if kick.expulsion is not None]
    for kick, gone in sorted(found, key=lambda pair: (pair[1].at, pair[0].node)):
        if gone.at.block >= since:
            asked = "nobody" if gone.target == NO_TARGET else "done"
            network = "refused" if kick.state.value == "refused" else asked
            yield kick.node, kick.evidence, gone.round, gone.at.block, gone.until, network
