"""`backtest`: folds a history under other systems or with other rule values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from lab.backtest.backtest import MOST_DRAWS, BacktestPlan, compare, compare_kept
from lab.backtest.comparison import Comparison
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.rule_measures import MEASURES
from lab.closed_loop.rule_search import ComparisonPlan
from lab.commands.backtest_files import PageFile
from lab.commands.backtest_json import comparison_answer
from lab.commands.backtest_tables import print_comparison
from lab.commands.closed_loop_backtest import (
    SearchOptions,
    in_loop,
    refuse_history_options,
)
from lab.commands.compared_systems import (
    ChangesOption,
    HtmlOption,
    JobsOption,
    RulesOption,
    columns_asked,
    progress,
)
from lab.commands.loop_options import (
    NetworkOption,
    NodesOption,
    RunsOption,
    TasksOption,
    loop_plan,
    processes,
)
from lab.page.backtest_page import backtest_page
from oracle.cli.event_files import open_lines
from oracle.cli.inspect.parquet_command import open_exported_history
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_json
from oracle.cli.system_options import EventsOption
from oracle.daemon.compose import open_reader
from oracle.daemon.records import open_records
from oracle.domain.blocks import BlockRange
from oracle.domain.events.jsonl import OutOfOrderError, iter_ordered_events, parse_events
from oracle.domain.events.network_events import DomainEvent
from oracle.errors import InputError
from oracle.indexer.stored_events import iterate_stored_events

_EXAMPLE = (
    "Example: qos-oracle backtest --rules crynux --rules relay --html backtest.html    "
    'Another: qos-oracle backtest --rules crynux --rules "crynux weight_floor=0.03" --json'
)
# Number of points of a line on the page.
_INSTANTS = 97


def register(app: typer.Typer) -> None:
    """Register the `backtest` command."""
    app.command(epilog=_EXAMPLE)(backtest)


def backtest(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    rules: RulesOption = None,
    changes: ChangesOption = None,
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
    closed_loop: Annotated[
        bool,
        typer.Option(
            "--closed-loop",
            help="Take no history: play a network in which each system's own draws decide who "
            "gets the next task.",
        ),
    ] = False,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="KEY=V1,V2,…",
            help="In a closed loop, look for better numbers of one system: try these of a rule; "
            "may be given again.",
        ),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            metavar="MEASURE[=WEIGHT],…",
            help=f"What --search makes small: {', '.join(MEASURES)}.",
        ),
    ] = "failures,wrongful,dead",
    network: NetworkOption = None,
    nodes: NodesOption = None,
    tasks: TasksOption = None,
    runs: RunsOption = 1,
    jobs: JobsOption = None,
    html: HtmlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fold a history under several systems and compare the results.

    The history comes from the stored logs, or from a file of events, which needs no configuration.
    The command sends no requests to the chain and changes nothing. With --closed-loop, a network
    is simulated instead of reading a history.
    """
    if search and not closed_loop:
        raise InputError("--search: only a --closed-loop can be searched")
    columns, notes = columns_asked(rules or [], changes or [], grid)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if closed_loop:
        history = {"--events": events, "--from": first, "--to": last, "--html": html}
        refuse_history_options([name for name, value in history.items() if value])
        plan = ComparisonPlan(loop_plan(nodes, tasks, seed, network), runs, processes(jobs))
        asked = SearchOptions(search or [], goal, is_changed=bool(changes or grid))
        in_loop(columns, rules or [], asked, plan, as_json=as_json)
        return
    wanted = BacktestPlan(
        first=first,
        last=last,
        draws=draws,
        seed=seed,
        instants=_INSTANTS if html else 0,
        jobs=min(processes(jobs), len(columns)),
    )
    with PageFile.opened(html) as page:
        compared = _compared(events, config, columns, wanted)
        if page is not None:
            options = _asked(wanted, events, changes or [], grid)
            notes_shown = [("note", note) for note in notes]
            page.write(backtest_page(compared, [*options, *notes_shown]))
    if as_json:
        print_json(comparison_answer(compared, notes))
    else:
        print_comparison(compared)
    if html is not None:
        typer.echo(f"wrote {html}", err=True)


def _compared(
    events: str | None, config: Path, columns: Sequence[SystemColumn], wanted: BacktestPlan
) -> Comparison:
    if events is not None and Path(events).is_dir():
        history = open_exported_history(Path(events), wanted.first, wanted.last)
        with progress("reading") as told:
            return compare_kept(history, columns, wanted, told)
    if events is not None and Path(events).is_file():
        # A file in order is streamed rather than loaded.
        with suppress(OutOfOrderError), open_lines(events) as lines, progress("reading") as told:
            return compare(iter_ordered_events(lines), columns, wanted, told)
    with _events(events, config, wanted) as said, progress("reading") as told:
        return compare(said, columns, wanted, told)


@contextmanager
def _events(
    file: str | None, config: Path, wanted: BacktestPlan
) -> Iterator[Iterator[DomainEvent]]:
    """Yield the events of a file, or those decoded from the stored logs."""
    if file is not None:
        with open_lines(file) as lines:
            # Yielding an iterator lets the events be freed once they are read.
            yield iter(parse_events(lines))
        return
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; `qos-oracle run --once` does it")
        last = cursor.number if wanted.last is None else min(wanted.last, cursor.number)
        yield iterate_stored_events(uow, open_reader(records.config), BlockRange(0, last))


def _asked(
    wanted: BacktestPlan, events: str | None, changes: Sequence[str], grid: Path | None
) -> list[tuple[str, str]]:
    """Return the options that a page lists: those that determine its content."""
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
