"""What `select` answers to programs: every node with its reasons, the draw, and the models."""

from collections.abc import Mapping
from typing import Any

from oracle.domain.fixed_point import decimal_text
from oracle.domain.state.task import Task
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.node_selection import CandidateChance, Selection
from oracle.systems.crynux.predownload import Predownload
from oracle.systems.weighted_draw import Drawn

# What a task may ask for, in the order of docs/reference/events-and-jsonl.md#vocabulary.
_REQUIREMENTS = (
    "creator", "fee", "min_vram", "required_gpu", "required_gpu_vram", "models", "version",
    "size", "kind", "timeout", "group",
)  # fmt: skip


def selection_answer(
    chosen: Selection, snapshot: NetworkSnapshot, changed: Mapping[str, str]
) -> dict[str, Any]:
    """Return what `select --json` says; weights, x and sums as decimal strings.

    `changed`: the numbers of rules and policy that are not as published.
    """
    places = {drawn.node: place for place, drawn in enumerate(chosen.drawn, start=1)}
    each_counts = 1 if chosen.has_equal_weights else 0
    return {
        "policy": chosen.policy,
        "version": chosen.version,
        "rules": snapshot.rules.name,
        "changed": dict(changed),
        "as_of": {"block": snapshot.block, "time": snapshot.time},
        "task": task_answer(chosen.task),
        "sum": str(chosen.total),
        "nodes": [
            {**_judged(judged, each_counts), "drawn": places.get(judged.verdict.node)}
            for judged in chosen.judged
        ],
        "seed": None if chosen.lots is None else "0x" + chosen.lots.seed.hex(),
        "card": _card(chosen),
        "draws": [drawn_answer(drawn) for drawn in chosen.drawn],
        "predownload": chosen.scarce and [_scarce(each) for each in chosen.scarce],
    }


def task_answer(task: Task) -> dict[str, Any]:
    """Return a task's key and what it asks for; what its creator did not say is left out."""
    said = {name: getattr(task, name) for name in _REQUIREMENTS}
    if task.fee is not None:
        said["fee"] = str(task.fee)
    return {"task": task.key, **{name: value for name, value in said.items() if value is not None}}


def drawn_answer(drawn: Drawn) -> dict[str, Any]:
    """Return one draw: who, the hash, the number it makes, and the sum it is taken modulo of."""
    return {
        "node": drawn.node,
        "digest": drawn.digest,
        "x": str(drawn.x),
        "sum": str(drawn.total),
    }


def _judged(judged: CandidateChance, least: int) -> dict[str, Any]:
    verdict = judged.verdict
    return {
        "node": verdict.node,
        "candidate": verdict.weight is not None,
        "why_not": verdict.out,
        "weight": None if verdict.weight is None else str(max(least, verdict.weight)),
        "parts": dict(verdict.parts),
        "p": None if judged.chance is None else decimal_text(judged.chance),
    }


def _card(chosen: Selection) -> dict[str, Any] | None:
    """The card group that was drawn before its nodes, and the draw."""
    trio = chosen.trio
    if trio is None or trio.card is None or trio.lot is None:
        return None
    lot = {"digest": trio.lot.digest, "x": str(trio.lot.x), "sum": str(trio.lot.total)}
    return {"gpu": trio.card.model, "vram": trio.card.vram, **lot}


def _scarce(scarce: Predownload) -> dict[str, Any]:
    return {
        "model": scarce.model,
        "holders": scarce.holders,
        "pending": scarce.pending,
        "ask": list(scarce.nodes),
    }
