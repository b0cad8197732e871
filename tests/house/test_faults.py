"""Every fault case has a test with its number; a critical one runs in CI, and has a mutant.

A mutant of a critical case must fail a test of the case.
"""

import ast

from tests.faults.catalogue import (
    INGEST,
    SENDING,
    find_case_number,
    list_all_cases,
    list_cases,
    list_outbox_rules,
    list_tests_by_case,
)
from tests.mutants.patches import ROOT, list_mutants
from tests.support.suites import list_critical_case_tests, select_representatives


def test_ingest_cases_are_numbered_from_1_to_76():
    assert [case.number for case in list_cases(INGEST)] == [f"{n:02}" for n in range(1, 77)]


def test_publishing_cases_are_numbered_from_1_to_74():
    assert [case.number for case in list_cases(SENDING)] == [f"f{n:02}" for n in range(1, 75)]


def test_every_case_has_a_test_named_after_it():
    assert {case.number for case in list_all_cases()} - list_tests_by_case().keys() == set()


def test_every_critical_case_has_a_mutant_that_its_test_detects():
    noticed = {
        number
        for mutant in list_mutants()
        for number in mutant.cases
        if any(find_case_number(test) == number for test in mutant.tests)
    }
    critical = {case.number for case in list_all_cases() if case.severity == "critical"}
    assert critical - noticed == set()


def test_every_outbox_rule_has_a_mutant():
    broken = {rule for mutant in list_mutants() for rule in mutant.rules}
    rule_numbers = {rule.number for rule in list_outbox_rules()}
    assert broken == rule_numbers


def test_tests_and_mutants_name_only_existing_cases():
    numbers = {case.number for case in list_all_cases()}
    named = {number for mutant in list_mutants() for number in mutant.cases}
    assert named | list_tests_by_case().keys() <= numbers


def test_every_mutant_names_a_test_for_each_of_its_cases():
    blind = [
        mutant.name
        for mutant in list_mutants()
        if not set(mutant.cases) <= {find_case_number(test) for test in mutant.tests}
    ]
    assert blind == []


def test_every_mutant_names_the_cases_of_its_tests():
    silent = [
        mutant.name
        for mutant in list_mutants()
        if not {find_case_number(test) for test in mutant.tests} - {None} <= set(mutant.cases)
    ]
    assert silent == []


def test_every_critical_case_runs_in_ci():
    critical = {case.number for case in list_all_cases() if case.severity == "critical"}
    in_ci = {
        find_case_number(test) for test in list_critical_case_tests() if not _is_nightly(test)
    }
    assert critical - in_ci == set()


def test_ci_runs_fault_test_with_first_postgresql_parameters():
    test = min(test for test in list_critical_case_tests() if "test_crashes.py" in test)
    cases = [f"{test}[{engine}-{kind}]" for engine in ("sqlite", "postgresql") for kind in "ab"]
    assert select_representatives(cases) == {cases[2]}


def test_tests_without_critical_mutant_run_only_nightly():
    assert (
        select_representatives(
            ["tests/faults/sending/processes/test_crashes.py::test_a_twin[sqlite]"]
        )
        == set()
    )


def _is_nightly(test: str) -> bool:
    """Return whether a mark in the source keeps a test out of CI."""
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    (function,) = (node for node in tree.body if getattr(node, "name", None) == name)
    assert isinstance(function, ast.FunctionDef)
    of_module = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return any(
        "pytest.mark.nightly" in ast.unparse(mark)
        for mark in [*function.decorator_list, *of_module]
        if "param" not in ast.unparse(mark)
    )
