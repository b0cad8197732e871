"""Implements `audit relay`, which compares a relay's figures with the rows it published."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from oracle.cli.options import JsonOption, load_config, open_lines, print_model
from oracle.daemon.config.loader import Config
from oracle.daemon.event_readers import open_reader
from oracle.daemon.records import open_records
from oracle.domain.feed_rows import FeedRow
from oracle.domain.ids import Hash
from oracle.errors import FatalError, InputError
from oracle.indexer.witness_file import parse_witness_lines
from oracle.queries.relay_audit.contradictions import (
    MAX_LAG_SECONDS,
    ChainStakes,
    find_contradictions,
    load_observed_rows,
)
from oracle.queries.relay_audit.relay_audit import NodeAudit, RelayAudit, Verdict, audit_relay
from oracle.queries.relay_audit.relay_watch import RelayWatch, WatchClock
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, print_table, sanitize_text

NOTHING_PROVEN_EXIT_CODE = 3
_COLUMNS = (
    "node",
    "our L",
    "relay L",
    "our H",
    "relay H",
    "scores",
    "zeros",
    "verdict",
    "row",
)
_LIMITS_NOTE = "Rows that were never published cannot be detected from the published ones."

audit = typer.Typer(no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(audit, name="audit", help="Audit the published data of other operators.")


@audit.callback()
def _audit_group() -> None:
    """Make `audit` a group although it has only one command."""


@audit.command(epilog="Example: qos-oracle audit relay --url https://relay.crynux.io --polls 3")
def relay(  # noqa: PLR0913 - a command line's options are its parameters
    *,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL of the relay. Default: feed.url of --config."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help=(
                "Configuration of a daemon that reads this relay and a chain; enables checks "
                "against the database of this daemon."
            ),
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name that the relay uses for the chain in --config."),
    ] = None,
    patience: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Seconds the chain and the relay may lag behind each other.",
        ),
    ] = MAX_LAG_SECONDS,
    polls: Annotated[
        int,
        typer.Option(
            min=2,
            help=("Number of polls of the node scores and weights that the relay publishes."),
        ),
    ] = 2,
    seconds: Annotated[
        float,
        typer.Option(min=1.0, help="Seconds between two polls; longer intervals are more exact."),
    ] = 60.0,
    witness: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "Witness file with row times recorded by another reader (see `feed "
                "export-witness`)."
            ),
        ),
    ] = None,
    page: Annotated[int, typer.Option(min=1, max=10_000, help="Rows per request.")] = 1000,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Timeout of a request in seconds.")
    ] = 15.0,
    as_json: JsonOption = False,
) -> None:
    """Compare a relay's live figures with its own published rows.

    Reads the whole event stream, recomputes the figures with the relay's own rules, and polls the
    published figures of all nodes. From two polls it computes each node's long-term score (L =
    Q_long / 10) and reliability (H), and reports the first row at which the figures of a node
    diverge. Needs no configuration, no key and no chain, and sends only read requests to the
    relay.

    With --config, the rows are compared with the arrival times and the on-chain stakes in a
    daemon's database, and contradictions are listed.

    Exit code 0: all figures that could be checked agree; 1: the figures of a node differ, or rows
    contradict each other; 2: invalid input; 3: no figure could be checked.
    """
    witness_times = [] if witness is None else _read_witness_file(witness)
    loaded_config = None if config is None else load_config(config)
    daemon_rows, stakes = (
        ({}, None) if loaded_config is None else _load_daemon_observations(loaded_config, network)
    )
    relay_url = url or (None if loaded_config is None else loaded_config.feed.url)
    if relay_url is None:
        raise InputError(
            "--url: required, unless the configuration given with --config sets feed.url"
        )
    with closing(RelayWatch.create_for_url(relay_url, timeout, page, WatchClock())) as watch:
        watch.poll_relay(polls, seconds)
        watch.adopt_witness_times(witness_times)
        watch.adopt_daemon_times(daemon_rows)
        rows = [watch.rows[number] for number in sorted(watch.rows)]
        relay_contradictions = find_contradictions(rows, stakes, patience)
        audit_result = audit_relay(watch, relay_contradictions)
    if as_json:
        print_model(audit_result)
    else:
        _print_audit(audit_result)
    _exit_with_verdict(audit_result)


def _read_witness_file(path: Path) -> list[tuple[int, Hash, int]]:
    try:
        with open_lines(str(path)) as lines:
            return parse_witness_lines(lines)
    except InputError as error:
        raise InputError(f"--witness: {error}") from None


def _load_daemon_observations(
    config: Config, network: str | None
) -> tuple[dict[int, FeedRow], ChainStakes]:
    with open_records(config) as records, records.store.read_transaction() as uow:
        return load_observed_rows(uow, open_reader(config), network)


def _exit_with_verdict(result: RelayAudit) -> None:
    if result.contradictions.found:
        raise FatalError(
            f"{len(result.contradictions.found)} rows contradict other rows or the chain"
        )
    differing_count = result.count_verdicts(Verdict.DIFFERS)
    if differing_count:
        raise FatalError(
            f"{differing_count} of {len(result.nodes)} nodes differ from the relay's own rows"
        )
    if not result.count_verdicts(Verdict.AGREES):
        raise typer.Exit(NOTHING_PROVEN_EXIT_CODE)


def _print_audit(result: RelayAudit) -> None:
    print_table(
        _COLUMNS, map(_format_row, result.nodes), left_columns=("verdict",), width=WIDE_TABLE_WIDTH
    )
    for node_audit in result.nodes:
        explanation_text = (
            node_audit.why
            if node_audit.parting is None
            else f"{node_audit.parting.kind}: {node_audit.parting.why}"
        )
        if explanation_text:
            typer.echo(f"{node_audit.node}  {sanitize_text(explanation_text, WIDE_TABLE_WIDTH)}")
    start_note = "" if result.first_id == 1 else f"; history starts at id {result.first_id}"
    proven_count = len(result.nodes) - result.count_verdicts(Verdict.UNPROVEN)
    typer.echo(
        f"{result.rows} rows, ids {result.first_id} to {result.last_id}{start_note}; "
        f"{proven_count} of {len(result.nodes)} nodes proven; {result.headless} tasks without a "
        f"start; {result.running} started but not ended"
    )
    for row in result.contradictions.found:
        typer.echo(
            f"row {row.row} contradicts: {row.kind}, {row.node}: "
            f"{sanitize_text(row.why, WIDE_TABLE_WIDTH)}"
        )
    unjudged_count = result.contradictions.unjudged
    if unjudged_count:
        typer.echo(
            f"{unjudged_count} rows of stakes and kickouts are too new to compare with the chain"
        )
    for number in result.changed:
        typer.echo(f"row {number} changed while the relay was polled")
    typer.echo(_LIMITS_NOTE)


def _format_row(node_audit: NodeAudit) -> list[str]:
    first_row = (
        "-"
        if node_audit.parting is None or not node_audit.parting.row
        else str(node_audit.parting.row)
    )
    compared_figures = [
        node_audit.ours,
        node_audit.theirs,
        node_audit.our_health,
        node_audit.their_health,
    ]
    figure_cells = ["-" if figure is None else f"{figure:.4f}" for figure in compared_figures]
    return [
        node_audit.node,
        *figure_cells,
        str(node_audit.groups),
        str(node_audit.zeros),
        node_audit.verdict.value,
        first_row,
    ]
