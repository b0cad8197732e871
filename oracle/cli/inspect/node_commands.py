"""Implements `nodes`, which lists nodes by score.

The command reads only the database, and imports few modules, so that it starts quickly.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, print_model
from oracle.daemon.config.loader import read_config
from oracle.daemon.records import open_folded_records
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, NEVER_REPORTED
from oracle.errors import InputError
from oracle.queries.node_models import NodeEntry
from oracle.queries.population import load_all_nodes
from oracle.queries.text.text_tables import WIDE_TABLE_WIDTH, build_table, print_table

_WithoutTaskOption = Annotated[
    bool,
    typer.Option(
        "--without-task",
        help=(
            "Only members without a task score in the current window (candidates for a system "
            "task)."
        ),
    ),
]


def register(app: typer.Typer) -> None:
    app.command("nodes", epilog="Example: qos-oracle nodes --json")(list_nodes)


def list_nodes(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    without_task: _WithoutTaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """List all nodes, best first, as of the last folded block."""
    with open_folded_records(read_config(config)) as records:
        if without_task and records.rules.legacy is None:
            raise InputError(
                f"--without-task: rule set {records.rules.name} has no windows; this option "
                "requires legacy rules"
            )
        labels = records.config.network.label_by_address
        page = load_all_nodes(records.store, records.rules, labels, int(unix_seconds()))
    if page is not None and without_task:
        idle_rows = [
            row for row in page.nodes if row.place and row.legacy and not row.legacy.tasks
        ]
        page = page.model_copy(update={"nodes": idle_rows})
    if as_json:
        print_model(page)
        return
    if page is None or not page.nodes:
        typer.echo("no nodes indexed yet; run `qos-oracle run --once` to index the chain")
        return
    titles, cells = build_table(NodeEntry, page.nodes, _CELL_FORMATTERS)
    print_table(titles, cells, left_columns=("status",), width=WIDE_TABLE_WIDTH)
    if any(row.proof == "none" for row in page.nodes):
        typer.echo("UNPROVEN: based on a feed without proofs; see `qos-oracle status`")


def format_lane(lane: int) -> str:
    """Format a lane of the contract as readable text."""
    if lane == NEVER_REPORTED:
        return "no report"
    if lane == DO_NOT_SELECT:
        return "not selectable"
    return f"{(lane - LOWEST_SCORE) / 10_000:.4f}"


def _format_node_status(row: NodeEntry) -> str:
    status = "excluded" if row.excluded else row.status.replace("_", " ")
    return f"{status}, kickout due" if row.kickout_due else status


# Formatters for cells whose field type does not determine how they are displayed.
_CELL_FORMATTERS: dict[str, Callable[[NodeEntry], str]] = {
    "status": _format_node_status,
    "lane_on_chain": lambda row: format_lane(row.lane_on_chain),
}
