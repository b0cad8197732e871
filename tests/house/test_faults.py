"""Every fault case has a test of its name, and a critical one a mutant that the test notices."""

from tests.faults.catalogue import (
    INGEST,
    SENDING,
    all_cases,
    case_of,
    cases_of,
    played,
    rules_of_the_outbox,
)
from tests.mutants.patches import all_mutants


def test_there_are_seventy_six_cases_of_ingest():
    assert [case.number for case in cases_of(INGEST)] == [f"{n:02}" for n in range(1, 77)]


def test_there_are_seventy_four_cases_of_publishing():
    assert [case.number for case in cases_of(SENDING)] == [f"f{n:02}" for n in range(1, 75)]


def test_every_case_has_a_test_of_its_name():
    assert {case.number for case in all_cases()} - played().keys() == set()


def test_every_critical_case_has_a_mutant_that_its_test_notices():
    noticed = {
        number
        for mutant in all_mutants()
        for number in mutant.cases
        if any(case_of(test) == number for test in mutant.tests)
    }
    critical = {case.number for case in all_cases() if case.severity == "critical"}
    assert critical - noticed == set()


def test_every_rule_of_the_outbox_has_a_mutant():
    broken = {rule for mutant in all_mutants() for rule in mutant.rules}
    known = {rule.number for rule in rules_of_the_outbox()}
    assert broken == known


def test_no_test_and_no_mutant_names_a_case_that_there_is_not():
    numbers = {case.number for case in all_cases()}
    named = {number for mutant in all_mutants() for number in mutant.cases}
    assert named | played().keys() <= numbers


def test_a_mutant_of_a_case_names_a_test_of_each_of_its_cases():
    blind = [
        mutant.name
        for mutant in all_mutants()
        if not set(mutant.cases) <= {case_of(test) for test in mutant.tests}
    ]
    assert blind == []


def test_a_mutant_that_names_a_test_of_a_case_says_so():
    silent = [
        mutant.name
        for mutant in all_mutants()
        if not {case_of(test) for test in mutant.tests} - {None} <= set(mutant.cases)
    ]
    assert silent == []
