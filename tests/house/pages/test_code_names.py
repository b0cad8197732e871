"""Docstrings and comments name only code that exists, so a rename must include them."""

import ast
import re
from collections.abc import Iterator

from tests.house.product import ROOT, list_nodes, parse_sources

# Names in backticks that contain an underscore or a capital letter, and names of errors.
_QUOTED = re.compile(r"`(?:[\w.]*\.)?(\w+?)(?:\(\))?`")
_ERROR = re.compile(r"\b[A-Z]\w+Error\b")
# A name of Python, and a function of JavaScript.
_FOREIGN = {"PYTHON_CPU_COUNT", "toFixed"}
_OTHER_SOURCES = (
    *("tests/**/*.py", "benchmarks/*.py"),
    *("contracts/**/*.sol", "config/*.toml", "profiles/*.toml", "ops/**/*.y*ml"),
)


def find_code_names(text: str) -> set[str]:
    """Return the code names in a docstring or a comment."""
    quoted = {name for name in _QUOTED.findall(text) if re.search(r"_|[a-z][A-Z]", name)}
    return quoted | set(_ERROR.findall(text))


def split_prose(source: str, tree: ast.Module) -> tuple[list[tuple[int, str]], str]:
    """Return a module's docstrings and comments with their lines, and the remaining source."""
    lines = source.splitlines()
    prose = []
    for node in list_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            first = node.lineno
            last = node.end_lineno or node.lineno
            prose.append((first, "\n".join(lines[first - 1 : last])))
            lines[first - 1 : last] = [""] * (last - first + 1)
    for number, line in enumerate(lines, 1):
        # A comment on the same line as a string is treated as code.
        code, mark, comment = line.partition("#")
        if mark and '"' not in line:
            prose.append((number, comment))
            lines[number - 1] = code
    return prose, "\n".join(lines)


def read_other_words() -> Iterator[str]:
    """Yield the words of tests and settings. Their comments count as code, which is faster."""
    for pattern in _OTHER_SOURCES:
        for path in ROOT.glob(pattern):
            yield from re.findall(r"\w+", path.read_text("utf-8"))


def test_every_code_name_in_docstrings_and_comments_exists():
    words = {*_FOREIGN, *read_other_words()}
    prose = []
    for path, tree in parse_sources().items():
        texts, code = split_prose(path.read_text("utf-8"), tree)
        prose += [(f"{path.relative_to(ROOT)}:{line}", text) for line, text in texts]
        words.update(re.findall(r"\w+", code))
    assert [
        f"{place}: {name}"
        for place, text in prose
        for name in sorted(find_code_names(text) - words)
    ] == []


def test_code_names_are_found_in_text():
    text = "See `Store.read_transaction()` and `x`; raises InputError, `toFixed`."
    assert find_code_names(text) == {"read_transaction", "InputError", "toFixed"}


def test_docstrings_and_comments_are_not_scanned_as_code():
    source = '"""Uses `gone_away`."""\nx = 1  # and `lost_too`\ny = "# kept_name"\n'
    prose, code = split_prose(source, ast.parse(source))
    assert [find_code_names(text) for _, text in prose] == [{"gone_away"}, {"lost_too"}]
    assert "kept_name" in code
    assert "gone_away" not in code
