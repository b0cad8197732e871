"""Reads docs/fidelity/*.toml, and writes it as tables to build/fidelity.md: `make fidelity`."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.house.product import PACKAGES, ROOT
from tests.support.vectors import is_listed, load_entries

DATA = ROOT / "docs" / "fidelity"
PAGE = ROOT / "build/fidelity.md"
NOT_OURS = "not implemented: "
THE_NETWORKS = "the network's: "
NO_TEST = "none: "

# A path from the top of the checkout, and a name in it.
Place = tuple[str, str]

_NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|sol|md|json|toml))(?:::([\w.]+))?`")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a source document, with the code and the test that implement it.

    `decided` is empty if the statement is implemented literally. `runs_in`: where everything in
    `where` runs, "daemon, contract"; empty for prose. `not_run`: why the recording of the demos
    does not show it, and what runs it instead.
    """

    source: str
    number: int
    says: str
    where: str
    test: str
    runs_in: str = ""
    not_run: str = ""
    decided: str = ""

    @property
    def name(self) -> str:
        return f"{self.source}{self.number}"

    @property
    def words(self) -> str:
        return f"{self.says} {self.where} {self.test} {self.not_run} {self.decided}"

    @property
    def ours(self) -> list[Place]:
        """Return the cited code of the daemon and of the commands."""
        return [(path, name) for path, name in find_names(self.where) if name and is_ours(path)]

    @property
    def excused(self) -> set[Place]:
        """Return the cited functions that `not_run` names, or all of them if it names none.

        Without `not_run`, no function is excused.
        """
        if not self.not_run:
            return set()
        return {
            (path, name) for path, name in find_names(self.not_run) if name and is_ours(path)
        } or {*self.ours}

    @property
    def contracts(self) -> list[Place]:
        """Return the cited code of the contracts."""
        return [
            (path, name)
            for path, name in find_names(self.where)
            if name and path.startswith("contracts/")
        ]

    @property
    def is_prose(self) -> bool:
        return not (self.ours or self.contracts)

    @property
    def places(self) -> list[str]:
        return [place for place in self.runs_in.split(", ") if place]

    @property
    def tests(self) -> list[str]:
        return [name for path, name in find_names(self.test) if path.startswith("tests/") and name]


@dataclass(frozen=True, slots=True)
class Source:
    """A source document: the letter of its statements, its title, and the statements in order."""

    letter: str
    title: str
    statements: tuple[Statement, ...]


@cache
def sources() -> tuple[Source, ...]:
    """Return every source's statements, by file name."""
    return tuple(_source(path) for path in sorted(DATA.glob("*.toml")))


def statements() -> list[Statement]:
    return [statement for source in sources() for statement in source.statements]


def _source(path: Path) -> Source:
    document = tomllib.loads(path.read_text("utf-8"))
    letter = document["source"]
    rows = tuple(Statement(letter, **row) for row in document["statement"])
    return Source(letter, document["title"], rows)


def is_ours(path: str) -> bool:
    return path.partition("/")[0] in PACKAGES


def find_names(text: str) -> list[Place]:
    """Return the code that a text cites in backticks, as (path from the root, name or "")."""
    return [(path, name or "") for path, name in _NAMED.findall(text)]


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the definitions of a file: `fold`, `Rules.pool_size` (Python), `join` (Solidity)."""
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".py"):
        return frozenset(iterate_definitions(ast.parse(text).body, ""))
    if path.endswith(".sol"):
        kinds = "function|event|error|struct|enum|modifier|interface|contract|constant"
        return frozenset(re.findall(rf"\b(?:{kinds}) (\w+)", text))
    return frozenset()


def iterate_definitions(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from iterate_definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id
        elif isinstance(node, ast.Assign):
            yield from (prefix + t.id for t in node.targets if isinstance(t, ast.Name))


def page() -> str:
    """Return the complete page of tables, beginning with counts."""
    parts = ["# Fidelity\n\nMade by `make fidelity` from docs/fidelity/*.toml.\n", _counts()]
    for source in sources():
        lines = [
            "| # | Statement | Where | Runs in | Test | Decided otherwise |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {statement.name} | {statement.says} | {statement.where} "
            f"| {_runs_in(statement)} | {statement.test} "
            f"| {statement.decided or '-'} |"
            for statement in source.statements
        ]
        parts.append(f"## {source.letter}: {source.title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join((*parts, "## Vectors\n", _vectors()))


def _runs_in(row: Statement) -> str:
    return f"{row.runs_in or '-'}{f' (not run: {row.not_run})' if row.not_run else ''}"


def _counts() -> str:
    columns = (
        "Source", "Statements", "shown by a test", "daemon", "command", "library", "contract",
        "the network's", "not implemented", "decided otherwise",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|" + len(columns) * "---|"]
    for source in sources():
        rows = source.statements
        counts = (
            len(rows),
            sum(bool(row.tests) for row in rows),
            *(_running_in(rows, place) for place in ("daemon", "command", "library", "contract")),
            sum(row.where.startswith(THE_NETWORKS) for row in rows),
            sum(row.where.startswith(NOT_OURS) for row in rows),
            sum(bool(row.decided) for row in rows),
        )
        lines.append(f"| {source.letter}: {source.title} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def _running_in(rows: tuple[Statement, ...], kind: str) -> int:
    return sum(any(place.startswith(kind) for place in row.places) for row in rows)


def _vectors() -> str:
    counts: dict[str, list[int]] = {}
    for name in load_entries():
        file, section = name.split("/")[:2]
        place = counts.setdefault(f"{file}.json | {section}", [0, 0])
        place[is_listed(name)] += 1
    lines = ["| File | Section | run | listed |", "|---|---|---|---|"]
    lines += [f"| {place} | {run} | {listed} |" for place, (run, listed) in counts.items()]
    run, listed = (sum(both[n] for both in counts.values()) for n in (0, 1))
    lines.append(f"| all | | {run} | {listed} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
