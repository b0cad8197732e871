"""Docstrings and comments of the product name only what exists: a rename must take them along."""

import io
import re
import tokenize
from functools import cache
from pathlib import Path

from tests.house.product import ROOT, SOURCES

# Names in backticks with an underscore or a capital inside, and names of errors.
_QUOTED = re.compile(r"`(?:[\w.]*\.)?(\w+?)(?:\(\))?`")
_ERROR = re.compile(r"\b[A-Z]\w+Error\b")
# A variable of Python's own, and a function of JavaScript.
_FOREIGN = {"PYTHON_CPU_COUNT", "toFixed"}
_OTHER_SOURCES = (
    *("tests/**/*.py", "benchmarks/*.py"),
    *("contracts/**/*.sol", "config/*.toml", "profiles/*.toml", "ops/**/*.y*ml"),
)


def is_docstring(text: str) -> bool:
    return text.lstrip("rf").startswith('"""')


def named(text: str) -> set[str]:
    """Return the code names in a docstring or a comment."""
    quoted = {name for name in _QUOTED.findall(text) if re.search(r"_|[a-z][A-Z]", name)}
    return quoted | set(_ERROR.findall(text))


@cache
def list_tokens(path: Path) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline))


@cache
def code_words() -> frozenset[str]:
    words = set[str]()
    for path in SOURCES:
        for token in list_tokens(path):
            if token.type == tokenize.NAME:
                words.add(token.string)
            elif token.type == tokenize.STRING and not is_docstring(token.string):
                words.update(re.findall(r"\w+", token.string))
    # Tests are most of the code. Their comments count as code, because reading tokens is slow.
    for pattern in _OTHER_SOURCES:
        for path in ROOT.glob(pattern):
            words.update(re.findall(r"\w+", path.read_text("utf-8")))
    return frozenset(words)


def test_every_code_name_in_docstrings_and_comments_exists():
    names = {
        f"{path.relative_to(ROOT)}:{token.start[0]}: {name}"
        for path in SOURCES
        for token in list_tokens(path)
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and is_docstring(token.string))
        for name in named(token.string) - code_words() - _FOREIGN
    }
    assert names == set()


def test_code_names_are_found_in_text():
    text = "See `Store.read_transaction()` and `x`; raises InputError, `toFixed`."
    assert named(text) == {"read_transaction", "InputError", "toFixed"}
