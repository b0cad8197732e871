"""The systems that a command compares, from its options, and its progress bar."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.backtest.backtest import Told
from lab.backtest.parameter_grid import read_grid
from lab.backtest.system_columns import Grid, Setting, SystemBase, SystemColumn, columns_of
from lab.commands.backtest_files import read_text
from oracle.errors import InputError

RulesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="SYSTEM",
        help="A system to compare: a name (`rules list`) or a file (`rules show --json`). "
        'NAME@POLICY picks by another policy, "NAME KEY=VALUE" changes this one alone. '
        "Give it several times; the others are compared with the first.",
    ),
]
ChangesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[NAME:]KEY=VALUE",
        help="Change a rule, or a number of the policy, in all systems that have it, or in "
        "those of one name; may be given again.",
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a page with plots; replaces the file."),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes; default: the cores."),
]


def columns_asked(
    rules: Sequence[str], changes: Sequence[str], grid: Path | None
) -> tuple[list[SystemColumn], list[str]]:
    """Return the columns and notes; every error message names its option."""
    if not rules and grid is None:
        raise InputError("nothing to compare: name a system by --rules, or a --grid FILE")
    bases = [basis_of("--rules", name) for name in rules]
    tried = None if grid is None else _grid(grid)
    try:
        settings = [Setting.read(text) for text in changes]
        return columns_of(bases, settings, tried)
    except ValueError as error:
        raise InputError(str(error)) from None


def basis_of(option: str, written: str) -> SystemBase:
    """Return the system of a name or a file, with the changes that follow."""
    words = written.split()
    # File names may contain spaces, and equals signs before the last space.
    count = next((n for n, word in enumerate(reversed(words)) if "=" not in word), len(words))
    if not count or Path(written).is_file():
        return _bare(option, written)
    basis = _bare(option, written.rsplit(maxsplit=count)[0])
    try:
        return basis.changed_by(words[-count:])
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _bare(option: str, name: str) -> SystemBase:
    try:
        return SystemBase.named(name)
    except ValueError as error:
        path = Path(name)
        if not path.is_file():
            raise InputError(f"{option}: {error}, and no file of that name") from None
    try:
        return SystemBase.read(read_text(path), path.name)
    except ValueError as error:
        raise InputError(f"{option}: {path}: {error}") from None


def _grid(path: Path) -> Grid:
    text = read_text(path)
    try:
        return read_grid(
            text, lambda name: basis_of(f"--grid: {path}", name), is_toml=path.suffix == ".toml"
        )
    except ValueError as error:
        raise InputError(f"--grid: {path}: {error}") from None


@contextmanager
def progress(first: str) -> Iterator[Told]:
    """Show a progress bar on a terminal; elsewhere, print nothing."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    shape = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*shape, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(first, total=None)

        def told(what: str, done: int, total: int | None) -> None:
            bars.update(bar, description=what, completed=done, total=total)

        yield told
