"""The fault cases of cases.toml, and which tests play them."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
_ROOT = FOLDER.parents[1]
_TEST = re.compile(r"^def (test_case_(\d\d)_\w+)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Case:
    """One fault, and what is expected of us when it happens."""

    number: int
    area: str
    fault: str
    expected: str


def all_cases() -> list[Case]:
    """Return every case, by number."""
    told = tomllib.loads((FOLDER / "cases.toml").read_text("utf-8"))
    return [Case(**each) for each in told["case"]]


def played() -> dict[int, list[str]]:
    """Return by number of a case the node ids of its tests, `test_case_NN_...` in this folder."""
    found: dict[int, list[str]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for name, number in _TEST.findall(path.read_text("utf-8")):
            node_id = f"{path.relative_to(_ROOT).as_posix()}::{name}"
            found.setdefault(int(number), []).append(node_id)
    return found


def case_of(test: str) -> int | None:
    """Return the number of the case that a test plays by its name."""
    named = re.search(r"::test_case_(\d\d)_", test)
    return None if named is None else int(named[1])
