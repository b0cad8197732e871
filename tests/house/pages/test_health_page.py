"""docs/explanation/health.md names every condition as it is declared."""

import re
from pathlib import Path

from oracle.domain.health import Condition

PAGE = Path(__file__).resolve().parents[3] / "docs/explanation/health.md"


def test_every_condition_is_on_the_page_as_it_is_declared():
    row = re.compile(r"^\| `([A-Z-]+)` \| (\w+) \| (.+) \| (.+) \|$", re.MULTILINE)
    rows = row.findall(PAGE.read_text("utf-8"))
    assert rows == [
        (one.label, one.severity.name.lower(), one.title, one.action) for one in Condition
    ]
