"""`select`: shows the nodes that can get a task, draws nodes by a seed, and verifies draws."""

import re
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from oracle.cli.event_files import open_lines
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.select.select_tables import show_selection
from oracle.cli.system_options import (
    AtTimeOption,
    EventsOption,
    InputSource,
    PolicyOption,
    SetOption,
    SystemChoice,
    choose_system,
    list_changed_numbers,
    open_source,
    parse_key_values,
)
from oracle.daemon.compose import check_index_chain, open_index
from oracle.daemon.records import open_folded_records
from oracle.domain.events.jsonl import parse_task_request
from oracle.domain.events.network_events import TaskCreated
from oracle.errors import InputError
from oracle.queries.selection.draw_check import DrawVerdict, verify_all_draws, verify_draw
from oracle.queries.selection.draw_check_models import (
    AllDrawsAnswer,
    DrawCheckAnswer,
    DrawMadeAgain,
    build_draw_check_answer,
)
from oracle.queries.selection.network_snapshot import NetworkSnapshot, SnapshotQuery
from oracle.queries.selection.node_selection import (
    DrawParameters,
    Selection,
    build_task,
    run_selection as select_nodes,
)
from oracle.queries.selection.selection_models import SelectionResult, build_selection_figures
from oracle.queries.selection.task_models import build_snapshot_time
from oracle.queries.text.prefixes import find_task
from oracle.queries.text.status_text import format_block_time
from oracle.queries.text.text_tables import TABLE_WIDTH, print_table, sanitize_text

# Limit per draw in the terminal; --json contains all candidates.
_MAX_ROWS = 20


def show_draw_check(check: DrawCheckAnswer | AllDrawsAnswer) -> None:
    """Print each recomputed draw, the verdict and its reason; for `all`, the tasks that differ."""
    if isinstance(check, AllDrawsAnswer):
        _show_all_draws(check)
        return
    typer.echo(f"task {check.task}")
    typer.echo(f"as of block {check.as_of.block}, {format_block_time(check.as_of.time)}")
    for draw in check.draws:
        typer.echo("")
        _show_recomputed_draw(draw)
    typer.echo("")
    if check.started_by is None:
        typer.echo("not started")
    else:
        typer.echo(f"started by {check.started_by} in block {check.started_block}")
    for recorded in check.recorded:
        voided = recorded.voided_block
        state_text = "active" if voided is None else f"voided at block {voided}"
        typer.echo(f"recorded   {recorded.node} by block {recorded.seed_block}, {state_text}")
    typer.echo(fill(f"{check.verdict.value.replace('_', ' ')}: {check.why}", TABLE_WIDTH))


def _show_recomputed_draw(draw: DrawMadeAgain) -> None:
    typer.echo(f"seed block {draw.seed_block}, hash {draw.seed_hash}")
    typer.echo(f"seed       {draw.seed}")
    if draw.card is not None:
        typer.echo(f"card       {draw.card}")
    typer.echo(f"x          {draw.x} of {draw.sum}")
    typer.echo(f"drawn      {draw.node}")
    typer.echo("")
    rows = [(candidate.node, str(candidate.weight)) for candidate in draw.candidates]
    print_table(("node", "weight"), rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        typer.echo(f"… and {len(rows) - _MAX_ROWS} more; --json lists all")


def _show_all_draws(check: AllDrawsAnswer) -> None:
    blocks = f"blocks {check.start_block + 1} to {check.as_of.block}"
    typer.echo(f"{blocks}, {format_block_time(check.as_of.time)}")
    if not check.started:
        typer.echo("not dispatched: no task started in these blocks")
        return
    typer.echo(f"started    {check.started} tasks, {check.agree} of them on the drawn node")
    for start in check.differ[:_MAX_ROWS]:
        typer.echo(f"differs    {start.task} in block {start.started_block}")
        typer.echo(f"           started by {start.started_by or 'several nodes'}")
        typer.echo(f"           drawn was  {start.drawn or 'no node'}")
    if len(check.differ) > _MAX_ROWS:
        typer.echo(f"… and {len(check.differ) - _MAX_ROWS} more; --json lists all")
    if check.differ:
        typer.echo("differs: the tasks above were started by other nodes")
    else:
        typer.echo("agrees: every task was started by the node drawn for it")


_EXAMPLE = "Example: qos-oracle select --task task.json --seed 0x… --draws 3 --json"
# Value of --verify that checks every drawn task in one pass.
_ALL_TASKS = "all"

_TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="FILE|-",
        help=(
            "JSON file with the task requirements (fields of `task_created`: min_vram, "
            "models, kind …); - is stdin."
        ),
    ),
]
_SeedOption = Annotated[
    str | None,
    typer.Option(
        "--seed",
        metavar="HEX",
        help="Seed of the draw, 32 bytes as 64 hex digits. Default: no draw.",
    ),
]
_DrawsOption = Annotated[
    int | None,
    typer.Option(
        "--draws", min=1, metavar="N", help="Number of nodes to draw. Default: 1, under legacy 3."
    ),
]
_VerifyOption = Annotated[
    str | None,
    typer.Option(
        "--verify",
        metavar="TASK|all",
        help="Task whose on-chain draw is recomputed and compared, or `all`.",
    ),
]


