"""Counts empty words in names, and in texts the words of the project's old dialect.

    make vocabulary                                          write the lower numbers down
    python -m tests.house.vocabulary --list oracle function  list such names, with their lines
    python -m tests.house.vocabulary --list NatSpec speech   list such words, with their files

`vocabulary.json` keeps one number per package and kind of name, and one per collection of texts
and kind of word. The numbers only fall. The documentation contains the generated reference, so it
covers the help of commands and settings, log events, metrics and alerts.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.house.product import PACKAGES, ROOT, list_nodes, parse_package

BASELINE = Path(__file__).with_name("vocabulary.json")
# A name made only of these words does not describe its content: participles, pronouns, quantities
# and metaphors.
_EMPTY = (
    "told said asked found given wanted known made seen one ones each other others rest whole all "
    "place manner look turn word words ours theirs mine why how way thing got did done"
)
# Not allowed in the name of a function or a class, not even as a part.
_METAPHORS = (
    "house room floor door desk harness drawer cast act purse habit spell turn look deed wire worn"
)
EMPTY = frozenset(_EMPTY.split())
METAPHORS = frozenset(_METAPHORS.split())
KINDS = ("parameter", "local", "function", "class")
PREDICATES = ("is_", "has_", "can_")
# Software returns, reports and rejects; and a sentence names the person or thing that it is
# about.
DIALECT = {
    "speech": r"say|says|said|tells?|told|asks?|asked|knows?|believed?|believes|hears?|heard",
    "metaphor": r"nobody|somebody|whoever|houses?|rooms?|doors?|laws?|ail(?:s|ing)|mends?|dearer",
}
_WORDS = {kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in DIALECT.items()}
_CODE_OF_PAGE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
_CODE_OF_TEMPLATE = re.compile(
    r"{[%#].*?[%#]}|{{.*?}}|<script.*?</script>|<style.*?</style>|<[^>]*>", re.DOTALL
)

Counts = Mapping[str, Mapping[str, int]]


class Finding(NamedTuple):
    """A filler name in a package, or a banned word in a collection of texts.

    `where` is a path; for a name, a path and a line.

    `where` is a path; for a name, a path and a line.
    """

    package: str
    kind: str
    name: str
    where: str


def empty_names(root: Path, packages: Iterable[str]) -> Iterator[Finding]:
    """Yield the names in the product's code that consist of filler words."""
    for package in packages:
        for path, tree in parse_package(root, package).items():
            for kind, name, line in _names(tree):
                if is_empty(kind, name):
                    where = f"{path.relative_to(root)}:{line}"
                    yield Finding(package, kind, name, where)


def is_empty(kind: str, name: str) -> bool:
    """Return whether a name consists of filler words, or contains a metaphor."""
    spaced = "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
    parts = [part for part in spaced.split("_") if part]
    if kind in {"function", "class"} and not METAPHORS.isdisjoint(parts):
        return True
    return bool(parts) and EMPTY.issuperset(parts)


def count_empty_names(root: Path, packages: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the number of empty names by package and kind."""
    counted = sorted(packages)
    counts = Counter((empty.package, empty.kind) for empty in empty_names(root, counted))
    return {package: {kind: counts[package, kind] for kind in KINDS} for package in counted}


def dialect_words(root: Path) -> Iterator[Finding]:
    """Yield the banned words in documentation, page templates and contract comments."""
    for collection, path, text in _texts(root):
        for kind, words in _WORDS.items():
            for word in words.findall(text):
                yield Finding(collection, kind, word.lower(), str(path.relative_to(root)))


def count_dialect_words(root: Path) -> dict[str, dict[str, int]]:
    """Return the number of dialect words by collection of texts and kind of word."""
    counts = Counter((word.package, word.kind) for word in dialect_words(root))
    collections = ("documentation", "templates", "NatSpec")
    return {name: {kind: counts[name, kind] for kind in DIALECT} for name in collections}


def wrong_predicates(root: Path, packages: Iterable[str]) -> Iterator[str]:
    """Yield the functions called is_, has_ or can_ that are not annotated to return a bool."""
    for package in packages:
        for path, tree in parse_package(root, package).items():
            for node in list_nodes(tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                    node.name.lstrip("_").startswith(PREDICATES) and not _returns_bool(node)
                ):
                    yield f"{path.relative_to(root)}:{node.lineno} {node.name}"


def raised_numbers(before: Counts, now: Counts) -> list[str]:
    """Return the counts that rose in a package counted before, or in all packages together.

    A new package may have what others lost, because its modules were moved.
    """
    raised = [
        f"{package}.{kind}: {number} names, {before[package].get(kind, 0)} allowed"
        for package in sorted(now.keys() & before.keys())
        for kind, number in now[package].items()
        if number > before[package].get(kind, 0)
    ]
    for kind in KINDS:
        total = sum(counts.get(kind, 0) for counts in now.values())
        allowed = sum(counts.get(kind, 0) for counts in before.values())
        if total > allowed and now.keys() != before.keys():
            raised.append(f"{kind} of all packages: {total} names, {allowed} allowed")
    return raised


def main(*arguments: str) -> int:
    """Write the counts if none rose; `--list` prints the names of a package or a kind."""
    if arguments[:1] == ("--list",):
        for empty in (*empty_names(ROOT, PACKAGES), *dialect_words(ROOT)):
            if {empty.package, empty.kind}.issuperset(arguments[1:]):
                sys.stdout.write(f"{empty.where} {empty.kind} {empty.name}\n")
        return 0
    now = count_empty_names(ROOT, PACKAGES) | count_dialect_words(ROOT)
    raised = raised_numbers(json.loads(BASELINE.read_text("utf-8")), now)
    if raised:
        sys.stderr.write("".join(f"{line}\n" for line in raised))
        sys.stderr.write("name the things themselves; the numbers of vocabulary.json only fall\n")
        return 1
    BASELINE.write_text(json.dumps(now, indent=2) + "\n", "utf-8")
    return 0


def _texts(root: Path) -> Iterator[tuple[str, Path, str]]:
    pages = (*root.glob("docs/**/*.md"), *root.glob("*.md"), *root.glob("contracts/*.md"))
    for path in sorted(pages):
        if {"archive", "decisions"}.isdisjoint(path.parts):
            yield "documentation", path, _CODE_OF_PAGE.sub(" ", path.read_text("utf-8"))
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.html")):
            yield "templates", path, _CODE_OF_TEMPLATE.sub(" ", path.read_text("utf-8"))
    for path in sorted(root.glob("contracts/**/*.sol")):
        if "node_modules" not in path.parts:
            lines = path.read_text("utf-8").splitlines()
            yield "NatSpec", path, "\n".join(x for x in map(str.strip, lines) if x[:3] == "///")


def _names(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    for node in list_nodes(tree):
        if isinstance(node, ast.arg):
            yield "parameter", node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield "local", node.id, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield "function", node.name, node.lineno
        elif isinstance(node, ast.ClassDef):
            yield "class", node.name, node.lineno


def _returns_bool(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    returns = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
    narrows = returns.startswith(("TypeGuard[", "TypeIs["))
    # An SQL condition is a predicate as well.
    return returns in {"bool", "ColumnElement[bool]"} or narrows


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
