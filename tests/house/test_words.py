"""Words that the house has given up stay out of names in `oracle/` and `ops/`, and of tests."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for room in ("oracle", "ops") for path in (ROOT / room).rglob("*.py"))
# What an operator reads on the dashboard and in an alert.
SHOWN = (
    *sorted((ROOT / "ops" / "grafana" / "dashboard").glob("*.py")),
    ROOT / "ops" / "prometheus" / "alerts.yml",
)
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))

# What stands in docs/reference/glossary.md today is on the right. Left out are words with an
# ordinary second meaning, which only a reader can judge: line, door, roll, rest, part, look, turn,
# told, column, slot, member, fact, settle, shift, step, quiet, tail, lack, gate, written and
# standing.
RETIRED = {
    "accusation": "fork claim",
    "adopt": "rebuild",
    "arrival": "fetched window",
    "ascent": "window check",
    "beat": "liveness",
    "bury": "mark expired",
    "census": "statistics",
    "climb": "verify",
    "convoy": "batch",
    "desk": "context",
    "displace": "replace",
    "docket": "plan",
    "errand": "background call",
    "habit": "learned limit",
    "hole": "gap",
    "ladder": "verifier",
    "latch": "halt",
    "law": "kickout rules",
    "mend": "repair, backfill",
    "overtake": "ahead",
    "pace": "ingest state",
    "purse": "account balance",
    "recant": "revoke",
    "refold": "rebuild",
    "rehearsal": "dry run",
    "rehearse": "dry run",
    "retarget": "replace",
    "scene": "policy input",
    "seam": "parent mismatch, parent link",
    "shelf": "index",
    "sight": "snapshot, view, context",
    "spell": "interval",
    "stranger": "unknown signer",
    "stretch": "span",
    "suspicion": "fork evidence",
    "trait": "feature",
    "twin": "fee bump",
    "unlatch": "resume",
    "vigil": "fork watch",
    "wakeup": "new head",
    "wish": "request",
}
# A test may speak of what chains, people and numbers do.
IN_TESTS = RETIRED.keys() - {"mend", "overtake", "stranger", "hole", "law", "pace", "spell"}
# Python's own names, which nobody can change.
NOT_OURS = {"set_wakeup_fd"}
# The others are nouns, whose verbs are other words (spelling, holding).
VERBS = {
    "adopt", "climb", "displace", "latch", "mend", "overtake", "recant", "refold", "rehearse",
    "retarget", "stretch", "unlatch", "wish",
}  # fmt: skip


def _forms(word: str) -> Iterator[str]:
    yield from (word, f"{word}s", f"{word}es")
    if word in VERBS:
        stem = word.removesuffix("e")
        yield from (f"{stem}ed", f"{stem}ing", f"{stem}en")


FORMS = {form: word for word in RETIRED for form in _forms(word)} | {"buried": "bury"}


def retired_in(name: str) -> Iterator[str]:
    """Yield the parts of a name that are retired words, in any of their forms."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    yield from (part for part in parted.split("_") if part in FORMS)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("is_latched", ["latched"]),
        ("LatchRoom", ["latch"]),
        ("_WISHES", ["wishes"]),
        ("retargeting", ["retargeting"]),
        ("lawful_spelling", []),
        ("without_holes", ["holes"]),
        ("hold", []),
    ],
)
def test_a_retired_word_is_found_in_each_of_its_forms(name: str, found: list[str]):
    assert list(retired_in(name)) == found


def test_no_name_in_the_product_holds_a_retired_word():
    used: dict[str, str] = {}
    for path in SOURCES:
        used |= dict.fromkeys(retired_in(path.stem), path.name)
        with path.open("rb") as source:
            for token in tokenize.tokenize(source.readline):
                if token.type == tokenize.NAME and token.string not in NOT_OURS:
                    used |= dict.fromkeys(retired_in(token.string), f"{path.name}: {token.string}")
    assert used == {}


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.name)
def test_no_text_that_operators_read_holds_a_retired_word(path: Path):
    words = re.findall(r"[a-z]+", path.read_text("utf-8").lower())
    assert sorted({word for word in words if word in FORMS}) == []


def test_no_name_of_a_test_holds_a_retired_word():
    names = [(path.name, path.stem) for path in (ROOT / "tests").rglob("*.py")] + [
        (f"{path.name}: {node.name}", node.name)
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    used = [
        place for place, name in names if any(FORMS[part] in IN_TESTS for part in retired_in(name))
    ]
    assert used == []
