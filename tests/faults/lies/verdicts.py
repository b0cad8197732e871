"""Judges what came of a cell: equal, refused, said to be unproven, or wrong in silence."""

import json
import re
from collections.abc import Iterator
from enum import StrEnum

from tests.faults.lies.cells import Company, Headers, Mood
from tests.faults.lies.playing import Played, Tried


class Verdict(StrEnum):
    """What became of a lie.

    `EQUAL`: the database is what it must be, and the exit code says so. `REFUSED`: the exit code
    is another one, and the words name what differed. `UNPROVEN`: taken in, and said to be
    unproven: by the exit code as well, but where one endpoint shows a whole chain of true headers
    and nobody could contradict it. `WORDLESS`: refused without a word of what differed. `SILENT`:
    wrong, and all is called well.
    """

    EQUAL = "equal"
    REFUSED = "refused"
    UNPROVEN = "unproven"
    WORDLESS = "refused without words"
    SILENT = "wrong in silence"


RIGHT = frozenset({Verdict.EQUAL, Verdict.REFUSED, Verdict.UNPROVEN})
# What can differ, in the words of whoever refuses.
_WHAT = re.compile(
    r"\b(block|blocks|logs?|receipts?|root|bloom|header|hash|sender|signature|time|transactions?)\b"
)
# What says that not everything is proven.
_UNPROVEN = re.compile(r"(?i)\b(unproven|unaudited)\b")
# The same, where there is nobody who could contradict.
_UNWITNESSED = re.compile(r"\bunwitnessed\b")
_PORT = re.compile(r"http://127\.0\.0\.1:\d+")


def verdict(played: Played) -> Verdict:
    """Return what became of it at the second try."""
    return _of(played, played.tries[-1])


def verdicts(played: Played) -> list[Verdict]:
    """Return what each try came to."""
    return [_of(played, tried) for tried in played.tries]


def _of(played: Played, tried: Tried) -> Verdict:
    last = last_words(tried)
    if tried.code != 0:
        if _UNPROVEN.search(last):
            return Verdict.UNPROVEN
        return Verdict.REFUSED if _WHAT.search(last) else Verdict.WORDLESS
    if not tried.differing:
        return Verdict.EQUAL
    return Verdict.UNPROVEN if says_unproven(played) else Verdict.SILENT


def says_unproven(played: Played) -> bool:
    """Tell whether it is known that something here is not proven, though the exit code is 0.

    Of headers that are true as far as anybody can see, shown by one endpoint, `status` says it.
    """
    cell = played.cell
    could_be_true = cell.company is Company.ALONE and cell.headers is Headers.TRUE
    return could_be_true and bool(_UNWITNESSED.search(played.status))


def last_words(tried: Tried) -> str:
    """Return what a command said at its end that is no line of the log."""
    lines = [line for line in tried.said.splitlines() if line and not line.startswith("{")]
    return _PORT.sub("ENDPOINT", lines[-1]) if lines else ""


def is_steady(played: Played) -> bool:
    """Tell whether both tries came to the same: exit code, verdict and words.

    Of a liar that is not the same at both, or of two that were shut out meanwhile, only that each
    try ended as it must.
    """
    cell = played.cell
    if cell.mood is not Mood.ALWAYS or cell.company is Company.OUTNUMBERED:
        return RIGHT.issuperset(verdicts(played))
    first, second = played.tries
    same_end = (first.code, last_words(first)) == (second.code, last_words(second))
    return same_end and len(set(verdicts(played))) == 1


def warnings(tried: Tried) -> Iterator[str]:
    """Yield the warnings and errors of its log."""
    for line in tried.said.splitlines():
        if line.startswith("{"):
            log_record = json.loads(line)
            if log_record.get("level") in {"warning", "error"}:
                yield _PORT.sub("ENDPOINT", line)
