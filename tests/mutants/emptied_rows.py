"""Removes the body of each function that docs/fidelity/ cites; the cited tests must then fail.

    .venv/bin/python tests/mutants/emptied_rows.py [--only Q12 L4 ...] [--jobs 2]

A row is confirmed if each of its functions makes one of its tests fail, and each of its tests
fails for one of its functions. The exit code is 1 if a row is not confirmed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.house.pages.fidelity import Place, Statement, find_names, statements  # noqa: E402
from tests.mutants.emptying import write_emptying_patch  # noqa: E402
from tests.mutants.patches import BUILD  # noqa: E402
from tests.mutants.running import ONE_ENGINE, Tester  # noqa: E402
from tests.mutants.trees import copy_checkout, create_mutated_tree  # noqa: E402
from tests.support.examples import UNSHRUNK  # noqa: E402

_GREEN_SECONDS, _SECONDS = 3600, 300
_OPTIONS = (*ONE_ENGINE, f"--hypothesis-profile={UNSHRUNK}")
# A missing name shows nothing, and neither does a test that timed out.
_FELL = {"failed", "error"}
REPORT = BUILD / "emptied-rows.txt"

# Of each place that was emptied, the tests that fell; or why it could not be tried.
Fallen = Mapping[Place, set[str] | str]


def main() -> int:
    """Run the selected rows; return the exit code."""
    parser = argparse.ArgumentParser(description="See that the tests of docs/fidelity/ look.")
    parser.add_argument("--only", metavar="ROW", nargs="+", help="rows by name, such as Q12")
    parser.add_argument("--jobs", type=int, default=2, help="trees at a time (default: 2)")
    options = parser.parse_args()
    rows = [row for row in list_cited_rows() if not options.only or row.name in options.only]
    if not rows:
        parser.error(f"no row that cites code is called {options.only}")
    with tempfile.TemporaryDirectory(prefix="emptied-") as folder:
        fallen_by_place = run_rows(rows, Path(folder), options.jobs)
    faults = [*find_unconfirmed_citations(rows, fallen_by_place)]
    for fault in faults:
        sys.stdout.write(f"{fault}\n")
    summary = (
        f"{len(fallen_by_place)} emptied, {len(faults)} citations of {len(rows)} rows did not fall"
    )
    sys.stdout.write(f"{summary}\n")
    if not options.only:
        BUILD.mkdir(exist_ok=True)
        REPORT.write_text("\n".join((summary, *faults, "")))
    return 1 if faults else 0


def list_cited_rows() -> list[Statement]:
    """Return the rows that cite code and have a test."""
    return [row for row in statements() if not row.is_prose and row.tests]


def node_ids(row: Statement) -> list[str]:
    """Return the tests of a row as pytest names them."""
    return [
        f"{path}::{name.replace('.', '::')}"
        for path, name in find_names(row.test)
        if path.startswith("tests/") and name
    ]


def run_rows(rows: Sequence[Statement], folder: Path, jobs: int) -> Fallen:
    """Empty each cited name of these rows, and run the tests of the rows that cite it."""
    tests_by_place: dict[Place, set[str]] = {}
    for row in rows:
        for place in (*row.ours, *row.contracts):
            tests_by_place.setdefault(place, set()).update(node_ids(row))
    unmodified_tree = copy_checkout(folder / "whole")
    with _Testers(jobs) as testers, ThreadPoolExecutor(max_workers=jobs) as pool:
        # Tests that fail without a change show nothing.
        green = testers.green(sorted(set().union(*tests_by_place.values())), unmodified_tree)

        def test_place(place: Place) -> set[str] | str:
            fallen_tests = testers.fallen(
                place, sorted(tests_by_place[place] & green), unmodified_tree
            )
            outcome = (
                fallen_tests
                if isinstance(fallen_tests, str)
                else f"{len(fallen_tests)} of {len(tests_by_place[place])} fell"
            )
            sys.stdout.write(f"{'::'.join(place)}: {outcome}\n")
            sys.stdout.flush()
            return fallen_tests

        return dict(zip(tests_by_place, pool.map(test_place, tests_by_place), strict=True))


class _Testers:
    """A pool of processes from which tests are forked."""

    def __init__(self, jobs: int) -> None:
        self._stack = ExitStack()
        self._idle: SimpleQueue[Tester] = SimpleQueue()
        self._jobs = jobs

    def __enter__(self) -> Self:
        for _ in range(self._jobs):
            self._idle.put(self._stack.enter_context(Tester()))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def green(self, tests: list[str], unmodified_tree: Path) -> set[str]:
        """Return which of these tests pass in the unmodified tree; print the others."""
        tester = self._idle.get()
        ran = tester.run_tests(unmodified_tree, tests, _GREEN_SECONDS, *_OPTIONS)
        self._idle.put(tester)
        passed = {test for test in tests if {*ran.of(test)} - {"skipped"} == {"passed"}}
        for test in sorted(set(tests) - passed):
            sys.stdout.write(f"{test} is not green as it is\n")
        return passed

    def fallen(self, place: Place, tests: list[str], unmodified_tree: Path) -> set[str] | str:
        """Return the tests that fail when a place is emptied, or why emptying is impossible."""
        if not tests:
            return "no test of its rows is green as it is"
        tree = unmodified_tree.parent / f"{'-'.join(place).replace('/', '-')}"
        tester = self._idle.get()
        try:
            mutant = write_emptying_patch(place, tuple(tests), unmodified_tree.parent)
            fault = create_mutated_tree(mutant, unmodified_tree, tree)
            if fault is not None:
                return fault
            ran = tester.run_tests(tree, tests, _SECONDS, *_OPTIONS)
        except (ValueError, subprocess.TimeoutExpired) as error:
            # A place that cannot be emptied, or a contract that took too long to
            # compile.
            return str(error)
        finally:
            self._idle.put(tester)
            shutil.rmtree(tree, ignore_errors=True)
        if not ran.ends:
            return f"pytest ended with {ran.code}: {ran.text.strip()[-300:]}"
        return {test for test in tests if _FELL.intersection(ran.of(test))}


def find_unconfirmed_citations(
    rows: Sequence[Statement], fallen_by_place: Fallen
) -> Iterator[str]:
    """Yield each citation of a row that no test failure confirms."""
    for row in rows:
        tests = set(node_ids(row))
        covered_tests = set[str]()
        for place in (*row.ours, *row.contracts):
            fallen = fallen_by_place[place]
            if isinstance(fallen, str):
                yield f"{row.name}: {'::'.join(place)} was not tried: {fallen}"
                covered_tests = tests
                continue
            covered_tests |= fallen
            if not fallen & tests:
                yield f"{row.name}: {'::'.join(place)} is empty, and none of its tests falls"
        for test in sorted(tests - covered_tests):
            yield f"{row.name}: {test} falls for nothing that the row names"


if __name__ == "__main__":
    sys.exit(main())
