"""`backtest`: what another system, or other numbers, would have made of a history."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from oracle.cli.backtest.backtest_files import PageFile, read_text
from oracle.cli.backtest.backtest_json import comparison_answer
from oracle.cli.backtest.backtest_tables import print_comparison
from oracle.cli.event_files import lines_of
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, open_app, print_json
from oracle.cli.system_options import EventsOption
from oracle.domain.blocks import BlockRange
from oracle.domain.events.jsonl import NotInOrderError, events_in_order, parse_events
from oracle.domain.events.network_events import DomainEvent
from oracle.errors import InputError
from oracle.indexer.stored_events import stored_events
from oracle.lab.backtest.backtest import MOST_DRAWS, BacktestPlan, Told, compare
from oracle.lab.backtest.comparison import Comparison
from oracle.lab.backtest.parameter_grid import read_grid
from oracle.lab.backtest.system_columns import Grid, Setting, SystemBase, SystemColumn, columns_of
from oracle.lab.page.page import page_of

_EXAMPLE = (
    "Example: qos-oracle backtest --rules seed --rules relay --html backtest.html    "
    'Another: qos-oracle backtest --rules seed --rules "seed weight_floor=0.03" --json'
)
# Moments at which the page's lines have a point.
_INSTANTS = 97


def register(app: typer.Typer) -> None:
    """Put `backtest` on the command line."""
    app.command(epilog=_EXAMPLE)(backtest)


def backtest(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rules",
            metavar="SYSTEM",
            help="A system to compare: a name (`rules list`) or a file (`rules show --json`). "
            'NAME@POLICY picks by another policy, "NAME KEY=VALUE" changes this one alone. '
            "Give it several times; the others are compared with the first.",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[NAME:]KEY=VALUE",
            help="Change a rule, or a number of the policy, in all systems that have it, or in "
            "those of one name; may be given again.",
        ),
    ] = None,
    grid: Annotated[
        Path | None,
        typer.Option("--grid", metavar="FILE", help="A file of values to try, every combination."),
    ] = None,
    first: Annotated[
        int,
        typer.Option(
            "--from", min=0, metavar="N", help="Count from this block on; all before is folded."
        ),
    ] = 0,
    last: Annotated[
        int | None,
        typer.Option("--to", min=0, metavar="N", help="Up to this block; default: to the last."),
    ] = None,
    events: EventsOption = None,
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            min=0,
            metavar="N",
            help="Starts of tasks to ask the policies about: of more, a sample.",
        ),
    ] = MOST_DRAWS,
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="N", help="Which sample that is.")
    ] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, metavar="N", help="Processes; default: the cores."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write a page with plots; replaces the file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fold a history anew under several systems and compare what comes of it.

    Takes the logs that are stored, or a file of events and then no configuration; asks nothing
    of the chain, and changes nothing.
    """
    columns, notes = _columns(rules or [], changes or [], grid)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    wanted = BacktestPlan(
        first=first,
        last=last,
        draws=draws,
        seed=seed,
        instants=_INSTANTS if html else 0,
        jobs=min(jobs or os.cpu_count() or 1, len(columns)),
    )
    with PageFile.opened(html) as page:
        compared = _compared(events, config, columns, wanted)
        if page is not None:
            asked = _asked(wanted, events, changes or [], grid)
            page.write(page_of(compared, [*asked, *(("note", note) for note in notes)]))
    if as_json:
        print_json(comparison_answer(compared, notes))
    else:
        print_comparison(compared)
    if html is not None:
        typer.echo(f"wrote {html}", err=True)


def _columns(
    rules: Sequence[str], changes: Sequence[str], grid: Path | None
) -> tuple[list[SystemColumn], list[str]]:
    """Return what is compared; every fault names the option that it is in."""
    if not rules and grid is None:
        raise InputError("nothing to compare: name a system by --rules, or a --grid FILE")
    bases = [_basis("--rules", name) for name in rules]
    tried = None if grid is None else _grid(grid)
    try:
        settings = [Setting.read(text) for text in changes]
        return columns_of(bases, settings, tried)
    except ValueError as error:
        raise InputError(str(error)) from None


def _basis(option: str, written: str) -> SystemBase:
    """Return a system as it is written: a name or a file, and changes behind it."""
    words = written.split()
    # A file's name may have blanks, and an equals sign in what is before the last of them.
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
            text, lambda name: _basis(f"--grid: {path}", name), is_toml=path.suffix == ".toml"
        )
    except ValueError as error:
        raise InputError(f"--grid: {path}: {error}") from None


def _compared(
    events: str | None, config: Path, columns: Sequence[SystemColumn], wanted: BacktestPlan
) -> Comparison:
    if events is not None and Path(events).is_file():
        # A file in order is never in memory as a whole.
        with suppress(NotInOrderError), lines_of(events) as lines, _progress() as told:
            return compare(events_in_order(lines), columns, wanted, told)
    with _events(events, config, wanted) as said, _progress() as told:
        return compare(said, columns, wanted, told)


@contextmanager
def _events(
    file: str | None, config: Path, wanted: BacktestPlan
) -> Iterator[Iterator[DomainEvent]]:
    """Hand out the events of a file, or those that the stored logs say."""
    if file is not None:
        with lines_of(file) as lines:
            # An iterator alone: when it has been read, the events need no more memory.
            yield iter(parse_events(lines))
        return
    with open_app(config) as app, app.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; `qos-oracle run --once` does it")
        last = cursor.number if wanted.last is None else min(wanted.last, cursor.number)
        yield stored_events(uow, app.reader, BlockRange(0, last))


@contextmanager
def _progress() -> Iterator[Told]:
    """Show on a terminal how far it is; elsewhere, say nothing."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    shape = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*shape, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("reading", total=None)

        def told(what: str, done: int, total: int | None) -> None:
            progress.update(bar, description=what, completed=done, total=total)

        yield told


def _asked(
    wanted: BacktestPlan, events: str | None, changes: Sequence[str], grid: Path | None
) -> list[tuple[str, str]]:
    """Return the options that a page names: those that decide what it shows."""
    last = "the last block" if wanted.last is None else str(wanted.last)
    return [
        ("--events", events or "the stored logs"),
        ("--from", str(wanted.first)),
        ("--to", last),
        ("--set", ", ".join(changes) or "nothing"),
        ("--grid", "none" if grid is None else str(grid)),
        ("--draws", str(wanted.draws)),
        ("--seed", str(wanted.seed)),
    ]
