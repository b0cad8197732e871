"""Every mutant still fits the code, and docs/reliability.md tells of exactly those there are."""

import pytest

from tests.mutants.patches import REPORT, ROOT, Mutant, all_mutants, applied
from tests.mutants.report import written_now
from tests.mutants.results import NOT_RUN, results

MUTANTS = all_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_to_the_code_as_it_is(mutant: Mutant):
    assert applied(mutant, ROOT, only_check=True) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_a_mutant_names_exist(mutant: Mutant):
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text("utf-8")


def test_the_report_on_reliability_is_what_the_runner_wrote_of_these_mutants():
    found = results()
    assert REPORT.read_text("utf-8") == written_now(MUTANTS, found)
    why_not = {mutant.name: found.why_not(mutant) for mutant in MUTANTS}
    # One that was not run yet says so in the report; one that was run must have been noticed.
    assert {name: why for name, why in why_not.items() if why not in {None, NOT_RUN}} == {}
    assert set(found.tests.values()) <= {"passed"}


def test_numbers_of_mutants_are_not_given_twice():
    numbers = [mutant.name.partition("-")[0] for mutant in MUTANTS if mutant.name[0] not in "cf"]
    assert len(set(numbers)) == len(numbers)
