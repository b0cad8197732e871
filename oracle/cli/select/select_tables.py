"""Terminal output of `select`: candidates by probability, reasons, and the draw."""

from collections.abc import Sequence
from textwrap import fill

import typer

from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import ZERO_HASH
from oracle.queries.selection.selection_models import CandidateEntry, SelectionResult
from oracle.queries.selection.task_models import SnapshotTime, TaskRequirements
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import WIDTH, foreign, print_table

# Limit for the terminal; --json contains all nodes.
_MOST_ROWS = 50
# Length of a fraction that fits beside an address.
_SHOWN = len("0.123456")
_MOST_MODELS = 3
# Number of fraction columns that fit beside an address.
_MOST_PARTS = 4
# The part that holds a policy's reason as one sentence, and its maximum length.
_SENTENCE = "why"
_LONGEST = 200
_MADE_OF = "made of"
_TEXT = (_SENTENCE, _MADE_OF)


def show_selection(result: SelectionResult, draws: int | None) -> None:
    """Print one selection; `draws` is the requested number of nodes, or None for the default."""
    typer.echo(f"task {_key(result.task)}: {_requirements_text(result.task)}")
    as_of = "" if result.as_of is None else f", {shown_as_of(result.as_of)}"
    typer.echo(f"policy {result.policy} (version {result.version}), rules {result.rules}{as_of}")
    if result.changed:
        numbers = ", ".join(f"{name}={text}" for name, text in result.changed.items())
        typer.echo(fill(f"changed: {numbers}", WIDTH, break_on_hyphens=False))
    inside = [entry for entry in result.nodes if entry.candidate]
    inside.sort(key=lambda entry: (-(entry.chance or 0), entry.node))
    outside = [entry for entry in result.nodes if not entry.candidate]
    typer.echo(f"candidates: {len(inside)} of {len(result.nodes)} members")
    if inside:
        typer.echo("")
        _show_candidates(inside)
        if result.equal_weights:
            typer.echo("nobody has any weight: each counts the same")
    if outside:
        typer.echo("")
        rows = [(entry.node, (entry.why_not or "").replace("_", " ")) for entry in outside]
        print_table(("node", "why not"), rows[:_MOST_ROWS], left=("why not",))
        _more(len(rows))
    if result.seed is not None:
        typer.echo("")
        _show_draws(result, draws)
    for scarce in result.predownload or ():
        typer.echo("")
        pending = f", {scarce.pending} are asked" if scarce.pending else ""
        asked = (
            f"model {foreign(scarce.model)}: {scarce.holders} available have it{pending}; to ask:"
        )
        typer.echo(asked if scarce.ask else f"{asked} nobody")
        for address in scarce.ask:
            typer.echo(f"  {address}")


def shown_as_of(as_of: SnapshotTime) -> str:
    """Return the block and the time of an answer, as readable text."""
    block = "before any event" if as_of.block is None else f"as of block {as_of.block}"
    return f"{block}, {shown_time(as_of.time)}"


def _requirements_text(task: TaskRequirements) -> str:
    """Return the requirements of a task in one line."""
    requirements = [f"at least {task.min_vram or 0} GB"]
    if task.required_gpu:
        requirements = [f"GPU {foreign(task.required_gpu)} with {task.required_gpu_vram or 0} GB"]
    if task.models:
        names = ", ".join(foreign(model) for model in task.models[:_MOST_MODELS])
        requirements.append(f"models {names}" + (" …" if len(task.models) > _MOST_MODELS else ""))
    if task.version is not None:
        requirements.append("version " + ".".join(map(str, task.version)))
    if task.kind is not None:
        requirements.append(f"kind {task.kind.value}")
    return ", ".join(requirements)


def _key(task: TaskRequirements) -> str:
    return "without a key" if task.task == ZERO_HASH else task.task


def _show_candidates(inside: Sequence[CandidateEntry]) -> None:
    shown = [
        entry for rank, entry in enumerate(inside) if rank < _MOST_ROWS or entry.drawn is not None
    ]
    names, cells = _parts(shown)
    rows = [
        (
            entry.node,
            "" if entry.drawn is None else str(entry.drawn),
            _short(decimal_text(entry.chance or 0)),
            *made_of,
        )
        for entry, made_of in zip(shown, cells, strict=True)
    ]
    print_table(("node", "drawn", "p", *names), rows, left=_TEXT)
    _more(len(inside))


def _parts(shown: Sequence[CandidateEntry]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the columns and cells of the parts that make up the probabilities.

    If there are too many columns, one text column holds all parts; --json contains everything.
    """
    names = list(dict.fromkeys(name for entry in shown for name in entry.parts))
    if _SENTENCE in names:
        return [_SENTENCE], [(foreign(entry.parts[_SENTENCE], _LONGEST),) for entry in shown]
    if len(names) <= _MOST_PARTS:
        return names, [[_short(entry.parts.get(name, "-")) for name in names] for entry in shown]
    return [_MADE_OF], [
        (
            "; ".join(
                f"{name.replace('_', ' ')} {_short(text)}" for name, text in entry.parts.items()
            ),
        )
        for entry in shown
    ]


def _short(part: str) -> str:
    """Shorten a decimal fraction of 18 digits; leave any other text unchanged."""
    whole, dot, digits = part.partition(".")
    fraction = dot and whole.isdigit() and digits.isdigit()
    return part[:_SHOWN] if fraction else foreign(part)


def _more(rows: int) -> None:
    if rows > _MOST_ROWS:
        typer.echo(f"… and {rows - _MOST_ROWS} more; --json has them all")


def _show_draws(result: SelectionResult, draws: int | None) -> None:
    typer.echo(f"drawn by {result.seed}")
    if not result.draws:
        typer.echo("nobody: there is no candidate")
        return
    card = result.card
    if card is not None:
        name = foreign(f"{card.gpu}, {card.vram} GB")
        typer.echo(f"card {name}: {card.x} of {card.sum} nodes")
    rows = [
        (str(place), drawn.node, str(drawn.x), str(drawn.sum))
        for place, drawn in enumerate(result.draws, start=1)
    ]
    print_table(("", "node", "x", "of"), rows)
    if len(rows) < (draws or 1):
        typer.echo(f"{draws} were wanted; there are no more candidates")
