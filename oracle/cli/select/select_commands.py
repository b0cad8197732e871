"""`select`: node selection for a task, draws by a seed, and verification of on-chain draws."""

import re
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from oracle.cli.event_files import lines_of
from oracle.cli.options import DEFAULT_CONFIG, ConfigOption, JsonOption, load_config, print_answer
from oracle.cli.select.select_tables import show_selection
from oracle.cli.system_options import (
    AtOption,
    EventsOption,
    InputSource,
    PolicyOption,
    SetOption,
    SystemChoice,
    changed_in,
    chosen,
    pairs_of,
    source_of,
)
from oracle.daemon.compose import check_chain_of, open_index
from oracle.daemon.records import open_folded_records
from oracle.domain.events.jsonl import parse_wanted_task
from oracle.domain.events.network_events import TaskCreated
from oracle.errors import InputError
from oracle.queries.selection.draw_check import DrawVerdict, verify_all, verify_draw
from oracle.queries.selection.draw_check_models import (
    AllDrawsAnswer,
    DrawCheckAnswer,
    DrawMadeAgain,
    draw_check_answer,
)
from oracle.queries.selection.network_snapshot import NetworkSnapshot, SnapshotQuery
from oracle.queries.selection.node_selection import (
    DrawTickets,
    Selection,
    select as select_nodes,
    wanted_task,
)
from oracle.queries.selection.selection_models import SelectionResult, node_selection
from oracle.queries.selection.task_models import snapshot_time
from oracle.queries.text.prefixes import task_named
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import WIDTH, foreign, print_table

# Limit per draw in the terminal; --json contains all candidates.
_MOST_ROWS = 20


def show_check(check: DrawCheckAnswer | AllDrawsAnswer) -> None:
    """Print each required draw, the verdict and its reason; for `all`, the differing tasks."""
    if isinstance(check, AllDrawsAnswer):
        _show_all(check)
        return
    typer.echo(f"task {check.task}")
    typer.echo(f"as of block {check.as_of.block}, {shown_time(check.as_of.time)}")
    for draw in check.draws:
        typer.echo("")
        _show_drawing(draw)
    typer.echo("")
    if check.started_by is None:
        typer.echo("started by nobody")
    else:
        typer.echo(f"started by {check.started_by} in block {check.started_block}")
    for recorded in check.recorded:
        voided = recorded.voided_block
        over = "stands" if voided is None else f"over at block {voided}"
        typer.echo(f"recorded   {recorded.node} by block {recorded.seed_block}, {over}")
    typer.echo(fill(f"{check.verdict.value.replace('_', ' ')}: {check.why}", WIDTH))


