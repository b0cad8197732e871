"""Implements `select`, which shows a task's candidates, draws nodes, and verifies draws."""

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from oracle.cli.options import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    load_config,
    open_lines,
    print_model,
)
from oracle.cli.system_options import (
    AtTimeOption,
    EventsOption,
    PolicyOption,
    SetOption,
    find_changed_parameters,
    open_source,
    parse_key_values,
    resolve_system,
)
from oracle.daemon.compose import get_checked_chain, open_index
from oracle.daemon.records import open_folded_records
from oracle.domain.events.jsonl import parse_task_request
from oracle.domain.events.network_events import TaskCreated
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import ZERO_HASH
from oracle.errors import InputError
from oracle.queries.selection.draw_check import (
    AllDrawsAnswer,
    DrawCheckAnswer,
    DrawMadeAgain,
    DrawVerdict,
    verify_all_draws,
    verify_draw,
)
from oracle.queries.selection.network_snapshot import SnapshotQuery
from oracle.queries.selection.node_selection import build_task, run_selection
from oracle.queries.selection.selection_models import (
    CandidateEntry,
    SelectionResult,
    TaskRequirements,
    build_snapshot_time,
)
from oracle.queries.text.prefixes import find_task
from oracle.queries.text.text_tables import (
    TABLE_WIDTH,
    format_block_time,
    print_omitted_count,
    print_table,
    sanitize_text,
)

# The terminal shows at most this many nodes, and candidates per draw; --json shows all.
_MAX_NODES = 50
_MAX_ROWS = 20
# Fractions are truncated to this length, so that they fit next to an address.
_FRACTION_LENGTH = len("0.123456")
_MAX_MODELS = 3
# At most this many columns of fractions fit next to an address.
_MAX_PARTS = 4
# A policy puts its reason, a sentence of at most this length, into this part.
_REASON_PART = "why"
_MAX_REASON_LENGTH = 200
_PARTS_COLUMN = "made of"
_TEXT_COLUMNS = (_REASON_PART, _PARTS_COLUMN)


def _show_selection(result: SelectionResult, draws: int | None) -> None:
    """Print a selection with its candidates and draws.

    `draws` is the requested number of nodes, or None for the default.
    """
    typer.echo(f"task {_format_task_key(result.task)}: {_format_requirements(result.task)}")
    as_of_suffix = "" if result.as_of is None else f", {result.as_of.to_text()}"
    typer.echo(
        f"policy {result.policy} (version {result.version}), rules {result.rules}{as_of_suffix}"
    )
    if result.changed:
        changed_parameters_text = ", ".join(
            f"{name}={text}" for name, text in result.changed.items()
        )
        typer.echo(
            fill(f"changed: {changed_parameters_text}", TABLE_WIDTH, break_on_hyphens=False)
        )
    candidates = [entry for entry in result.nodes if entry.candidate]
    candidates.sort(key=lambda entry: (-(entry.chance or 0), entry.node))
    non_candidates = [entry for entry in result.nodes if not entry.candidate]
    typer.echo(f"candidates: {len(candidates)} of {len(result.nodes)} members")
    if candidates:
        typer.echo("")
        _show_candidates(candidates)
        if result.equal_weights:
            typer.echo("no candidate has weight: all have the same probability")
    if non_candidates:
        typer.echo("")
        rows = [(entry.node, (entry.why_not or "").replace("_", " ")) for entry in non_candidates]
        print_table(("node", "why not"), rows[:_MAX_NODES], left_columns=("why not",))
        print_omitted_count(len(rows), _MAX_NODES)
    if result.seed is not None:
        typer.echo("")
        _show_draws(result, draws)
    for predownload in result.predownload or ():
        typer.echo("")
        pending_note = f", {predownload.pending} requested" if predownload.pending else ""
        request_text = (
            f"model {sanitize_text(predownload.model)}: {predownload.holders} available nodes "
            f"have it{pending_note}; to request:"
        )
        typer.echo(request_text if predownload.requested_nodes else f"{request_text} none")
        for address in predownload.requested_nodes:
            typer.echo(f"  {address}")


def _format_requirements(task: TaskRequirements) -> str:
    requirements = [f"at least {task.min_vram or 0} GB"]
    if task.required_gpu:
        requirements = [
            f"GPU {sanitize_text(task.required_gpu)} with {task.required_gpu_vram or 0} GB"
        ]
    if task.models:
        model_names = ", ".join(sanitize_text(model) for model in task.models[:_MAX_MODELS])
        requirements.append(
            f"models {model_names}" + (" …" if len(task.models) > _MAX_MODELS else "")
        )
    if task.version is not None:
        requirements.append("version " + ".".join(map(str, task.version)))
    if task.kind is not None:
        requirements.append(f"kind {task.kind.value}")
    return ", ".join(requirements)


