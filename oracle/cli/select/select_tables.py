"""What `select` shows to people: the likeliest first, everybody's reasons, the draw."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import typer

from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import ZERO_HASH, Address, TaskKey
from oracle.domain.state.task import Task
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.node_selection import CandidateChance, DrawTickets, Selection
from oracle.queries.selection.task_models import SnapshotTime, snapshot_time
from oracle.queries.text.status_text import shown_time
from oracle.queries.text.text_tables import WIDTH, foreign, print_table
from oracle.systems.policy import CandidateVerdict

# On a terminal; --json has them all.
_MOST_ROWS = 50
# Digits of a fraction that fit beside an address.
_SHOWN = len("0.123456")
_MOST_MODELS = 3
# Fractions that fit beside an address.
_MOST_PARTS = 4
# The part in which a policy tells everything at once, and how long it may be.
_SENTENCE = "why"
_LONGEST = 200
_MADE_OF = "made of"
_TEXT = (_SENTENCE, _MADE_OF)


def show_selection(
    chosen: Selection, snapshot: NetworkSnapshot, changed: Mapping[str, str]
) -> None:
    """Print one selection; `changed`: the numbers that are not as published."""
    typer.echo(f"task {_key(chosen.task)}: {shown_requirements(chosen.task)}")
    typer.echo(
        f"policy {chosen.policy} (version {chosen.version}), rules {snapshot.rules.name}, "
        f"{shown_as_of(snapshot_time(snapshot))}"
    )
    if changed:
        numbers = ", ".join(f"{name}={text}" for name, text in changed.items())
        typer.echo(fill(f"changed: {numbers}", WIDTH, break_on_hyphens=False))
    inside = [judged for judged in chosen.judged if judged.chance is not None]
    inside.sort(key=lambda judged: (-(judged.chance or 0), judged.verdict.node))
    outside = [judged for judged in chosen.judged if judged.chance is None]
    typer.echo(f"candidates: {len(inside)} of {len(chosen.judged)} members")
    if inside:
        typer.echo("")
        places = {drawn.node: place for place, drawn in enumerate(chosen.drawn, start=1)}
        _show_candidates(inside, places)
        if chosen.has_equal_weights:
            typer.echo("nobody has any weight: each counts the same")
    if outside:
        typer.echo("")
        rows = [
            (judged.verdict.node, (judged.verdict.out or "").replace("_", " "))
            for judged in outside
        ]
        print_table(("node", "why not"), rows[:_MOST_ROWS], left=("why not",))
        _more(len(rows))
    if chosen.lots is not None:
        typer.echo("")
        _show_draws(chosen, chosen.lots)
    for scarce in chosen.scarce or ():
        typer.echo("")
        pending = f", {scarce.pending} are asked" if scarce.pending else ""
        said = (
            f"model {foreign(scarce.model)}: {scarce.holders} available have it{pending}; to ask:"
        )
        typer.echo(said if scarce.nodes else f"{said} nobody")
        for address in scarce.nodes:
            typer.echo(f"  {address}")


def shown_as_of(as_of: SnapshotTime) -> str:
    """Return the block and the time that an answer speaks of, for people."""
    block = "before any event" if as_of.block is None else f"as of block {as_of.block}"
    return f"{block}, {shown_time(as_of.time)}"


def shown_requirements(task: Task) -> str:
    """Say what a task asks for, in one line."""
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


def _key(task: Task) -> str:
    return "without a key" if task.key == TaskKey(ZERO_HASH) else task.key


def _why_not(judged: CandidateChance) -> str:
    return (judged.verdict.out or "").replace("_", " ")


def _show_candidates(inside: Sequence[CandidateChance], places: dict[Address, int]) -> None:
    shown = [j for n, j in enumerate(inside) if n < _MOST_ROWS or j.verdict.node in places]
    names, cells = _parts([judged.verdict for judged in shown])
    rows = [
        (
            judged.verdict.node,
            str(places.get(judged.verdict.node, "")),
            _short(decimal_text(judged.chance or 0)),
            *made_of,
        )
        for judged, made_of in zip(shown, cells, strict=True)
    ]
    print_table(("node", "drawn", "p", *names), rows, left=_TEXT)
    _more(len(inside))


def _parts(shown: Sequence[CandidateVerdict]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the columns that say what the probabilities are made of, and their cells.

    What does not fit beside an address stands in one column of text; --json has everything.
    """
    names = list(dict.fromkeys(name for verdict in shown for name in verdict.parts))
    if _SENTENCE in names:
        return [_SENTENCE], [(foreign(each.parts[_SENTENCE], _LONGEST),) for each in shown]
    if len(names) <= _MOST_PARTS:
        return names, [[_short(each.parts.get(name, "-")) for name in names] for each in shown]
    return [_MADE_OF], [
        (
            "; ".join(
                f"{name.replace('_', ' ')} {_short(said)}" for name, said in each.parts.items()
            ),
        )
        for each in shown
    ]


def _short(part: str) -> str:
    """Cut a fraction with 18 digits; anything else stays."""
    whole, dot, digits = part.partition(".")
    fraction = dot and whole.isdigit() and digits.isdigit()
    return part[:_SHOWN] if fraction else foreign(part)


def _more(rows: int) -> None:
    if rows > _MOST_ROWS:
        typer.echo(f"… and {rows - _MOST_ROWS} more; --json has them all")


def _show_draws(chosen: Selection, lots: DrawTickets) -> None:
    typer.echo(f"drawn by 0x{lots.seed.hex()}")
    if not chosen.drawn:
        typer.echo("nobody: there is no candidate")
        return
    trio = chosen.trio
    if trio is not None and trio.card is not None and trio.lot is not None:
        typer.echo(f"card {foreign(trio.card.text)}: {trio.lot.x} of {trio.lot.total} nodes")
    rows = [
        (str(place), drawn.node, str(drawn.x), str(drawn.total))
        for place, drawn in enumerate(chosen.drawn, start=1)
    ]
    print_table(("", "node", "x", "of"), rows)
    if len(rows) < (lots.draws or 1):
        typer.echo(f"{lots.draws} were wanted; there are no more candidates")
