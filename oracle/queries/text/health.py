"""How it is, in one word: from the names of the lines that `status` says, for its exit code too.

What is wrong has a name in capital letters (docs/how-to/monitor.md#status).
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

# A newest block older than this by the wall clock, in seconds: the chain stands, or who answers
# us does. Longer than any public chain takes for a block, shorter than a night.
OLD_HEAD_SECONDS = 900

# Each of them alone means that nothing goes on.
_STOPPED = frozenset({"HALTED", "REFUSED", "NO ENDPOINT", "STALLED"})
# A database that nobody works on is well where it keeps up all the same (`run --once` by a timer).
_ABANDONED = frozenset({"NO-LEADER", "BEHIND"})


class HealthWord(IntEnum):
    """The word; its number is the exit code of `status`."""

    WELL = 0
    ATTENTION = 1
    DOWN = 2


class HealthVerdict(NamedTuple):
    """How it is, and the names of the lines that say why, in their order."""

    word: HealthWord
    reasons: tuple[str, ...]

    def text(self) -> str:
        """Say it in a line."""
        why = f": {', '.join(self.reasons)}" if self.reasons else ", nothing needs a person"
        return f"{self.word.name.lower()}{why}"

    def answer(self) -> dict[str, object]:
        """Write it for programs."""
        return {"word": self.word.name.lower(), "reasons": list(self.reasons)}


def health_of(names: Iterable[str]) -> HealthVerdict:
    """Judge by the names of all lines, each once."""
    wrong = tuple(dict.fromkeys(name for name in names if name.isupper()))
    if _STOPPED & set(wrong) or set(wrong) >= _ABANDONED:
        return HealthVerdict(HealthWord.DOWN, wrong)
    return HealthVerdict(HealthWord.ATTENTION if wrong else HealthWord.WELL, wrong)