def _format_task_key(task: TaskRequirements) -> str:
    return "without a key" if task.task == ZERO_HASH else task.task


def _show_candidates(candidates: Sequence[CandidateEntry]) -> None:
    shown_entries = [
        entry
        for rank, entry in enumerate(candidates)
        if rank < _MAX_NODES or entry.drawn is not None
    ]
    column_names, cells = _build_probability_columns(shown_entries)
    rows = [
        (
            entry.node,
            "" if entry.drawn is None else str(entry.drawn),
            _shorten_fraction(format_decimal(entry.chance or 0)),
            *part_cells,
        )
        for entry, part_cells in zip(shown_entries, cells, strict=True)
    ]
    print_table(("node", "drawn", "p", *column_names), rows, left_columns=_TEXT_COLUMNS)
    print_omitted_count(len(candidates), _MAX_NODES)


def _build_probability_columns(
    entries: Sequence[CandidateEntry],
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the columns and cells that explain the probabilities.

    If there are too many columns, a single text column has all parts of the weight; --json
    contains everything.
    """
    part_names = list(dict.fromkeys(name for entry in entries for name in entry.parts))
    if _REASON_PART in part_names:
        return [_REASON_PART], [
            (sanitize_text(entry.parts[_REASON_PART], _MAX_REASON_LENGTH),) for entry in entries
        ]
    if len(part_names) <= _MAX_PARTS:
        return part_names, [
            [_shorten_fraction(entry.parts.get(name, "-")) for name in part_names]
            for entry in entries
        ]
    return [_PARTS_COLUMN], [
        (
            "; ".join(
                f"{name.replace('_', ' ')} {_shorten_fraction(text)}"
                for name, text in entry.parts.items()
            ),
        )
        for entry in entries
    ]


def _shorten_fraction(text: str) -> str:
    """Shorten a decimal fraction; any other text is returned unchanged."""
    integer_part, decimal_point, digits = text.partition(".")
    is_fraction = decimal_point and integer_part.isdigit() and digits.isdigit()
    return text[:_FRACTION_LENGTH] if is_fraction else sanitize_text(text)


def _show_draws(result: SelectionResult, draws: int | None) -> None:
    typer.echo(f"drawn by {result.seed}")
    if not result.draws:
        typer.echo("no draw: there are no candidates")
        return
    gpu = result.gpu
    if gpu is not None:
        name = sanitize_text(f"{gpu.name}, {gpu.vram} GB")
        typer.echo(f"GPU {name}: {gpu.x} of {gpu.sum} nodes")
    rows = [
        (str(draw_number), node_draw.node, str(node_draw.x), str(node_draw.sum))
        for draw_number, node_draw in enumerate(result.draws, start=1)
    ]
    print_table(("", "node", "x", "of"), rows)
    if len(rows) < (draws or 1):
        typer.echo(f"{draws} draws were requested; there are no more candidates")


def show_draw_check(check: DrawCheckAnswer | AllDrawsAnswer) -> None:
    """Print each recomputed draw with its verdict, or the differing tasks if all were checked."""
    if isinstance(check, AllDrawsAnswer):
        _show_all_draws_check(check)
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
    for recorded_draw in check.recorded:
        voided_block = recorded_draw.voided_block
        state_text = "active" if voided_block is None else f"voided at block {voided_block}"
        typer.echo(
            f"recorded   {recorded_draw.node} by block {recorded_draw.seed_block}, {state_text}"
        )
    typer.echo(fill(f"{check.verdict.value.replace('_', ' ')}: {check.why}", TABLE_WIDTH))


def _show_recomputed_draw(draw: DrawMadeAgain) -> None:
    typer.echo(f"seed block {draw.seed_block}, hash {draw.seed_hash}")
    typer.echo(f"seed       {draw.seed}")
    if draw.gpu is not None:
        typer.echo(f"GPU       {draw.gpu}")
    typer.echo(f"x          {draw.x} of {draw.sum}")
    typer.echo(f"drawn      {draw.node}")
    typer.echo("")
    rows = [(candidate.node, str(candidate.weight)) for candidate in draw.candidates]
    print_table(("node", "weight"), rows[:_MAX_ROWS])
    print_omitted_count(len(rows), _MAX_ROWS)


def _show_all_draws_check(check: AllDrawsAnswer) -> None:
    blocks_text = f"blocks {check.start_block + 1} to {check.as_of.block}"
    typer.echo(f"{blocks_text}, {format_block_time(check.as_of.time)}")
    if not check.started:
        typer.echo("not dispatched: no task started in these blocks")
        return
    typer.echo(f"started    {check.started} tasks, {check.agree} of them on the drawn node")
    for start in check.differ[:_MAX_ROWS]:
        typer.echo(f"differs    {start.task} in block {start.started_block}")
        typer.echo(f"           started by {start.started_by or 'several nodes'}")
        typer.echo(f"           drawn was  {start.drawn or 'no node'}")
    print_omitted_count(len(check.differ), _MAX_ROWS)
    if check.differ:
        typer.echo("differs: the tasks above were started by other nodes")
    else:
        typer.echo("agrees: every task was started by the node drawn for it")


_EXAMPLE = "Example: qos-oracle select --task task.json --seed 0x… --draws 3 --json"
# This value of --verify checks the draws of all tasks in one pass.
_ALL_TASKS = "all"

_TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="FILE|-",
        help=(
            "JSON file with the task requirements (fields of `task_created`: min_vram, models, "
            "kind …); - reads stdin."
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
        "--draws", min=1, metavar="N", help="Number of nodes to draw. Default: 1 (3 with legacy)."
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

    Reads the database or a file of events; sends and writes nothing. With --seed, the command also
    draws nodes as the network would. --set overrides values of the rules or the policy. With
    --verify, the command recomputes an on-chain draw and compares it. Exit codes with --verify: 0
    if the drawn node started the task, 1 if another node started it, 2 if no comparison is
    possible. `all` compares every task in one pass, and exits with 1 if any task differs.
    """
    if verify is not None:
        _check_verify_is_sole_option(task, policy, seed, draws, changes, at_time, events)
        _verify_and_print_draws(config, verify, as_json=as_json)
        return
    if task is None:
        raise InputError(
            "--task: required; a JSON file with the task requirements, or - for stdin"
        )
    if task == events == "-":
        raise InputError("--task and --events: only one can read stdin")
    task_request = _read_task_file(task)
    seed_bytes = _parse_seed(seed, draws)
    with open_source(events, config) as source:
        system_choice = resolve_system(policy, parse_key_values("--set", changes), source)
        evaluator = system_choice.policy.create_evaluator()
        snapshot = source.take_snapshot(
            SnapshotQuery(
                system_choice.rules,
                at_time,
                evaluator if system_choice.needs_history else None,
                task_request.group,
            )
        )
        selection = run_selection(
            snapshot,
            system_choice.policy,
            evaluator,
            build_task(task_request, system_choice.rules),
            seed_bytes,
            draws,
        )
    selection_fields = dict(selection) | {"changed": find_changed_parameters(system_choice)}
    result = SelectionResult(as_of=build_snapshot_time(snapshot), **selection_fields)
    if as_json:
        print_model(result)
    else:
        _show_selection(result, draws)


def _check_verify_is_sole_option(*option_values: object) -> None:
    if any(option is not None for option in option_values):
        raise InputError("--verify: can be combined only with --config and --json")


def _verify_and_print_draws(config: Path, task: str, *, as_json: bool) -> None:
    with open_folded_records(load_config(config)) as records, open_index(records) as index:
        with index.store.read_transaction() as uow:
            task_key = None if task == _ALL_TASKS else find_task(uow, task)
        settings = index.dispatch_settings
        if settings is None:
            raise InputError("dispatch.start_block: required; without it no nodes are drawn")
        check_inputs = (get_checked_chain(index), index.store, index.reader, settings)
        check: DrawCheckAnswer | AllDrawsAnswer = (
            verify_all_draws(*check_inputs)
            if task_key is None
            else verify_draw(*check_inputs, task_key)
        )
    if as_json:
        print_model(check)
    else:
        show_draw_check(check)
    if check.verdict is not DrawVerdict.AGREES:
        raise typer.Exit(1 if check.verdict is DrawVerdict.DIFFERS else 2)


def _read_task_file(file: str) -> TaskCreated:
    with open_lines(file) as lines:
        try:
            return parse_task_request("".join(lines))
        except ValueError as error:
            raise InputError(str(error)) from None


def _parse_seed(seed: str | None, draws: int | None) -> bytes | None:
    if seed is None:
        if draws is not None:
            raise InputError("--draws: requires --seed")
        return None
    if re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", seed) is None:
        raise InputError(
            f"--seed {sanitize_text(seed)}: must be 32 bytes, written as 64 hex digits"
        )
    return bytes.fromhex(seed.removeprefix("0x"))
