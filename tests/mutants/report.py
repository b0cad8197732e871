"""What docs/reliability.md says; it is made by run.py and never written by hand."""

import re
from collections.abc import Mapping, Sequence

from tests.faults.catalogue import Case
from tests.mutants.patches import Mutant
from tests.mutants.results import NOT_RUN, Results

_OPENING = """\
# What happens when a defence is missing

Made by `.venv/bin/python tests/mutants/run.py` (`make mutants`) from what it saw; do not edit.
With `--only NAME` it makes the lines anew whose mutants have that in their name.

A *mutant* is a patch in `tests/mutants/` that takes one defence away. *Noticed*: every test that
the patch names is green without it and fails with it, by what it asserts and not for want of a
name. Every full run runs all tests without a patch; a patch is not run again while it, the files
that it changes and the files of its tests are byte for byte what they were when it was noticed
(`--again` runs all of them anew).

## The 76 fault cases

What the chain and its endpoints, the machine and the operator can do to an indexer, and what is
expected of ours. Tests stand in `tests/faults/`, tried against endpoints over HTTP that serve a
tree of real blocks.

| Case | Fault | Expected | Tests | Without a patch | Mutants | With the patch |
|---|---|---|---|---|---|---|
"""
_OTHERS = """
## Every other defence

| Defence | Room | Test | Mutant | Result |
|---|---|---|---|---|
"""


def written(
    cases: Sequence[Case],
    played: Mapping[int, Sequence[str]],
    mutants: Sequence[Mutant],
    results: Results,
) -> str:
    """Return the document: `played` are the tests of each case."""
    rows = [_case_row(case, played.get(case.number, []), mutants, results) for case in cases]
    others = [_row(mutant, results) for mutant in mutants if not mutant.cases]
    return "".join([_OPENING, *rows, _OTHERS, *others])


def _case_row(
    case: Case, tests: Sequence[str], mutants: Sequence[Mutant], results: Results
) -> str:
    ends = {results.tests.get(test, NOT_RUN) for test in tests}
    without = "passed" if ends == {"passed"} else f"**{', '.join(sorted(ends)) or 'no test'}**"
    takers = [mutant for mutant in mutants if case.number in mutant.cases]
    cells = [
        str(case.number),
        _plain(case.fault),
        _plain(case.expected),
        _lines([f"`{test.removeprefix('tests/faults/')}`" for test in tests]),
        without,
        _lines([f"`{mutant.name}`: {mutant.defence}" for mutant in takers]),
        _lines([_result(mutant, results) for mutant in takers]) or "**no mutant**",
    ]
    return f"| {' | '.join(cells)} |\n"


def _row(mutant: Mutant, results: Results) -> str:
    tests = _lines([f"`{test.removeprefix('tests/')}`" for test in mutant.tests])
    result = _result(mutant, results)
    return f"| {mutant.defence} | {mutant.room} | {tests} | `{mutant.name}` | {result} |\n"


def _result(mutant: Mutant, results: Results) -> str:
    why_not = results.why_not(mutant)
    return "noticed" if why_not is None else "**" + re.sub(r"[|\s]+", " ", why_not) + "**"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _lines(parts: Sequence[str]) -> str:
    # One beside the other in two columns: each on a line of its own.
    return "<br>".join(parts)
