"""Writes the outcomes of the cells as Markdown: a row for each lie, a column per company."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from devnet.fakechain.faults.forging import Depth
from tests.faults.lies.cells import CAPS, Cell, Company, Headers, Mood
from tests.faults.lies.lies import LIES
from tests.faults.lies.verdicts import RIGHT, Verdict

_HEAD = """\
# What becomes of a lie

Made by `make lies` from what it saw; do not edit. An endpoint lies, alone or before or behind an
honest one; `run --once` is given twice. *Equal*: the database is what an independent reading of
the chain gives. *Refused*: the exit code is not 0, and the words name what differed. *Unproven*:
taken in, and said to be unproven. *WRONG IN SILENCE* and *REFUSED WITHOUT WORDS* are faults; so is
*UNSTEADY*: the second try came to another end. Numbers count cells, which differ by place,
profile and mood. Left out is another name of a transaction that header, receipts and logs agree
on, where only logs are read: no root of what is read holds it, and nothing is folded from it.
"""
_LABELS = {
    Verdict.EQUAL: "equal",
    Verdict.REFUSED: "refused",
    Verdict.UNPROVEN: "unproven",
    Verdict.WORDLESS: "REFUSED WITHOUT WORDS",
    Verdict.SILENT: "WRONG IN SILENCE",
}
_DEPTHS = {
    Depth.ANSWERS: "in its answers",
    Depth.RECEIPTS: "and receipts",
    Depth.HEADERS: "and headers",
    Depth.BLOCKS: "and hashes",
    Depth.CHAIN: "and the chain above",
}
_WITH = {
    Company.ALONE: "alone",
    Company.FIRST: "first",
    Company.SECOND: "second",
    Company.OUTNUMBERED: "twice, the honest one silent",
}
_LIES = (*LIES, *CAPS)


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome of one cell; `words` is the last line of output of the second run."""

    cell: Cell
    verdict: Verdict
    words: str
    is_steady: bool

    @property
    def is_right(self) -> bool:
        """Whether the outcome is a permitted one."""
        return self.verdict in RIGHT and self.is_steady


def render_document(lines: Sequence[Line]) -> str:
    """Return the complete document."""
    counts = Counter(line.verdict for line in lines)
    summary = ", ".join(
        f"{counts[verdict]} {_LABELS[verdict]}" for verdict in Verdict if counts[verdict]
    )
    unsteady = sum(not line.is_steady for line in lines)
    parts = [_HEAD, f"{len(lines)} cells: {summary}; {unsteady} unsteady.\n"]
    for headers in Headers:
        parts += _render_headers_section(
            headers, [line for line in lines if line.cell.headers is headers]
        )
    parts += _list_wrong_cells(lines)
    return "\n".join(parts)


def _render_headers_section(headers: Headers, lines: Sequence[Line]) -> Iterator[str]:
    if not lines:
        return
    rows: dict[str, dict[Company, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in sorted(lines, key=lambda line: _get_sort_key(line.cell)):
        rows[_name_row(line.cell)][line.cell.company].append(line)
    yield f"## On a chain with {headers}\n"
    yield "| Lie | " + " | ".join(f"liar {_WITH[company]}" for company in Company) + " |"
    yield "|---" * (1 + len(Company)) + "|"
    for name, lines_by_company in rows.items():
        yield (
            f"| {name} | "
            + " | ".join(_describe_outcomes(lines_by_company[company]) for company in Company)
            + " |"
        )
    yield ""


def _get_sort_key(cell: Cell) -> tuple[int, int, int]:
    return list(Mood).index(cell.mood), _LIES.index(cell.lie), cell.depth


def _name_row(cell: Cell) -> str:
    mood = "" if cell.mood is Mood.ALWAYS else f", {cell.mood}"
    return f"{cell.lie} {_DEPTHS[cell.depth]}{mood}"


def _describe_outcomes(lines: Sequence[Line]) -> str:
    counts = Counter(_LABELS[line.verdict] for line in lines)
    counts.update("UNSTEADY" for line in lines if not line.is_steady)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {label}" for label, number in sorted(counts.items()))


def _list_wrong_cells(lines: Sequence[Line]) -> Iterator[str]:
    wrong = [line for line in lines if not line.is_right]
    if wrong:
        yield "## Cells that came out wrong\n"
    for line in sorted(wrong, key=lambda line: line.cell.name):
        steady = "" if line.is_steady else ", UNSTEADY"
        suffix = f": {line.words}" if line.words else ""
        yield f"- `{line.cell.name}`: {_LABELS[line.verdict]}{steady}{suffix}"
