"""Applies the mutants one by one, checks that their tests fail, and writes build/reliability.md.

.venv/bin/python tests/mutants/run.py [--only NAME ...] [--stale] [--jobs 2] [--again]

Each result is stored immediately, so an interrupted run keeps its results; `--report` runs
nothing and writes the report of the stored results. The bounded run (`--quick`) writes nothing.
Exit code 1: a mutant survived.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.faults.catalogue import list_tests_by_case  # noqa: E402
from tests.mutants.patches import REPORT, Mutant, list_affected_mutants, list_mutants  # noqa: E402
from tests.mutants.report import written_now  # noqa: E402
from tests.mutants.results import changing, digest, results  # noqa: E402
from tests.mutants.running import FAILED, ONE_ENGINE, PASSED, Ran, Tester  # noqa: E402
from tests.mutants.trees import copy_checkout, create_mutated_tree, stat_sources  # noqa: E402

# Every test together without a mutant; a mutant's own tests.
_GREEN_SECONDS, _RED_SECONDS = 7200, 900


def main() -> int:
    """Run the selected mutants; return the exit code."""
    parser = _parser()
    options = parser.parse_args()
    if options.report:
        _report()
        return 0
    chosen = select_mutants(options)
    if not chosen:
        parser.error(f"no mutant is called {options.only}, or none of them is stale")
    verdicts: dict[str, str | None] = {}
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        _Trial(chosen, Path(folder), options.jobs, is_quick=options.quick) as trial,
    ):
        if not options.quick:
            _write_tests(trial)
        may_keep = not (options.only or options.again or options.quick)
        for mutant, verdict in trial.verdicts(may_keep=may_keep):
            verdicts[mutant.name] = verdict
            _print_line(f"{mutant.name}: {verdict or 'noticed'}")
            if not options.quick:
                _write_verdict(trial, mutant, verdict)
    if not options.quick:
        _report()
    survivors = [name for name, verdict in verdicts.items() if verdict is not None]
    _print_line(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants noticed")
    return 1 if survivors else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="See that the tests notice a missing defence.")
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", help="mutants whose name has this in it"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--again", action="store_true", help="those too that nothing changed for")
    parser.add_argument(
        "--quick", action="store_true", help="those of the last change, or the fastest"
    )
    parser.add_argument(
        "--stale", action="store_true", help="only those not yet noticed on the files as they are"
    )
    parser.add_argument("--report", action="store_true", help="run nothing, make the report")
    return parser


def select_mutants(options: argparse.Namespace) -> list[Mutant]:
    earlier_results = results()
    if options.quick:
        return list_affected_mutants() or [mutant for mutant in list_mutants() if mutant.is_quick]
    return [
        mutant
        for mutant in list_mutants()
        if any(part in mutant.name for part in options.only or [""])
        and not (options.stale and earlier_results.is_known(mutant, ROOT))
    ]


class _Trial:
    """Runs mutants, each in a separate copy of the checkout."""

    def __init__(
        self, mutants: Sequence[Mutant], folder: Path, jobs: int, *, is_quick: bool
    ) -> None:
        """Copy the checkout, and start as many testers as mutants may run in parallel."""
        self.mutants = mutants
        self._folder = folder
        self._whole = copy_checkout(folder / "whole")
        self._jobs = jobs
        self._stack = ExitStack()
        self._idle: SimpleQueue[Tester] = SimpleQueue()
        # The bounded run reports on no case.
        by_case = {} if is_quick else list_tests_by_case()
        self.of_cases = sorted(
            {
                test
                for mutant in mutants
                for number in mutant.cases
                for test in by_case.get(number, [])
            }
        )
        self.green = Ran(PASSED, {}, "")
        self.digests = {mutant.name: digest(mutant, self._whole) for mutant in mutants}

    def __enter__(self) -> Self:
        """Start the testers, and run the tests of the mutants and their cases without a patch."""
        for _ in range(self._jobs):
            self._idle.put(self._stack.enter_context(Tester()))
        tests = {test for mutant in self.mutants for test in mutant.tests} | {*self.of_cases}
        _print_line(f"without a mutant: {len(tests)} tests")
        # Tests of a file stay together.
        files = sorted({test.partition("::")[0] for test in tests})
        parts = [{*files[number :: self._jobs]} for number in range(self._jobs)]

        def ran(part: set[str]) -> Ran:
            mine = sorted(test for test in tests if test.partition("::")[0] in part)
            if not mine:
                return Ran(PASSED, {}, "")
            with self._tester() as tester:
                return tester.run_tests(self._whole, mine, _GREEN_SECONDS)

        with ThreadPoolExecutor(max_workers=self._jobs) as pool:
            done = list(pool.map(ran, parts))
        ends = {test: end for run in done for test, end in run.ends.items()}
        self.green = Ran(max(run.code for run in done), ends, "")
        return self

    def __exit__(self, *_: object) -> None:
        """End the testers."""
        self._stack.close()

    @contextmanager
    def _tester(self) -> Iterator[Tester]:
        tester = self._idle.get()
        try:
            yield tester
        finally:
            self._idle.put(tester)

    def verdicts(self, *, may_keep: bool) -> Iterable[tuple[Mutant, str | None]]:
        """Yield each mutant when it finishes, with why it was not noticed, or None if it was.

        `may_keep`: what was noticed before, and nothing of it changed, is not run again.

        Raises:
            SystemExit: a test wrote into the sources that all trees share.
        """
        earlier_results = results() if may_keep else None
        before = stat_sources(self._whole)

        def run_mutant(mutant: Mutant) -> str | None:
            unsound = self._unsound(mutant)
            if unsound is not None or (
                earlier_results and earlier_results.is_known(mutant, self._whole)
            ):
                return unsound
            return self._verdict(mutant)

        with ThreadPoolExecutor(max_workers=self._jobs) as pool:
            runs = {pool.submit(run_mutant, mutant): mutant for mutant in self.mutants}
            for run in as_completed(runs):
                if stat_sources(self._whole) != before:
                    pool.shutdown(cancel_futures=True)
                    raise SystemExit("a test wrote into the sources that all trees share")
                yield runs[run], run.result()

    def _unsound(self, mutant: Mutant) -> str | None:
        # A test that fails without the patch notices nothing.
        unsound = [test for test in mutant.tests if set(self.green.of(test)) != {"passed"}]
        if not unsound:
            return None
        return f"not green without it: {', '.join(unsound)} (pytest {self.green.code})"

    def _verdict(self, mutant: Mutant) -> str | None:
        tree = self._folder / mutant.name
        try:
            fault = create_mutated_tree(mutant, self._whole, tree)
            if fault is not None:
                return fault
            with self._tester() as tester:
                red = tester.run_tests(tree, mutant.tests, _RED_SECONDS, *ONE_ENGINE)
                if not all(red.of(test) for test in mutant.tests):
                    # A test needs the other database engine.
                    red = tester.run_tests(tree, mutant.tests, _RED_SECONDS)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
        return find_survival_reason(mutant, red)


def find_survival_reason(mutant: Mutant, red: Ran) -> str | None:
    """Return why the tests did not notice the mutant, or None if each of them failed."""
    blind = [test for test in mutant.tests if "failed" not in red.of(test)]
    if not blind and red.code == FAILED:
        return None
    if red.code in {PASSED, FAILED}:
        ends = sorted({end for test in blind for end in red.of(test)})
        return f"SURVIVED {', '.join(blind)} ({', '.join(ends)})"
    return f"pytest ended with {red.code}: {red.text.strip()[-300:]}"


def _write_tests(trial: _Trial) -> None:
    """Store the results of the cases' tests without a patch; results of other tests are kept."""
    with changing() as stored_results:
        for test in trial.of_cases:
            ends = set(trial.green.of(test))
            stored_results.tests[test] = (
                "passed" if ends == {"passed"} else min(ends, default="not found")
            )


def _write_verdict(trial: _Trial, mutant: Mutant, verdict: str | None) -> None:
    with changing() as stored_results:
        stored_results.mutants[mutant.name] = {
            "digest": trial.digests[mutant.name],
            "why_not": verdict,
        }


def _report() -> None:
    """Delete outdated results and write the report."""
    mutants = list_mutants()
    with changing() as stored_results:
        stored_results.keep(
            mutants, [test for tests in list_tests_by_case().values() for test in tests]
        )
        REPORT.write_text(written_now(mutants, stored_results), "utf-8")


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
