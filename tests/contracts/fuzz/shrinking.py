"""A walk that ends badly, made shorter: steps that its end does not need are left out."""

from collections.abc import Sequence

from tests.contracts.fuzz.step import Step
from tests.contracts.fuzz.walk import Walk


def fault(seed: int, number: int, steps: Sequence[Step]) -> tuple[str, int] | None:
    """Play these steps from this walk's start: what went wrong and after how many; None: nothing.

    Steps that the model has no word for, as a node that quits twice, are no fault.
    """
    walk = Walk(seed, number)
    try:
        for step in steps:
            walk.play(step)
    except AssertionError as error:
        return str(error), len(walk.steps)
    except (KeyError, ValueError):
        return None
    return None


def shortest(seed: int, number: int, steps: Sequence[Step], tries: int = 100) -> list[Step]:
    """Return steps that end in a fault too, as few as so many tries come to.

    Halves are left out, then quarters, and so on to single steps. A report signs its round and
    the report before it, so that those on the way to a fault stay.
    """
    kept = list(steps)
    size = len(kept) // 2
    while size:
        at = 0
        while at < len(kept):
            if not tries:
                return kept
            tries -= 1
            fewer = kept[:at] + kept[at + size :]
            found = fault(seed, number, fewer)
            if found is None:
                at += size
            else:
                kept = fewer[: found[1]]
        size //= 2
    return kept
