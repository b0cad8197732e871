"""The fault cases of both suites, and the tests that play them.

Ingest has 76 cases, "01" to "76", in tests/faults/ingest/. Publishing has 74 cases, "f01" to
"f74", in tests/faults/sending/ and in every other place with a test named after a case.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

TESTS = Path(__file__).resolve().parents[1]
INGEST = TESTS / "faults" / "ingest"
SENDING = TESTS / "faults" / "sending"
_TEST = re.compile(r"^def (test_case_(f?\d\d)_\w+)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One fault and the expected behaviour; `number` is as in test names.

    `severity`: a `critical` fault costs money, or causes a false kickout, a false report or a lost
    log.
    """

    number: str
    area: str
    fault: str
    expected: str
    severity: Literal["critical", "normal"] = "normal"


@dataclass(frozen=True, slots=True)
class Rule:
    """One of the outbox's rules, M1 to M9, which the patches that break the rule name."""

    number: str
    rule: str


def list_all_cases() -> list[Case]:
    """Return every case, those of ingest first, by number."""
    return [*list_cases(INGEST), *list_cases(SENDING)]


def list_cases(folder: Path) -> list[Case]:
    """Return the cases of a suite, ordered by number."""
    catalogue = tomllib.loads((folder / "cases.toml").read_text("utf-8"))
    return [
        Case(**{**entry, "number": format_case_number(entry["number"])})
        for entry in catalogue["case"]
    ]


def list_outbox_rules() -> list[Rule]:
    """Return the rules of the outbox, M1 to M9."""
    catalogue = tomllib.loads((SENDING / "cases.toml").read_text("utf-8"))
    return [Rule(**entry) for entry in catalogue["mutant"]]


def list_tests_by_case() -> dict[str, list[str]]:
    """Return the node ids of each case's tests, `test_case_NN_...`, by the case's number."""
    node_ids_by_case: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, number in _TEST.findall(path.read_text("utf-8")):
            node_id = f"{path.relative_to(TESTS.parent).as_posix()}::{name}"
            node_ids_by_case.setdefault(number, []).append(node_id)
    return node_ids_by_case


def find_case_number(test: str) -> str | None:
    """Return the number of the case that a test's name contains, or None."""
    named = re.search(r"::test_case_(f?\d\d)_", test)
    return None if named is None else named[1]


def format_case_number(number: int | str) -> str:
    return f"{number:02}" if isinstance(number, int) else number
