"""Defines the options of `backtest` and `attack`, and builds their systems and loop plans."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.backtest.backtest import ProgressCallback
from lab.backtest.system_columns import (
    Grid,
    Setting,
    SystemBase,
    SystemColumn,
    build_columns,
    parse_grid,
)
from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import LoopPlan
from lab.commands.backtest_files import read_text_file
from oracle.cli.system_options import parse_key_values
from oracle.daemon.config.processors import count_usable_processors
from oracle.errors import InputError

RulesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="SYSTEM",
        help="System to compare: a name (`rules list`) or a file (`rules show --json`). "
        'NAME@POLICY uses another policy, "NAME KEY=VALUE" changes a rule of this system. '
        "Repeatable; the first system is the reference.",
    ),
]
ChangesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[NAME:]KEY=VALUE",
        help="Change a rule or a policy parameter, in all systems that have it or in those named "
        "NAME; repeatable.",
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="File for an HTML page with plots; an existing file is replaced.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Maximum number of processes (default: number of CPU cores).",
    ),
]
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


def build_columns_from_options(
    rules: Sequence[str], changes: Sequence[str], grid: Path | None
) -> tuple[list[SystemColumn], list[str]]:
    """Build the columns described by the options, and notes for the user.

    Raises:
        InputError: no system is given, or an option is invalid.
    """
    if not rules and grid is None:
        raise InputError(
            "no system to compare is given; use --rules for a system or --grid for a file"
        )
    bases = [resolve_base("--rules", name) for name in rules]
    parameter_grid = None if grid is None else _read_grid(grid)
    try:
        settings = [Setting.parse(text) for text in changes]
        return build_columns(bases, settings, parameter_grid)
    except ValueError as error:
        raise InputError(str(error)) from None


def resolve_base(option: str, base_text: str) -> SystemBase:
    """Return the system given by name or file, with the `KEY=VALUE` changes that follow.

    `option` is the option that error messages name.

    Raises:
        InputError: the system does not exist, or a change is invalid.
    """
    words = base_text.split()
    # A file name may contain spaces. Each of its words except the last may contain equals signs.
    change_count = next(
        (position for position, part in enumerate(reversed(words)) if "=" not in part), len(words)
    )
    if not change_count or Path(base_text).is_file():
        return _resolve_unchanged_base(option, base_text)
    unchanged_base = _resolve_unchanged_base(option, base_text.rsplit(maxsplit=change_count)[0])
    try:
        return unchanged_base.with_changes(words[-change_count:])
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _resolve_unchanged_base(option: str, name: str) -> SystemBase:
    try:
        return SystemBase.from_name(name)
    except ValueError as error:
        path = Path(name)
        if not path.is_file():
            raise InputError(f"{option}: {error}; no file has this name either") from None
    try:
        return SystemBase.from_rules_json(read_text_file(path), path.name)
    except ValueError as error:
        raise InputError(f"{option}: {path}: {error}") from None


def _read_grid(path: Path) -> Grid:
    text = read_text_file(path)
    try:
        return parse_grid(
            text,
            lambda name: resolve_base(f"--grid: {path}", name),
            is_toml=path.suffix == ".toml",
        )
    except ValueError as error:
        raise InputError(f"--grid: {path}: {error}") from None


@contextmanager
def show_progress(description: str) -> Iterator[ProgressCallback]:
    """Show a progress bar if stderr is a terminal.

    Yields the function that updates the bar.
    """
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    bar_columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*bar_columns, console=Console(stderr=True), transient=True) as progress_bars:
        task_id = progress_bars.add_task(description, total=None)

        def report_progress(activity: str, completed: int, total: int | None) -> None:
            progress_bars.update(task_id, description=activity, completed=completed, total=total)

        yield report_progress


def build_loop_plan(
    nodes: int | None, tasks: int | None, seed: int, network: Sequence[str] | None
) -> LoopPlan:
    """Build the loop plan for the given options.

    Options that are None get their defaults.

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


def choose_process_count(requested_count: int | None) -> int:
    """Return how many processes to use: as requested, or one per usable CPU core."""
    return requested_count or count_usable_processors()
