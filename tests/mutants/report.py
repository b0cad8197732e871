"""What docs/reliability.md says; it is made by run.py and never written by hand."""

import re
from collections.abc import Mapping, Sequence

from tests.mutants.patches import Mutant

_OPENING = """\
# What happens when a defence is missing

Made by `.venv/bin/python tests/mutants/run.py` (`make mutants`); do not edit. With `--only NAME`
it makes the lines anew whose mutants have that in their name.

Each line is a patch in `tests/mutants/` that takes one defence away. The tests named beside it
are green without the patch; *noticed* means that every one of them fails with it.

| Defence | Room | Test | Mutant | Result |
|---|---|---|---|---|
"""
_ROW = re.compile(r"^\|.*\| `([0-9a-z-]+)` \| (noticed|\*\*[^|]+\*\*) \|$", re.MULTILINE)


def written(mutants: Sequence[Mutant], results: Mapping[str, str | None]) -> str:
    """Return the document; `results`: by name why a mutant was not noticed, None where it was."""
    return _OPENING + "".join(_row(mutant, results[mutant.name]) for mutant in mutants)


def results_in(text: str) -> dict[str, str | None]:
    """Return by name what a document says: why a mutant was not noticed, None where it was."""
    return {
        name: None if result == "noticed" else result.strip("*")
        for name, result in _ROW.findall(text)
    }


def _row(mutant: Mutant, why_not: str | None) -> str:
    tests = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in mutant.tests)
    result = "noticed" if why_not is None else "**" + re.sub(r"[|\s]+", " ", why_not) + "**"
    return f"| {mutant.defence} | {mutant.room} | {tests} | `{mutant.name}` | {result} |\n"
