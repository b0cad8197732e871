"""Reads docs/fidelity/*.toml, and writes it as tables to build/fidelity.md: `make fidelity`."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from oracle.cli.command_index import COMMANDS
from tests.support.vectors import entries, is_listed

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "docs" / "fidelity"
PAGE = ROOT / "build" / "fidelity.md"
NOT_OURS = "not implemented: "
THE_NETWORKS = "the network's: "
NO_TEST = "none: "

_NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|sol|md|json|toml))(?:::([\w.]+))?`")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a source and what became of it; `decided` is empty where as said."""

    source: str
    number: int
    says: str
    where: str
    test: str
    decided: str = ""

    @property
    def name(self) -> str:
        return f"{self.source}{self.number}"

    @property
    def words(self) -> str:
        return f"{self.says} {self.where} {self.test} {self.decided}"

    @property
    def tests(self) -> list[str]:
        return [name for path, name in named(self.test) if path.startswith("tests/") and name]


@dataclass(frozen=True, slots=True)
class Source:
    """One document: the letter of its statements, its title, and the statements in order."""

    letter: str
    title: str
    statements: tuple[Statement, ...]


@cache
def sources() -> tuple[Source, ...]:
    """Return every source's statements, by file name."""
    return tuple(_source(path) for path in sorted(DATA.glob("*.toml")))


def statements() -> list[Statement]:
    return [one for source in sources() for one in source.statements]


def _source(path: Path) -> Source:
    found = tomllib.loads(path.read_text("utf-8"))
    letter = found["source"]
    rows = tuple(Statement(letter, **row) for row in found["statement"])
    return Source(letter, found["title"], rows)


def named(text: str) -> list[tuple[str, str]]:
    """Return what a text names in backticks: (path from the root, name in it or "")."""
    return [(path, name or "") for path, name in _NAMED.findall(text)]


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


@cache
def reached() -> frozenset[str]:
    """Return the modules of `oracle/` that the command `qos-oracle` imports, by path."""
    commands = (f"oracle.cli.{one}" for modules in COMMANDS.values() for one in modules.split())
    waiting = ["oracle/cli/main.py", "oracle/__main__.py"]
    waiting += [file for one in commands for file in _files(one)]
    seen = set[str]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
            if isinstance(node, ast.Import):
                waiting += [file for one in node.names for file in _files(one.name)]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = (node.module, *(f"{node.module}.{one.name}" for one in node.names))
                waiting += [file for name in names for file in _files(name)]
    return frozenset(seen)


def _files(module: str) -> list[str]:
    base = module.replace(".", "/")
    if not base.startswith("oracle"):
        return []
    return [path for path in (f"{base}.py", f"{base}/__init__.py") if (ROOT / path).is_file()]


def page() -> str:
    """Return everything as one page of tables, counts first."""
    parts = ["# Fidelity\n\nMade by `make fidelity` from docs/fidelity/*.toml.\n", _counts()]
    for source in sources():
        lines = ["| # | Statement | Where | Test | Decided otherwise |", "|---|---|---|---|---|"]
        lines += [
            f"| {one.name} | {one.says} | {one.where} | {one.test} | {one.decided or '-'} |"
            for one in source.statements
        ]
        parts.append(f"## {source.letter}: {source.title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join((*parts, "## Vectors\n", _vectors()))


def _counts() -> str:
    columns = (
        "Source", "Statements", "shown by a test", "implemented", "the network's",
        "not implemented", "decided otherwise",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|" + len(columns) * "---|"]
    for source in sources():
        rows = source.statements
        counts = (
            len(rows),
            sum(bool(one.tests) for one in rows),
            sum(one.where.startswith("`") for one in rows),
            sum(one.where.startswith(THE_NETWORKS) for one in rows),
            sum(one.where.startswith(NOT_OURS) for one in rows),
            sum(bool(one.decided) for one in rows),
        )
        lines.append(f"| {source.letter}: {source.title} | {' | '.join(map(str, counts))} |")
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


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
