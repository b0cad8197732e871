"""Defines the command `backtest`, which replays a history under other systems or rule values."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from lab.backtest.backtest import (
    DEFAULT_MAX_STARTS,
    BacktestPlan,
    compare_systems_on_events,
    compare_systems_on_history,
)
from lab.backtest.comparison import Comparison
from lab.backtest.system_columns import SystemColumn
from lab.closed_loop.rule_measures import MEASURES
from lab.closed_loop.rule_search import ComparisonPlan
from lab.commands.backtest_files import open_exported_history, open_html_output
from lab.commands.backtest_json import build_comparison_json
from lab.commands.backtest_tables import print_comparison
from lab.commands.closed_loop_backtest import (
    SearchOptions,
    reject_history_options,
    run_closed_loop_backtest,
)
from lab.commands.compared_systems import (
    ChangesOption,
    HtmlOption,
    JobsOption,
    NetworkOption,
    NodesOption,
    RulesOption,
    RunsOption,
    TasksOption,
    build_columns_from_options,
    build_loop_plan,
    choose_process_count,
    show_progress,
)
from lab.page.backtest_page import render_backtest_page
from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    load_config,
    open_lines,
    print_json,
)
from oracle.cli.system_options import EventsOption
from oracle.daemon.event_readers import open_reader
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
# Number of points in each score curve on the page.
_PLOT_INSTANTS = 97


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLE)(backtest)


def backtest(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    rules: RulesOption = None,
    changes: ChangesOption = None,
    grid: Annotated[
        Path | None,
        typer.Option(
            "--grid",
            metavar="FILE",
            help="Grid file: values to try for rules, in every combination.",
        ),
    ] = None,
    first: Annotated[
        int,
        typer.Option(
            "--from",
            min=0,
            metavar="N",
            help="First block to count; earlier blocks are folded but not counted.",
        ),
    ] = 0,
    last: Annotated[
        int | None,
        typer.Option(
            "--to", min=0, metavar="N", help="Last block to count (default: the last one indexed)."
        ),
    ] = None,
    events: EventsOption = None,
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            min=0,
            metavar="N",
            help=(
                "Maximum number of task starts to evaluate the policies on; a longer history is "
                "sampled."
            ),
        ),
    ] = DEFAULT_MAX_STARTS,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            metavar="N",
            help="Seed of the sample of task starts, or of the simulation.",
        ),
    ] = 0,
    closed_loop: Annotated[
        bool,
        typer.Option(
            "--closed-loop",
            help="Simulate a network instead of reading a history: each system's own draws "
            "select the node of each task.",
        ),
    ] = False,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="KEY=V1,V2,…",
            help=(
                "Values to try for a rule of the system given with --rules; requires "
                "--closed-loop; repeatable."
            ),
        ),
    ] = None,
    goal: Annotated[
        str,
        typer.Option(
            "--goal",
            metavar="MEASURE[=WEIGHT],…",
            help=f"Measures that --search minimises: {', '.join(MEASURES)}.",
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
    """Compare scoring systems on the same history.

    The history comes from the stored logs, or from a file of events, which needs no configuration.
    The command sends no requests to the chain and changes nothing. With --closed-loop, a network
    is simulated instead of reading a history.
    """
    if search and not closed_loop:
        raise InputError("--search requires --closed-loop")
    columns, notes = build_columns_from_options(rules or [], changes or [], grid)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if closed_loop:
        history_options = {"--events": events, "--from": first, "--to": last, "--html": html}
        reject_history_options([name for name, value in history_options.items() if value])
        plan = ComparisonPlan(
            build_loop_plan(nodes, tasks, seed, network), runs, choose_process_count(jobs)
        )
        search_options = SearchOptions(search or [], goal, is_changed=bool(changes or grid))
        run_closed_loop_backtest(columns, rules or [], search_options, plan, as_json=as_json)
        return
    backtest_plan = BacktestPlan(
        first_block=first,
        last_block=last,
        max_starts=draws,
        seed=seed,
        instant_count=_PLOT_INSTANTS if html else 0,
        max_processes=min(choose_process_count(jobs), len(columns)),
    )
    with open_html_output(html) as page:
        comparison = _compare_systems_from_options(events, config, columns, backtest_plan)
        if page is not None:
            options = _list_page_options(backtest_plan, events, changes or [], grid)
            notes_shown = [("note", note) for note in notes]
            page.write(render_backtest_page(comparison, [*options, *notes_shown]))
    if as_json:
        print_json(build_comparison_json(comparison, notes))
    else:
        print_comparison(comparison)
    if html is not None:
        typer.echo(f"wrote {html}", err=True)


def _compare_systems_from_options(
    events: str | None, config: Path, columns: Sequence[SystemColumn], plan: BacktestPlan
) -> Comparison:
    if events is not None and Path(events).is_dir():
        history = open_exported_history(Path(events), plan.first_block, plan.last_block)
        with show_progress("reading") as report_progress:
            return compare_systems_on_history(history, columns, plan, report_progress)
    if events is not None and Path(events).is_file():
        # If the events in a file are in order, the file is streamed instead of being loaded as a
        # whole.
        with (
            suppress(OutOfOrderError),
            open_lines(events) as lines,
            show_progress("reading") as report_progress,
        ):
            return compare_systems_on_events(
                iter_ordered_events(lines), columns, plan, report_progress
            )
    with _open_events(events, config, plan) as stream, show_progress("reading") as report_progress:
        return compare_systems_on_events(stream, columns, plan, report_progress)


@contextmanager
def _open_events(
    file: str | None, config: Path, plan: BacktestPlan
) -> Iterator[Iterator[DomainEvent]]:
    """Open the events of a file or of the stored logs, and yield an iterator over them."""
    if file is not None:
        with open_lines(file) as lines:
            # Each event of an iterator can be freed as soon as it has been processed.
            yield iter(parse_events(lines))
        return
    with open_records(load_config(config)) as records, records.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None:
            raise InputError("nothing is indexed yet; run `qos-oracle run --once` first")
        last_block = (
            cursor.number if plan.last_block is None else min(plan.last_block, cursor.number)
        )
        yield iterate_stored_events(uow, open_reader(records.config), BlockRange(0, last_block))


def _list_page_options(
    plan: BacktestPlan, events: str | None, changes: Sequence[str], grid: Path | None
) -> list[tuple[str, str]]:
    """Return the names and values of the options that affect a page's content."""
    last_block_text = "the last block" if plan.last_block is None else str(plan.last_block)
    return [
        ("--events", events or "the stored logs"),
        ("--from", str(plan.first_block)),
        ("--to", last_block_text),
        ("--set", ", ".join(changes) or "nothing"),
        ("--grid", "none" if grid is None else str(grid)),
        ("--draws", str(plan.max_starts)),
        ("--seed", str(plan.seed)),
    ]
