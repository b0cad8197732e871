"""`audit relay`: checks a relay's figures against the rows that the relay itself published."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.event_files import lines_of
from oracle.cli.options import JsonOption, load_config, print_answer
from oracle.daemon.compose import open_reader
from oracle.daemon.records import open_records
from oracle.domain.ids import Hash
from oracle.errors import FatalError, InputError
from oracle.indexer.feeds.witness_file import times_in
from oracle.queries.relay_audit.contradictions import (
    PATIENCE_SECONDS,
    contradictions,
)
from oracle.queries.relay_audit.daemon_memory import DaemonMemory, daemon_memory
from oracle.queries.relay_audit.relay_audit import NodeAudit, RelayAudit, Verdict, audited
from oracle.queries.relay_audit.relay_watch import RelayWatch, WatchClock
from oracle.queries.text.text_tables import WIDE, foreign, print_table

NOTHING_PROVEN = 3
_COLUMNS = (
    "node",
    "L ours",
    "L theirs",
    "H ours",
    "H theirs",
    "scores",
    "zeros",
    "verdict",
    "row",
)
_UNFINDABLE = "Rows that were never published cannot be found by reading what was."

audit = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Register `audit` on the command line."""
    app.add_typer(audit, name="audit", help="Hold others to what they published.")


@audit.callback()
def _group() -> None:
    """Make `audit` a group although it has only one command."""


@audit.command(epilog="Example: qos-oracle audit relay --url https://relay.crynux.io --polls 3")
def relay(  # noqa: PLR0913 - a command line's options are its parameters
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The relay's address; by default --config's feed."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="Of a daemon that reads this relay and a chain."
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the relay's rows call --config's chain."),
    ] = None,
    patience: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="For chain and relay to follow suit.")
    ] = PATIENCE_SECONDS,
    polls: Annotated[int, typer.Option(min=2, help="How often its figures are asked.")] = 2,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Between two polls; longer is more exact.")
    ] = 60.0,
    witness: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Times of rows that another reader saw."),
    ] = None,
    page: Annotated[int, typer.Option(min=1, max=10_000, help="Rows asked for at once.")] = 1000,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for an answer.")] = 15.0,
    as_json: JsonOption = False,
) -> None:
    """Compare a relay's live figures with its own published rows.

    Reads the whole event stream, recomputes the figures by the relay's own rules, polls the
    figures of all nodes, separates Q_long from H, and reports the first row at which a node's
    figures diverge. L is Q_long / 10. Needs no configuration, no key and no chain, and sends no
    writing request to the relay.

    With --config, a daemon's database supplies the arrival times of rows and the stakes on-chain:
    both are compared with the rows, and contradictions are listed.

    Exit code 0: everything provable agrees; 1: a node differs, or rows contradict; 2: wrong input;
    3: nothing could be proven.
    """
    noted = [] if witness is None else _witnessed(witness)
    memory, fed = (None, None) if config is None else _remembered(config, network)
    address = url or fed
    if address is None:
        raise InputError("--url: say where the relay is, or --config of a daemon that reads it")
    with closing(RelayWatch.of(address, timeout, page, WatchClock())) as watch:
        watch.watch(polls, seconds)
        watch.believe(noted)
        if memory is not None:
            watch.remember(memory.rows)
        rows = [watch.rows[number] for number in sorted(watch.rows)]
        beside = contradictions(rows, None if memory is None else memory.stakes, patience)
        found = audited(watch, beside)
    if as_json:
        print_answer(found)
    else:
        _print(found)
    _leave(found)


def _witnessed(path: Path) -> list[tuple[int, Hash, int]]:
    try:
        with lines_of(str(path)) as lines:
            return times_in(lines)
    except InputError as error:
        raise InputError(f"--witness: {error}") from None


def _remembered(config: Path, network: str | None) -> tuple[DaemonMemory, str | None]:
    with open_records(load_config(config)) as records, records.store.reading() as uow:
        return daemon_memory(uow, open_reader(records.config), network), records.config.feed.url


def _leave(found: RelayAudit) -> None:
    if found.contradictions.found:
        raise FatalError(f"{len(found.contradictions.found)} rows contradict others, or the chain")
    differ = found.count(Verdict.DIFFERS)
    if differ:
        raise FatalError(f"{differ} of {len(found.nodes)} nodes differ from the relay's own rows")
    if not found.count(Verdict.AGREES):
        raise typer.Exit(NOTHING_PROVEN)


def _print(found: RelayAudit) -> None:
    print_table(_COLUMNS, map(_row, found.nodes), left=("verdict",), width=WIDE)
    for one in found.nodes:
        said = one.why if one.parting is None else f"{one.parting.kind}: {one.parting.why}"
        if said:
            typer.echo(f"{one.node}  {foreign(said, WIDE)}")
    begun = "" if found.first_id == 1 else f"; history starts at id {found.first_id}"
    proven = len(found.nodes) - found.count(Verdict.UNPROVEN)
    typer.echo(
        f"{found.rows} rows, ids {found.first_id} to {found.last_id}{begun}; "
        f"{proven} of {len(found.nodes)} nodes proven; {found.headless} tasks without a start; "
        f"{found.running} started and not ended"
    )
    for row in found.contradictions.found:
        typer.echo(f"row {row.row} contradicts: {row.kind}, {row.node}: {foreign(row.why, WIDE)}")
    unjudged = found.contradictions.unjudged
    if unjudged:
        typer.echo(f"{unjudged} rows of stakes and kickouts are too new for the chain")
    for number in found.changed:
        typer.echo(f"row {number} was told in two ways while we looked")
    typer.echo(_UNFINDABLE)


def _row(one: NodeAudit) -> list[str]:
    row = "-" if one.parting is None or not one.parting.row else str(one.parting.row)
    figures = [one.ours, one.theirs, one.our_health, one.their_health]
    written = ["-" if figure is None else f"{figure:.4f}" for figure in figures]
    return [one.node, *written, str(one.groups), str(one.zeros), one.verdict.value, row]