def register(app: typer.Typer) -> None:
    """Register `select` on the command line."""
    app.command("select", epilog=_EXAMPLE)(select)


def select(  # noqa: PLR0913 - a command line's options are its parameters
    config: ConfigOption = DEFAULT_CONFIG,
    *,
    task: _TaskOption = None,
    policy: PolicyOption = None,
    seed: _SeedOption = None,
    draws: _DrawsOption = None,
    changes: SetOption = None,
    at_time: AtTimeOption = None,
    events: EventsOption = None,
    verify: _VerifyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which members can get a task, with reasons and odds.

    Reads the database or a file of events; sends and writes nothing. With --seed nodes are also
    drawn, as the network would draw them; --set changes numbers of the rules and of the policy.
    With --verify an on-chain draw is recomputed and compared. Exit codes with --verify: 0 the
    drawn node started the task, 1 another node did, 2 nothing to compare; `all` compares every
    task in one pass and exits with 1 if any differs.
    """
    if verify is not None:
        _check_no_other_options(task, policy, seed, draws, changes, at_time, events)
        _verify_draws(config, verify, as_json=as_json)
        return
    if task is None:
        raise InputError(
            "--task: required; a JSON file with the task requirements, or - for stdin"
        )
    if task == events == "-":
        raise InputError("--task and --events: only one can read stdin")
    task_request, tickets = _read_task_file(task), _parse_tickets(seed, draws)
    with open_source(events, config) as source:
        choice = choose_system(policy, parse_key_values("--set", changes), source)
        snapshot, node_choice = _run_selection(source, choice, task_request, (at_time, tickets))
    selection = build_selection_figures(
        node_choice, snapshot.rules.name, list_changed_numbers(choice)
    )
    result = SelectionResult(as_of=build_snapshot_time(snapshot), **dict(selection))
    if as_json:
        print_answer(result)
    else:
        show_selection(result, None if tickets is None else tickets.draw_count)


def _check_no_other_options(*option_values: object) -> None:
    if any(option is not None for option in option_values):
        raise InputError("--verify: can be combined only with --config and --json")


def _verify_draws(config: Path, task: str, *, as_json: bool) -> None:
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        with index.store.read_transaction() as uow:
            key = None if task == _ALL_TASKS else find_task(uow, task)
        settings = index.dispatch_settings
        if settings is None:
            raise InputError("dispatch.start_block: required; without it no nodes are drawn")
        check_inputs = (check_index_chain(index), index.store, index.reader, settings)
        check = verify_all_draws(*check_inputs) if key is None else verify_draw(*check_inputs, key)
    answer = build_draw_check_answer(check)
    if as_json:
        print_answer(answer)
    else:
        show_draw_check(answer)
    if check.verdict is not DrawVerdict.AGREES:
        raise typer.Exit(1 if check.verdict is DrawVerdict.DIFFERS else 2)


def _run_selection(
    source: InputSource,
    choice: SystemChoice,
    task_request: TaskCreated,
    time_and_tickets: tuple[int | None, DrawParameters | None],
) -> tuple[NetworkSnapshot, Selection]:
    at_time, tickets = time_and_tickets
    follower = choice.policy.create_follower()
    snapshot = source.take_snapshot(
        SnapshotQuery(
            choice.rules, at_time, follower if choice.needs_history else None, task_request.group
        )
    )
    requested_task = build_task(task_request, choice.rules)
    return snapshot, select_nodes(snapshot, choice.policy, follower, requested_task, tickets)


def _read_task_file(file: str) -> TaskCreated:
    with open_lines(file) as lines:
        try:
            return parse_task_request("".join(lines))
        except ValueError as error:
            raise InputError(str(error)) from None


def _parse_tickets(seed: str | None, draws: int | None) -> DrawParameters | None:
    if seed is None:
        if draws is not None:
            raise InputError("--draws: requires --seed")
        return None
    if re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", seed) is None:
        raise InputError(f"--seed {sanitize_text(seed)}: must be 32 bytes, as 64 hex digits")
    return DrawParameters(bytes.fromhex(seed.removeprefix("0x")), draws)
