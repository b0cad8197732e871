"""The text of `select`: candidates by probability, reasons of the other nodes, and the draw."""

from collections.abc import Sequence
from textwrap import fill

import typer

from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import ZERO_HASH
from oracle.queries.selection.selection_models import CandidateEntry, SelectionResult
from oracle.queries.selection.task_models import SnapshotTime, TaskRequirements
from oracle.queries.text.status_text import format_block_time
from oracle.queries.text.text_tables import TABLE_WIDTH, print_table, sanitize_text

# Limit for the terminal; --json contains all nodes.
_MAX_ROWS = 50
# Number of characters of a fraction that fits beside an address.
_FRACTION_LENGTH = len("0.123456")
_MAX_MODELS = 3
# Number of fraction columns that fit beside an address.
_MAX_PARTS = 4
# The part that holds a policy's reason as one sentence, and its maximum length.
_REASON_PART = "why"
_MAX_REASON_LENGTH = 200
_PARTS_COLUMN = "made of"
_TEXT_COLUMNS = (_REASON_PART, _PARTS_COLUMN)


def show_selection(result: SelectionResult, draws: int | None) -> None:
    """Print one selection; `draws` is the requested number of nodes, or None for the default."""
    typer.echo(f"task {_format_task_key(result.task)}: {_format_requirements(result.task)}")
    as_of = "" if result.as_of is None else f", {format_as_of(result.as_of)}"
    typer.echo(f"policy {result.policy} (version {result.version}), rules {result.rules}{as_of}")
    if result.changed:
        numbers = ", ".join(f"{name}={text}" for name, text in result.changed.items())
        typer.echo(fill(f"changed: {numbers}", TABLE_WIDTH, break_on_hyphens=False))
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
        print_table(("node", "why not"), rows[:_MAX_ROWS], left_columns=("why not",))
        _show_more(len(rows))
    if result.seed is not None:
        typer.echo("")
        _show_draws(result, draws)
    for scarce in result.predownload or ():
        typer.echo("")
        pending = f", {scarce.pending} requested" if scarce.pending else ""
        request_text = (
            f"model {sanitize_text(scarce.model)}: {scarce.holders} available nodes have "
            f"it{pending}; to request:"
        )
        typer.echo(request_text if scarce.ask else f"{request_text} none")
        for address in scarce.ask:
            typer.echo(f"  {address}")


def format_as_of(as_of: SnapshotTime) -> str:
    """Return the block and the time of a snapshot as readable text."""
    block_text = "before any event" if as_of.block is None else f"as of block {as_of.block}"
    return f"{block_text}, {format_block_time(as_of.time)}"


def _format_requirements(task: TaskRequirements) -> str:
    """Return the requirements of a task in one line."""
    requirements = [f"at least {task.min_vram or 0} GB"]
    if task.required_gpu:
        requirements = [
            f"GPU {sanitize_text(task.required_gpu)} with {task.required_gpu_vram or 0} GB"
        ]
    if task.models:
        names = ", ".join(sanitize_text(model) for model in task.models[:_MAX_MODELS])
        requirements.append(f"models {names}" + (" …" if len(task.models) > _MAX_MODELS else ""))
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
        if rank < _MAX_ROWS or entry.drawn is not None
    ]
    names, cells = _build_part_columns(shown_entries)
    rows = [
        (
            entry.node,
            "" if entry.drawn is None else str(entry.drawn),
            _shorten_fraction(format_decimal(entry.chance or 0)),
            *part_cells,
        )
        for entry, part_cells in zip(shown_entries, cells, strict=True)
    ]
    print_table(("node", "drawn", "p", *names), rows, left_columns=_TEXT_COLUMNS)
    _show_more(len(candidates))


def _build_part_columns(
    entries: Sequence[CandidateEntry],
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the columns and cells of the parts that make up the probabilities.

    If there are too many columns, one text column holds all parts; --json contains everything.
    """
    names = list(dict.fromkeys(name for entry in entries for name in entry.parts))
    if _REASON_PART in names:
        return [_REASON_PART], [
            (sanitize_text(entry.parts[_REASON_PART], _MAX_REASON_LENGTH),) for entry in entries
        ]
    if len(names) <= _MAX_PARTS:
        return names, [
            [_shorten_fraction(entry.parts.get(name, "-")) for name in names] for entry in entries
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


def _shorten_fraction(part: str) -> str:
    """Shorten a decimal fraction of 18 digits; leave any other text unchanged."""
    integer_part, dot, digits = part.partition(".")
    is_fraction = dot and integer_part.isdigit() and digits.isdigit()
    return part[:_FRACTION_LENGTH] if is_fraction else sanitize_text(part)


def _show_more(row_count: int) -> None:
    if row_count > _MAX_ROWS:
        typer.echo(f"… and {row_count - _MAX_ROWS} more; --json lists all")


def _show_draws(result: SelectionResult, draws: int | None) -> None:
    typer.echo(f"drawn by {result.seed}")
    if not result.draws:
        typer.echo("no draw: there are no candidates")
        return
    card = result.card
    if card is not None:
        name = sanitize_text(f"{card.gpu}, {card.vram} GB")
        typer.echo(f"card {name}: {card.x} of {card.sum} nodes")
    rows = [
        (str(draw_number), drawn.node, str(drawn.x), str(drawn.sum))
        for draw_number, drawn in enumerate(result.draws, start=1)
    ]
    print_table(("", "node", "x", "of"), rows)
    if len(rows) < (draws or 1):
        typer.echo(f"{draws} draws were requested; there are no more candidates")
