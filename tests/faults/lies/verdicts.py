"""Judges the outcome of a cell: equal, refused, reported as unproven, or silently wrong."""

import json
import re
from collections.abc import Iterator
from enum import StrEnum

from tests.faults.lies.cell_runs import CellOutcome, RunOutcome
from tests.faults.lies.cells import EndpointSet, Headers, Timing


class Verdict(StrEnum):
    """The outcome of a lie.

    `EQUAL`: the database is as expected, and the exit code is 0. `REFUSED`: the exit code is not
    0, and the message names what differs. `UNPROVEN`: the lie was ingested and reported as
    unproven. The exit code reports it as well, unless a single endpoint shows a complete chain of
    valid headers that no other endpoint could contradict. `WORDLESS`: refused without naming what
    differs. `SILENT`: the database is wrong, and no error is reported.
    """

    EQUAL = "equal"
    REFUSED = "refused"
    UNPROVEN = "unproven"
    WORDLESS = "refused without words"
    SILENT = "wrong in silence"


RIGHT = frozenset({Verdict.EQUAL, Verdict.REFUSED, Verdict.UNPROVEN})
# Nouns with which a refusal names what differs.
_SUBJECT_WORDS = re.compile(
    r"\b(block|blocks|logs?|receipts?|root|bloom|header|hash|sender|signature|time|transactions?)\b"
)
# Words that report unproven data.
_UNPROVEN = re.compile(r"(?i)\b(unproven|unaudited)\b")
# The same, where no second endpoint could contradict.
_UNWITNESSED = re.compile(r"\bunwitnessed\b")
_PORT = re.compile(r"http://127\.0\.0\.1:\d+")


def judge_second_run(outcome: CellOutcome) -> Verdict:
    """Return the verdict on the second run."""
    return _judge_run(outcome, outcome.runs[-1])


def judge_runs(outcome: CellOutcome) -> list[Verdict]:
    """Return the verdict on each run."""
    return [_judge_run(outcome, run) for run in outcome.runs]


def _judge_run(outcome: CellOutcome, run: RunOutcome) -> Verdict:
    last = get_last_line(run)
    if run.code != 0:
        if _UNPROVEN.search(last):
            return Verdict.UNPROVEN
        return Verdict.REFUSED if _SUBJECT_WORDS.search(last) else Verdict.WORDLESS
    if not run.differing:
        return Verdict.EQUAL
    return Verdict.UNPROVEN if reports_unproven(outcome) else Verdict.SILENT


def reports_unproven(outcome: CellOutcome) -> bool:
    """Return whether `status` reports unproven data although the exit code is 0.

    This applies to headers of a single endpoint that look true to everybody.
    """
    cell = outcome.cell
    could_be_true = cell.endpoint_set is EndpointSet.ALONE and cell.headers is Headers.TRUE
    return could_be_true and bool(_UNWITNESSED.search(outcome.status))


def get_last_line(run: RunOutcome) -> str:
    """Return the last line of a command's output that is not a log line."""
    lines = [line for line in run.output.splitlines() if line and not line.startswith("{")]
    return _PORT.sub("ENDPOINT", lines[-1]) if lines else ""


def is_steady(outcome: CellOutcome) -> bool:
    """Return whether both runs have the same exit code, verdict and message.

    If the liar differs between the runs, or if two liars were excluded meanwhile, return whether
    each run has a permitted verdict.
    """
    cell = outcome.cell
    has_two_liars = cell.endpoint_set in {EndpointSet.OUTNUMBERED, EndpointSet.MAJORITY}
    if cell.timing is not Timing.ALWAYS or has_two_liars:
        return RIGHT.issuperset(judge_runs(outcome))
    first, second = outcome.runs
    same_end = (first.code, get_last_line(first)) == (second.code, get_last_line(second))
    return same_end and len(set(judge_runs(outcome))) == 1


def iter_warnings(run: RunOutcome) -> Iterator[str]:
    """Yield the warnings and errors in the log."""
    for line in run.output.splitlines():
        if line.startswith("{"):
            log_record = json.loads(line)
            if log_record.get("level") in {"warning", "error"}:
                yield _PORT.sub("ENDPOINT", line)
