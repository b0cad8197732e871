"""Generates build/reliability.md; run.py calls it."""

import re
from collections.abc import Mapping, Sequence

from tests.faults.catalogue import (
    INGEST,
    SENDING,
    Case,
    Rule,
    list_cases,
    list_outbox_rules,
    list_tests_by_case,
)
from tests.mutants.patches import Mutant
from tests.mutants.results import NOT_RUN, Results

_OPENING = """\
# What happens when a defence is missing

Made by `.venv/bin/python tests/mutants/run.py` (`make mutants`) from what it saw;
docs/explanation/fault-model.md says what it is for. With `--only NAME` it makes the lines anew
whose mutants have that in their name.

A *mutant* is a patch in `tests/mutants/` that takes one defence away. *Noticed*: every test that
the patch names is green without it and fails with it, by what it asserts and not for want of a
name. Every full run runs all tests without a patch; a patch is not run again while it, the files
that it changes and the files of its tests are byte for byte what they were when it was noticed
(`--again` runs all of them anew).
"""
_TABLE = """
| Case | Fault | Expected | Tests | Without a patch | Mutants | With the patch |
|---|---|---|---|---|---|---|
"""
_INGEST = """
## The 76 fault cases

What the chain and its endpoints, the machine and the operator can do to an indexer, and what is
expected of ours. Tests stand in `tests/faults/ingest/`, tried against endpoints over HTTP that
serve a tree of real blocks.
"""
_SENDING = """
## The 74 cases of publishing

What can happen to money and statements on their way to the chain. Tests stand in
`tests/faults/sending/` and, where a contract or an encoder is at stake, with theirs; they drive
the real services on a real chain, behind a proxy that drops, delays and forges answers.
"""
_RULES = """
## The rules of the outbox

What happens when one is missing: the tests that notice, a case or the simulation.

| | Rule | Mutants | Tests | With the patch |
|---|---|---|---|---|
"""
_OTHERS = """
## Every other defence

| Defence | Room | Test | Mutant | Result |
|---|---|---|---|---|
"""


def written_now(mutants: Sequence[Mutant], results: Results) -> str:
    """Return the document about these mutants, with all cases and their tests."""
    by_case = list_tests_by_case()
    ingest = [_case_row(case, by_case, mutants, results) for case in list_cases(INGEST)]
    sending = [_case_row(case, by_case, mutants, results) for case in list_cases(SENDING)]
    rules = [_rule_row(rule, mutants, results) for rule in list_outbox_rules()]
    other_rows = [_row(mutant, results) for mutant in mutants if not mutant.cases]
    parts = [_OPENING, _INGEST, _TABLE, *ingest, _SENDING, _TABLE, *sending]
    return "".join([*parts, _RULES, *rules, _OTHERS, *other_rows])


def _case_row(
    case: Case,
    tests_of: Mapping[str, Sequence[str]],
    mutants: Sequence[Mutant],
    results: Results,
) -> str:
    tests = tests_of.get(case.number, [])
    ends = {results.tests.get(test, NOT_RUN) for test in tests}
    without = "passed" if ends == {"passed"} else f"**{', '.join(sorted(ends)) or 'no test'}**"
    takers = [mutant for mutant in mutants if case.number in mutant.cases]
    cells = [
        case.number.lstrip("0"),
        _plain(case.fault),
        _plain(case.expected),
        _lines([f"`{_short(test)}`" for test in tests]),
        without,
        _lines([f"`{mutant.name}`: {mutant.defence}" for mutant in takers]),
        _lines([_result(mutant, results) for mutant in takers]) or "-",
    ]
    return f"| {' | '.join(cells)} |\n"


def _rule_row(rule: Rule, mutants: Sequence[Mutant], results: Results) -> str:
    takers = [mutant for mutant in mutants if rule.number in mutant.rules]
    cells = [
        rule.number,
        rule.rule,
        _lines([f"`{mutant.name}`: {mutant.defence}" for mutant in takers]),
        _lines([_lines([f"`{_short(test)}`" for test in mutant.tests]) for mutant in takers]),
        _lines([_result(mutant, results) for mutant in takers]) or "**no mutant**",
    ]
    return f"| {' | '.join(cells)} |\n"


def _row(mutant: Mutant, results: Results) -> str:
    tests = _lines([f"`{test.removeprefix('tests/')}`" for test in mutant.tests])
    result = _result(mutant, results)
    return f"| {mutant.defence} | {mutant.room} | {tests} | `{mutant.name}` | {result} |\n"


def _short(test: str) -> str:
    """Return a test's node id for the tables, without the folder of its suite."""
    return test.removeprefix("tests/").removeprefix("faults/").removeprefix("sending/")


def _result(mutant: Mutant, results: Results) -> str:
    why_not = results.why_not(mutant)
    return "noticed" if why_not is None else "**" + re.sub(r"[|\s]+", " ", why_not) + "**"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _lines(parts: Sequence[str]) -> str:
    # Two columns, with one entry per line.
    return "<br>".join(parts)
