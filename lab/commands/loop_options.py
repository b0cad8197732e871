"""Options of the closed loop that `backtest` and `attack` share."""

from collections.abc import Sequence
from typing import Annotated

import typer

from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import LoopPlan
from oracle.cli.system_options import parse_key_values
from oracle.daemon.config.processors import usable_processors
from oracle.errors import InputError

NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        help="Number of honest nodes in the simulated network (default: 30).",
    ),
]
TasksOption = Annotated[
    int | None,
    typer.Option(
        "--tasks",
        metavar="N",
        help="Number of tasks of honest applications in each run (default: 10000).",
    ),
]
RunsOption = Annotated[
    int,
    typer.Option(
        "--runs",
        min=1,
        max=100,
        metavar="N",
        help="Number of runs per system, with consecutive seeds.",
    ),
]
NetworkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="KEY=VALUE",
        help="Change a parameter of the simulated network, such as tolls=false; repeatable.",
    ),
]


def build_loop_plan(
    nodes: int | None, tasks: int | None, seed: int, network: Sequence[str] | None
) -> LoopPlan:
    """Return the plan with the given options; options that are None have their defaults.

    Raises:
        InputError: a number is out of range, or a parameter of the network is invalid.
    """
    default_plan = LoopPlan()
    changes = parse_key_values("--network", network)
    try:
        economics = Economics().with_changes(changes)
    except ValueError as error:
        raise InputError(f"--network: {error}") from None
    try:
        return LoopPlan(
            nodes=default_plan.nodes if nodes is None else nodes,
            tasks=default_plan.tasks if tasks is None else tasks,
            seed=seed,
            economics=economics,
        )
    except ValueError as error:
        raise InputError(f"--{error}") from None


def choose_process_count(requested: int | None) -> int:
    """Return the requested number of processes, by default the number of usable CPU cores."""
    return requested or usable_processors()
