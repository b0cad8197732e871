"""Replaces the generated parts of hand-written pages.

A part is between two comments: <!-- NAME: made by `make reference` --> and <!-- end of NAME -->.
"""

import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PART = re.compile(
    r"<!-- (?P<name>[^\n]+): made by `(?P<command>[^`]+)` -->\n.*?<!-- end of (?P=name) -->",
    re.DOTALL,
)


def replace_parts(
    page: str, pattern: re.Pattern[str], render: Callable[[re.Match[str]], str]
) -> str:
    """Return the page with new content for each part whose name matches `pattern`."""

    def replace_part(part: re.Match[str]) -> str:
        name = part["name"]
        match = pattern.fullmatch(name)
        if match is None:
            return part[0]
        begin_comment = f"<!-- {name}: made by `{part['command']}` -->"
        return f"{begin_comment}\n\n{render(match)}\n<!-- end of {name} -->"

    return _PART.sub(replace_part, page)
