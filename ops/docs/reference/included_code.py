"""Includes code of the contracts in pages (`make reference`).

A page marks the place with two comments. They name a file, and the functions to include from it
together with their comments. The code on a page therefore comes from a contract that the tests
run.
"""

import re

from reference.parts import ROOT, replace_parts

PAGES = ("docs/how-to/use-the-scores.md",)
_PART_NAME = re.compile(r"code of (?P<path>\S+\.sol) (?P<names>[\w, ]+)")


def include_code(page: str) -> str:
    """Insert into a page the contract code that its comments name.

    Raises:
        ValueError: a comment names a function that the file does not have.
    """
    return replace_parts(
        page, _PART_NAME, lambda match: _read_code_block(match["path"], match["names"])
    )


def _read_code_block(path: str, names: str) -> str:
    source = (ROOT / path).read_text("utf-8")
    functions = (_extract_function(source, path, name) for name in names.split(", "))
    return "```solidity\n" + "\n\n".join(functions) + "\n```\n"


def _extract_function(source: str, path: str, name: str) -> str:
    """Extract a function from a contract, with the comment above it.

    Indentation is removed.
    """
    match = re.search(
        rf"(?:^    ///[^\n]*\n)*^    function {name}\([^;{{]*\{{\n.*?^    \}}\n",
        source,
        re.MULTILINE | re.DOTALL,
    )
    if match is None:
        raise ValueError(f"{path}: there is no function {name}")
    return re.sub(r"^    ", "", match[0], flags=re.MULTILINE).strip()