def _show_drawing(draw: DrawMadeAgain) -> None:
    typer.echo(f"seed block {draw.seed_block}, hash {draw.seed_hash}")
    typer.echo(f"seed       {draw.seed}")
    if draw.card is not None:
        typer.echo(f"card       {draw.card}")
    typer.echo(f"x          {draw.x} of {draw.sum}")
    typer.echo(f"drawn      {draw.node}")
    typer.echo("")
    rows = [(candidate.node, str(candidate.weight)) for candidate in draw.candidates]
    print_table(("node", "weight"), rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more; --json has them all")


def _show_all(check: AllDrawsAnswer) -> None:
    blocks = f"blocks {check.start_block + 1} to {check.as_of.block}"
    typer.echo(f"{blocks}, {shown_time(check.as_of.time)}")
    if not check.started:
        typer.echo("not dispatched: no task started in them")
        return
    typer.echo(f"started    {check.started} tasks, {check.agree} of them on the node drawn")
    for start in check.differ[:_MOST_ROWS]:
        typer.echo(f"differs    {start.task} in block {start.started_block}")
        typer.echo(f"           started by {start.started_by or 'several nodes'}")
        typer.echo(f"           drawn was  {start.drawn or 'nobody'}")
    if len(check.differ) > _MOST_ROWS:
        typer.echo(f"… and {len(check.differ) - _MOST_ROWS} more; --json has them all")
    if check.differ:
        typer.echo("differs: the tasks named above went elsewhere")
    else:
        typer.echo("agrees: every task went to the node drawn for it")


_EXAMPLE = "Example: qos-oracle select --task task.json --seed 0x… --draws 3 --json"
# Value of --verify that checks every drawn task in one pass.
_ALL = "all"

_TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="FILE|-",
        help="A JSON file with what the task asks for (the fields of `task_created`: min_vram, "
        "models, kind …); - is stdin.",
    ),
]
_SeedOption = Annotated[
    str | None,
    typer.Option(
        "--seed",
        metavar="HEX",
        help="Draw by these 32 bytes (64 hex digits); without it nobody is drawn.",
    ),
]
_DrawsOption = Annotated[
    int | None,
    typer.Option(
        "--draws", min=1, metavar="N", help="How many nodes to draw; default: 1, legacy 3."
    ),
]
_VerifyOption = Annotated[
    str | None,
    typer.Option(
        "--verify", metavar="TASK|all", help="Draw again what was drawn on chain, compare."
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
    at: AtOption = None,
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
        _no_other(task, policy, seed, draws, changes, at, events)
        _verify(config, verify, as_json=as_json)
        return
    if task is None:
        raise InputError("--task: name a file with what the task asks for, or - for stdin")
    if task == events == "-":
        raise InputError("--task and --events: only one of them can be stdin")
    said, drawing = _said(task), _lots(seed, draws)
    with source_of(events, config) as source:
        choice = chosen(policy, pairs_of("--set", changes), source)
        snapshot, told = _selection(source, choice, said, (at, drawing))
    selection = node_selection(told, snapshot.rules.name, changed_in(choice))
    result = SelectionResult(as_of=snapshot_time(snapshot), **dict(selection))
    if as_json:
        print_answer(result)
    else:
        show_selection(result, None if drawing is None else drawing.draws)


def _no_other(*given: object) -> None:
    if any(option is not None for option in given):
        raise InputError("--verify: stands with --config and --json alone")


def _verify(config: Path, task: str, *, as_json: bool) -> None:
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        with index.store.reading() as uow:
            key = None if task == _ALL else task_named(uow, task)
        settings = index.dispatch_settings
        if settings is None:
            raise InputError("dispatch.start_block: is missing; without it nobody is drawn")
        where = (check_chain_of(index), index.store, index.reader, settings)
        check = verify_all(*where) if key is None else verify_draw(*where, key)
    answer = draw_check_answer(check)
    if as_json:
        print_answer(answer)
    else:
        show_check(answer)
    if check.verdict is not DrawVerdict.AGREES:
        raise typer.Exit(1 if check.verdict is DrawVerdict.DIFFERS else 2)


def _selection(
    source: InputSource,
    choice: SystemChoice,
    said: TaskCreated,
    wanted: tuple[int | None, DrawTickets | None],
) -> tuple[NetworkSnapshot, Selection]:
    at, lots = wanted
    follower = choice.policy.follow()
    snapshot = source.snapshot(
        SnapshotQuery(choice.rules, at, follower if choice.remembers else None, said.group)
    )
    asked = wanted_task(said, choice.rules)
    return snapshot, select_nodes(snapshot, choice.policy, follower, asked, lots)


def _said(file: str) -> TaskCreated:
    with lines_of(file) as lines:
        try:
            return parse_wanted_task("".join(lines))
        except ValueError as error:
            raise InputError(str(error)) from None


def _lots(seed: str | None, draws: int | None) -> DrawTickets | None:
    if seed is None:
        if draws is not None:
            raise InputError("--draws: without --seed nobody is drawn")
        return None
    if re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", seed) is None:
        raise InputError(f"--seed {foreign(seed)}: must be 32 bytes, as 64 hex digits")
    return DrawTickets(bytes.fromhex(seed.removeprefix("0x")), draws)
