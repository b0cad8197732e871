"""A walk that ends badly, made shorter: steps that its end does not need are left out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tests.contracts.fuzz.step import MARK, REORG

_TIMELESS = (MARK, REORG)


class Player(Protocol):
    """A walk that plays steps one after the other."""

    steps: list[Any]

    def play(self, step: Any) -> None:
        """Raises: AssertionError: something does not hold after the step."""


# Makes the same walk again, before its first step.
MakeWalk = Callable[[], Player]


def fault(make_walk: MakeWalk, steps: Sequence[Any]) -> tuple[str, int] | None:
    """Play these steps from this walk's start: what went wrong and after how many; None: nothing.

    Steps that the model has no word for, as a node that quits twice, are no fault.
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
    """Return steps that end in a fault of the same last one, as few as so many tries come to.

    Halves are left out, then quarters, and so on to single steps; the time that they took passes
    all the same, so that blocks and deadlines stay where they were. A report signs its round and
    the report before it, so that those on the way to a fault stay. A fault at another step is of
    the leaving out: the network, too, minds a node that quits before it joins.
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
    """Return the steps without those from start to before end; there are some after these."""
    left_out = [step for step in steps[start:end] if step.name not in _TIMELESS]
    remaining_steps = list(steps[end:])
    at = next(place for place, step in enumerate(remaining_steps) if step.name not in _TIMELESS)
    remaining_steps[at] = replace(
        remaining_steps[at],
        blocks=remaining_steps[at].blocks + sum(step.blocks for step in left_out),
        seconds=remaining_steps[at].seconds + sum(step.seconds for step in left_out),
    )
    return [*steps[:start], *remaining_steps]
