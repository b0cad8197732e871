"""Takes our defences away, one by one, and sees that the tests notice; writes docs/reliability.md.

    .venv/bin/python tests/mutants/run.py [--only NAME ...] [--jobs 2] [--again] [--quick]

The bounded run (`--quick`) writes nothing. Exit code 1: a mutant survived.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults.catalogue import played  # noqa: E402
from tests.mutants.patches import REPORT, Mutant, all_mutants  # noqa: E402
from tests.mutants.report import written_now  # noqa: E402
from tests.mutants.results import changing, digest, results  # noqa: E402
from tests.mutants.running import FAILED, ONE_ENGINE, PASSED, Ran, run_tests  # noqa: E402
from tests.mutants.trees import copied, look, mutated  # noqa: E402

# Every test together without a mutant; a mutant's own tests.
_GREEN_SECONDS, _RED_SECONDS = 3600, 300


def main() -> int:
    """Run what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description="See that the tests notice a missing defence.")
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", help="mutants whose name has this in it"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--again", action="store_true", help="those too that nothing changed for")
    parser.add_argument("--quick", action="store_true", help="a handful of the fastest")
    asked = parser.parse_args()
    chosen = [
        mutant
        for mutant in all_mutants()
        if any(part in mutant.name for part in asked.only or [""])
        and (mutant.is_quick or not asked.quick)
    ]
    if not chosen:
        parser.error(f"no mutant is called {asked.only}")
    may_keep = not (asked.only or asked.again or asked.quick)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trial = _Trial(chosen, Path(folder), asked.jobs)
        verdicts = trial.verdicts(may_keep=may_keep)
    if not asked.quick:
        _write_down(trial, verdicts)
    survivors = [name for name, verdict in verdicts.items() if verdict is not None]
    _say(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants noticed")
    return 1 if survivors else 0


class _Trial:
    """These mutants, each in a tree of its own beside the whole one."""

    def __init__(self, mutants: Sequence[Mutant], folder: Path, jobs: int) -> None:
        """Run all their tests without a patch first, and those of their cases."""
        self.mutants = mutants
        self._folder = folder
        self._jobs = jobs
        self._whole = copied(folder / "whole")
        by_case = played()
        self.of_cases = sorted(
            {
                test
                for mutant in mutants
                for number in mutant.cases
                for test in by_case.get(number, [])
            }
        )
        tests = sorted({test for mutant in mutants for test in mutant.tests} | {*self.of_cases})
        _say(f"without a mutant: {len(tests)} tests")
        together = ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else []
        self.green = run_tests(self._whole, tests, _GREEN_SECONDS, *together)
        self.digests = {mutant.name: digest(mutant, self._whole) for mutant in mutants}

    def verdicts(self, *, may_keep: bool) -> dict[str, str | None]:
        """Return by name why a mutant was not noticed; None: it was.

        `may_keep`: what was noticed before, and nothing of it changed, is not run again.
        """
        kept = results() if may_keep else None
        before = look(self._whole)
        told: dict[str, str | None] = {}

        def one(mutant: Mutant) -> str | None:
            unsound = self._unsound(mutant)
            if unsound is not None or (kept and kept.is_known(mutant, self._whole)):
                return unsound
            return self._verdict(mutant)

        with ThreadPoolExecutor(max_workers=self._jobs) as pool:
            for mutant, verdict in zip(self.mutants, pool.map(one, self.mutants), strict=True):
                told[mutant.name] = verdict
                _say(f"{mutant.name}: {verdict or 'noticed'}")
        if look(self._whole) != before:
            raise SystemExit("a test wrote into the sources that all trees share: nothing counts")
        return told

    def _unsound(self, mutant: Mutant) -> str | None:
        # A test that fails anyway notices nothing.
        unsound = [test for test in mutant.tests if set(self.green.of(test)) != {"passed"}]
        if not unsound:
            return None
        return f"not green without it: {', '.join(unsound)} (pytest {self.green.code})"

    def _verdict(self, mutant: Mutant) -> str | None:
        tree = self._folder / mutant.name
        try:
            fault = mutated(mutant, self._whole, tree)
            if fault is not None:
                return fault
            red = run_tests(tree, mutant.tests, _RED_SECONDS, *ONE_ENGINE)
            if not all(red.of(test) for test in mutant.tests):
                # One of them needs the other engine.
                red = run_tests(tree, mutant.tests, _RED_SECONDS)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
        return _seen(mutant, red)


def _seen(mutant: Mutant, red: Ran) -> str | None:
    """Return why the tests did not notice; None: each of them failed."""
    blind = [test for test in mutant.tests if "failed" not in red.of(test)]
    if not blind and red.code == FAILED:
        return None
    if red.code in {PASSED, FAILED}:
        ends = sorted({end for test in blind for end in red.of(test)})
        return f"SURVIVED {', '.join(blind)} ({', '.join(ends)})"
    return f"pytest ended with {red.code}: {red.text.strip()[-300:]}"


def _write_down(trial: _Trial, verdicts: dict[str, str | None]) -> None:
    """Keep the results and make the report; lines of what was not run stay as they are."""
    known, by_case = all_mutants(), played()
    with changing() as kept:
        for test in trial.of_cases:
            ends = set(trial.green.of(test))
            kept.tests[test] = "passed" if ends == {"passed"} else min(ends, default="not found")
        for name, verdict in verdicts.items():
            kept.mutants[name] = {"digest": trial.digests[name], "why_not": verdict}
        kept.keep(known, [test for tests in by_case.values() for test in tests])
        REPORT.write_text(written_now(known, kept), "utf-8")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
