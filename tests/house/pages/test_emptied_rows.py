"""Cited tests fail without the cited code: a sample of `make fidelity-mutants`."""

from pathlib import Path

import pytest

from tests.house.pages.fidelity import Statement
from tests.house.product import ROOT
from tests.mutants.emptied_rows import (
    Fallen,
    find_unconfirmed_citations,
    list_cited_rows,
    run_rows,
)
from tests.mutants.emptying import write_emptying_patch
from tests.mutants.patches import try_apply

# Rows without a chain, one in so many.
SAMPLED = 40
ROWS = [row for row in list_cited_rows() if not row.contracts and "integration" not in row.test]
EMPTIED = [
    ("oracle/domain/scoring/node_scores.py", "compute_node_qos"),
    ("oracle/domain/scoring/rules.py", "Rules.q_max"),
    ("contracts/TaskNetwork.sol", "kick"),
    ("contracts/network/NetworkEvents.sol", "NodeKickedOut"),
]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_cited_tests_fail_if_the_body_of_a_cited_function_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Only functions of this process: subprocesses would run emptied code while they load
    # modules.
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    sample = ROWS[::SAMPLED]
    assert len(sample) > 3
    assert [*find_unconfirmed_citations(sample, run_rows(sample, tmp_path, jobs=1))] == []


@pytest.mark.parametrize(("path", "name"), EMPTIED)
def test_patch_that_removes_a_function_body_can_be_applied(tmp_path: Path, path: str, name: str):
    mutant = write_emptying_patch((path, name), (), tmp_path)
    assert try_apply(mutant, ROOT, only_check=True) is None
    assert mutant.patched


def test_body_of_every_cited_function_can_be_removed(tmp_path: Path):
    places = {place for row in list_cited_rows() for place in (*row.ours, *row.contracts)}
    assert [
        place for place in places if not write_emptying_patch(place, (), tmp_path).patched
    ] == []


@pytest.mark.parametrize(
    ("name", "why"), [("Rules", "a function"), ("NAMES", "a function"), ("no_such", "a function")]
)
def test_removing_the_body_of_a_class_or_constant_is_rejected(tmp_path: Path, name: str, why: str):
    with pytest.raises(ValueError, match=why):
        write_emptying_patch(("oracle/domain/scoring/rules.py", name), (), tmp_path)


def row_of(*tests: str) -> Statement:
    citations = ", ".join(f"`tests/a.py::{name}`" for name in tests)
    return Statement("Q", 1, "it is so", "`oracle/a.py::f`, `oracle/a.py::g`", citations, "daemon")


F = ("oracle/a.py", "f")
G = ("oracle/a.py", "g")


@pytest.mark.parametrize(
    ("fallen", "faults"),
    [
        ({F: {"tests/a.py::test_1"}, G: {"tests/a.py::test_1"}}, 0),
        ({F: {"tests/a.py::test_1"}, G: set()}, 1),
        ({F: set(), G: set()}, 3),
        ({F: "no such function", G: {"tests/a.py::test_1"}}, 1),
    ],
)
def test_cited_function_without_a_failing_test_is_reported(fallen: Fallen, faults: int):
    assert len([*find_unconfirmed_citations([row_of("test_1")], fallen)]) == faults


def test_cited_test_that_never_fails_is_reported():
    fallen = {place: {"tests/a.py::test_1"} for place in (F, G)}
    (fault,) = find_unconfirmed_citations([row_of("test_1", "test_2")], fallen)
    assert "test_2 falls for nothing" in fault
