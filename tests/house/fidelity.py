"""Reads docs/fidelity.md, and writes the counts in it: `python -m tests.house.fidelity`."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.domain.vectors import entries, is_listed

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fidelity.md"
SOURCES = {
    "Q": "current QoS document",
    "L": "legacy QoS document",
    "D": "current dispatching",
    "P": "Pocket's node selector",
    "T": "legacy dispatching",
}
COLUMNS = 5
NOT_OURS = "not implemented: "
THE_NETWORKS = "the network's: "
NO_TEST = "none: "
AS_SAID = "-"

_ROW = re.compile(r"^\| ([A-Z])(\d+) \|.*$", re.MULTILINE)
_NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|sol|md|json|toml))(?:::([\w.]+))?`")
_TABLES = ("statements", "vectors")
_OPENING, _CLOSING = "<!-- counts: {} -->\n", "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One statement of a source and what became of it; `cells` without the number."""

    source: str
    number: int
    cells: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.source}{self.number}"

    @property
    def where(self) -> str:
        return self.cells[1]

    @property
    def test(self) -> str:
        return self.cells[2]

    @property
    def tests(self) -> list[str]:
        return [name for path, name in named(self.test) if path.startswith("tests/") and name]

    @property
    def decided(self) -> str:
        return self.cells[3]


def rows(text: str) -> list[Row]:
    """Return the rows of every source's table, in the order of the page."""
    found = []
    for match in _ROW.finditer(text):
        cells = [cell.strip() for cell in match.group().strip("|").split("|")]
        found.append(Row(match[1], int(match[2]), tuple(cells[1:])))
    return found


def named(cell: str) -> list[tuple[str, str]]:
    """Return what a cell names in backticks: (path from the root, name in it or "")."""
    return [(path, name or "") for path, name in _NAMED.findall(cell)]


@cache
def names_in(path: str) -> frozenset[str]:
    """Return what a file defines: `fold`, `Rules.pool_size` (Python), `join` (Solidity)."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".py"):
        return frozenset(_defined(ast.parse(text).body, ""))
    if path.endswith(".sol"):
        kinds = "function|event|error|struct|enum|modifier|interface|contract|constant"
        return frozenset(re.findall(rf"\b(?:{kinds}) (\w+)", text))
    return frozenset()


def _defined(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id
        elif isinstance(node, ast.Assign):
            yield from (prefix + t.id for t in node.targets if isinstance(t, ast.Name))


def table(text: str, name: str) -> str:
    """Return the counts as the page has them, between its two marks."""
    _, opening, rest = text.partition(_OPENING.format(name))
    body, closing, _ = rest.partition(_CLOSING)
    if not opening or not closing:
        raise ValueError(f"{PAGE.name} has no marks around the counts of {name}")
    return body


def counted(text: str, name: str) -> str:
    """Return the counts as they are."""
    return _statements(rows(text)) if name == "statements" else _vectors()


def _statements(found: list[Row]) -> str:
    columns = (
        "Source", "Statements", "shown by a test", "implemented", "the network's",
        "not implemented", "decided otherwise",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|" + len(columns) * "---|"]
    for letter, title in SOURCES.items():
        own = [row for row in found if row.source == letter]
        counts = (
            len(own),
            sum(bool(row.tests) for row in own),
            sum(row.where.startswith("`") for row in own),
            sum(row.where.startswith(THE_NETWORKS) for row in own),
            sum(row.where.startswith(NOT_OURS) for row in own),
            sum(row.decided != AS_SAID for row in own),
        )
        lines.append(f"| {letter}: {title} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines) + "\n"


def _vectors() -> str:
    counts: dict[str, list[int]] = {}
    for name in entries():
        file, section = name.split("/")[:2]
        place = counts.setdefault(f"{file}.json | {section}", [0, 0])
        place[is_listed(name)] += 1
    lines = ["| File | Section | run | listed |", "|---|---|---|---|"]
    lines += [f"| {place} | {run} | {listed} |" for place, (run, listed) in counts.items()]
    run, listed = (sum(both[n] for both in counts.values()) for n in (0, 1))
    lines.append(f"| all | | {run} | {listed} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the counts anew."""
    text = PAGE.read_text("utf-8")
    for name in _TABLES:
        opening = _OPENING.format(name)
        text = text.replace(opening + table(text, name), opening + counted(text, name))
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
