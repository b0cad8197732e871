"""Shortens a failing walk: steps that are not needed for the failure are removed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tests.contracts.fuzz.step import MARK, REORG

_TIMELESS = (MARK, REORG)


class Player(Protocol):
    """A walk that runs steps one after the other."""

    steps: list[Any]

    def play(self, step: Any) -> None:
        """Run a step."""


# Makes the same walk again, before its first step.
MakeWalk = Callable[[], Player]


def fault(make_walk: MakeWalk, steps: Sequence[Any]) -> tuple[str, int] | None:
    """Run these steps from this walk's start; return the error and its step number, or None.

    Steps that the model does not support, for example a node that quits twice, are no failure.
    """
    walk = make_walk()
    try:
        for step in steps:
            walk.play(step)
    except AssertionError as error:
        return str(error), len(walk.steps)
    except (KeyError, ValueError):
        return None
    return None


def shortest(make_walk: MakeWalk, steps: Sequence[Any], tries: int = 100) -> list[Any]:
    """Return a shorter list of steps that fails in the same last step, found in at most `tries`
    tries.

    Halves are removed, then quarters, down to single steps; the time of a removed step still
    passes, so that blocks and deadlines stay the same. A report signs its round and the previous
    report, so reports before a failure stay. A failure at another step is caused by the removal:
    for example, the network rejects a node that quits before it joins.
    """
    remaining_steps = list(steps)
    size = len(remaining_steps) // 2
    while size:
        at = 0
        while at < len(remaining_steps) - 1:
            if not tries:
                return remaining_steps
            tries -= 1
            fewer = _without(remaining_steps, at, min(at + size, len(remaining_steps) - 1))
            failure = fault(make_walk, fewer)
            if failure is None or failure[1] < len(fewer):
                at += size
            else:
                remaining_steps = fewer
        size //= 2
    return remaining_steps


def _without(steps: Sequence[Any], start: int, end: int) -> list[Any]:
    """Return the steps without those from `start` to before `end`; the time still passes."""
    left_out = [step for step in steps[start:end] if step.name not in _TIMELESS]
    remaining_steps = list(steps[end:])
    at = next(place for place, step in enumerate(remaining_steps) if step.name not in _TIMELESS)
    remaining_steps[at] = replace(
        remaining_steps[at],
        blocks=remaining_steps[at].blocks + sum(step.blocks for step in left_out),
        seconds=remaining_steps[at].seconds + sum(step.seconds for step in left_out),
    )
    return [*steps[:start], *remaining_steps]
