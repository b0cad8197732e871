"""Words about reports that were missed: many go at once where a daemon was away."""

from collections.abc import Iterator, Sequence
from itertools import groupby

# What a step did that only cleared away what is too old.
MISSED = "report missed"


def in_words(missed: Sequence[tuple[int, str]]) -> str:
    """Say why periods were missed: `missed` are periods, ascending, each with its reason.

    Those in a row that have one reason are told at once.
    """
    return "; ".join(_spans(missed))


def _spans(missed: Sequence[tuple[int, str]]) -> Iterator[str]:
    for reason, alike in groupby(missed, key=lambda one: one[1]):
        periods = [period for period, _ in alike]
        first, last = periods[0], periods[-1]
        one = f"period {first}" if first == last else f"{len(periods)} periods, {first} to {last}"
        yield f"{one}: {reason}"
