"""The results of earlier runs: build/mutants.json, from which build/reliability.md is made."""

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.patches import BUILD, Mutant

RESULTS = BUILD / "mutants.json"
NOT_RUN = "not run yet"


@dataclass(slots=True)
class Results:
    """The results of earlier runs: of the cases' tests without a patch, and of the mutants.

    `tests`: the results of the cases' tests without a patch, by node id. `mutants`: by name, why a
    mutant was not noticed (None: it was), and the digest of its inputs.
    """

    tests: dict[str, str] = field(default_factory=dict)
    mutants: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def why_not(self, mutant: Mutant) -> str | None:
        """Return the recorded reason why a mutant was not noticed, or None if it was noticed."""
        return self.mutants.get(mutant.name, {"why_not": NOT_RUN})["why_not"]

    def is_known(self, mutant: Mutant, tree: Path) -> bool:
        """Return whether the mutant was noticed before, and its inputs have not changed."""
        recorded = self.mutants.get(mutant.name)
        return (
            recorded is not None
            and recorded["why_not"] is None
            and recorded["digest"] == digest(mutant, tree)
        )

    def keep(self, mutants: Sequence[Mutant], tests: Sequence[str]) -> None:
        """Keep only the results of these mutants and tests."""
        names = {mutant.name for mutant in mutants}
        self.mutants = {name: self.mutants[name] for name in sorted(names & self.mutants.keys())}
        self.tests = {test: self.tests[test] for test in sorted(set(tests) & self.tests.keys())}


def digest(mutant: Mutant, tree: Path) -> str:
    """Return the sha256 of the patch, of the files that it changes and of its tests' files."""
    files = {*mutant.patched, *(test.partition("::")[0] for test in mutant.tests)}
    sha = hashlib.sha256(mutant.path.read_bytes())
    for name in sorted(files):
        sha.update(name.encode())
        sha.update((tree / name).read_bytes())
    return sha.hexdigest()


def results() -> Results:
    """Return the results of earlier runs; waits for a process that writes them."""
    if not RESULTS.exists():
        return Results()
    with RESULTS.open(encoding="utf-8") as results_file:
        fcntl.flock(results_file, fcntl.LOCK_SH)
        return _read(results_file.read())


@contextmanager
def changing() -> Iterator[Results]:
    """Yield the results, and store the changes; other processes that run mutants wait."""
    BUILD.mkdir(exist_ok=True)
    with RESULTS.open("a+", encoding="utf-8") as results_file:
        fcntl.flock(results_file, fcntl.LOCK_EX)
        results_file.seek(0)
        current_results = _read(results_file.read() or "{}")
        yield current_results
        results_file.seek(0)
        results_file.truncate()
        results_file.write(
            json.dumps(
                {"tests": current_results.tests, "mutants": current_results.mutants}, indent=1
            )
            + "\n"
        )


def _read(text: str) -> Results:
    document: Mapping[str, Any] = json.loads(text)
    return Results(dict(document.get("tests", {})), dict(document.get("mutants", {})))
