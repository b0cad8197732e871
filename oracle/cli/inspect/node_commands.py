"""`nodes`: who is how good. It reads the database alone, and imports no more than that takes."""

from typing import Annotated

import typer

from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, print_json
from oracle.daemon.config.loader import load
from oracle.daemon.records import open_folded_records
from oracle.domain.fixed_point import UNIT
from oracle.domain.reports.lanes import DO_NOT_SELECT, LOWEST_SCORE, NEVER_REPORTED
from oracle.errors import InputError
from oracle.queries.node_rows import NodeRow, node_answer, node_rows
from oracle.queries.text.text_tables import WIDE, print_table

_WithoutTaskOption = Annotated[
    bool,
    typer.Option(
        "--without-task",
        help="Only members without a task score in this window: a system task is for them.",
    ),
]

_COLUMNS = ("#", "node", "status", "scores", "long-term", "reliability", "QoS", "on chain")


def register(app: typer.Typer) -> None:
    """Put `nodes` on the command line."""
    app.command("nodes", epilog="Example: qos-oracle nodes --json")(nodes)


def nodes(
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    without_task: _WithoutTaskOption = False,
    as_json: JsonOption = False,
) -> None:
    """List every node, the best first, as of the last block folded."""
    with open_folded_records(load(config)) as records:
        if without_task and records.rules.legacy is None:
            raise InputError(f"--without-task: the rules {records.rules.name} count by no window")
        rows = node_rows(records.store, records.rules)
    if without_task:
        rows = [row for row in rows if row.factors is not None and not row.factors.tally.tasks]
    if as_json:
        print_json([node_answer(row) for row in rows])
        return
    if not rows:
        typer.echo("no node is known yet; `qos-oracle run --once` indexes the chain")
        return
    ranked = ((str(rank), *_cells(row)) for rank, row in enumerate(rows, start=1))
    print_table(_COLUMNS, ranked, left=("status",), width=WIDE)
    if any(row.is_of_feed for row in rows):
        typer.echo("UNPROVEN: this rests on a feed; `qos-oracle status` says how it stands")


def shown_lane(lane: int) -> str:
    """Write a lane of the contract for people."""
    if lane == NEVER_REPORTED:
        return "no report"
    if lane == DO_NOT_SELECT:
        return "not selectable"
    return f"{(lane - LOWEST_SCORE) / 10_000:.4f}"


def _cells(row: NodeRow) -> list[str]:
    status = "excluded" if row.is_excluded else row.status.replace("_", " ")
    return [
        row.node.address,
        f"{status}, kickout due" if row.is_kickout_due else status,
        str(row.node.scored),
        _share(row.long_term),
        _share(row.reliability),
        "-" if row.qos is None else _share(row.qos),
        "-" if row.index is None else shown_lane(row.lane_on_chain),
    ]


def _share(units: int) -> str:
    return f"{units / UNIT:.4f}"
