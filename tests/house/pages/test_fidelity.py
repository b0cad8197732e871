"""docs/fidelity/: every statement of the sources cites code or a decision,
and the citations exist.
"""

import re
from fnmatch import fnmatchcase

import pytest

from tests.house.pages.fidelity import (
    NO_TEST,
    NOT_OURS,
    THE_NETWORKS,
    find_names,
    names_in,
    page,
    sources,
    statements,
)
from tests.house.product import ROOT
from tests.support.vectors import is_listed, load_entries

ROWS = statements()
LETTERS = [source.letter for source in sources()]
# Where something was decided: a page below docs/, or one beside the contracts.
PLACES = re.compile(r"\b(?:docs|contracts)/[\w/-]+\.md\b")
LEAST_WORDS = 3
# Profiles of the sources, and the sections all of whose vectors must run.
DOCUMENTED = ("seed_current", "legacy_doc", "relay_head")
DECIDED = ("group_scores", "health", "kickout", "long_term", "long_term_reseed_relay")


def missing(cell: str) -> list[str]:
    """Return the names in a cell that do not exist."""
    return [
        f"{path}::{name}"
        for path, name in find_names(cell)
        if not (ROOT / path).is_file() or (name and name not in names_in(path))
    ]


@pytest.mark.parametrize("source", LETTERS)
def test_statements_are_numbered_consecutively(source):
    numbers = [row.number for row in ROWS if row.source == source]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 40


def test_every_fidelity_row_has_all_fields():
    empty = [row.name for row in ROWS if not all((row.says, row.where, row.test))]
    assert empty == []
    assert sorted(LETTERS) == ["D", "L", "P", "Q", "T"]


@pytest.mark.parametrize("source", LETTERS)
def test_every_fidelity_row_has_an_implementation_or_a_reason(source):
    silent = [
        row.name
        for row in ROWS
        if row.source == source
        and not find_names(row.where)
        and not has_reason(row.where, NOT_OURS, THE_NETWORKS)
    ]
    assert silent == []


def has_reason(cell: str, *openings: str) -> bool:
    matched_opening = next((opening for opening in openings if cell.startswith(opening)), None)
    return (
        matched_opening is not None
        and len(cell.removeprefix(matched_opening).split()) >= LEAST_WORDS
    )


@pytest.mark.parametrize("source", LETTERS)
def test_every_fidelity_row_has_a_test_or_a_reason(source):
    silent = [
        row.name
        for row in ROWS
        if row.source == source and not row.tests and not has_reason(row.test, NO_TEST)
    ]
    assert silent == []


def test_no_fidelity_row_is_marked_open():
    assert [row.name for row in ROWS if "OPEN" in row.words] == []


def test_cited_tests_are_test_functions():
    names = {row.name: row.tests for row in ROWS}
    strange = {
        row: [name for name in tests if not name.rpartition(".")[2].startswith("test_")]
        for row, tests in names.items()
    }
    assert {row: tests for row, tests in strange.items() if tests} == {}


@pytest.mark.parametrize("source", LETTERS)
def test_every_named_file_function_and_test_exists(source):
    absent = {
        row.name: lost for row in ROWS if row.source == source and (lost := missing(row.words))
    }
    assert absent == {}


def test_every_decided_fidelity_row_names_the_page_of_its_decision():
    nowhere = [row.name for row in ROWS if row.decided and not PLACES.search(row.decided)]
    assert nowhere == []


def test_generated_page_contains_every_statement():
    written = page()
    assert [row.name for row in ROWS if f"| {row.name} | {row.says} |" not in written] == []


# Of Pocket's code, where nothing triggers it (tests/vectors/NOT_APPLICABLE.md).
UNTRIGGERED = {"pocket/sequences/8", "pocket/upstream_unit_tests/5"}


def test_vectors_of_rules_that_the_documents_decide_are_all_run():
    """Issue 3: what the documents decide is run, and never listed as not applicable."""
    left_out = [
        name
        for name, entry in load_entries().items()
        if is_listed(name)
        and (_is_decided(name, entry) or fnmatchcase(name, "pocket/[!cm]*"))
        and name not in UNTRIGGERED
    ]
    assert left_out == []


def _is_decided(name: str, entry: object) -> bool:
    profile = entry.get("profile") if isinstance(entry, dict) else None
    section = name.split("/")[1]
    return (
        (profile in DOCUMENTED and section in DECIDED)
        or section == "legacy_scores"
        or name in {f"crynux/profiles/{documented}" for documented in DOCUMENTED}
    )


@pytest.mark.parametrize(
    ("cell", "lost"),
    [
        ("`oracle/domain/scoring/node_scores.py::compute_pool_mean`", []),
        ("`oracle/domain/scoring/rules.py::Rules.pool_size`", []),
        ("`contracts/TaskNetwork.sol`", []),
        (
            "`oracle/domain/scoring/node_scores.py::no_such`",
            ["oracle/domain/scoring/node_scores.py::no_such"],
        ),
        ("`oracle/domain/no_such.py`", ["oracle/domain/no_such.py::"]),
    ],
)
def test_cited_name_that_does_not_exist_is_detected(cell, lost):
    assert missing(cell) == lost
