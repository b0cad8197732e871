"""Takes our defences away, one by one, and sees that the tests notice; writes docs/reliability.md.

    .venv/bin/python tests/mutants/run.py [--only NAME ...] [--jobs 1] [--quick]

The bounded run (`--quick`) writes nothing. Exit code 1: a mutant survived.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.patches import REPORT, Mutant, all_mutants, applied  # noqa: E402
from tests.mutants.report import results_in, written  # noqa: E402

# Every test together without a mutant; a mutant's own tests; one test.
_GREEN_SECONDS, _RED_SECONDS, _TEST_SECONDS = 1200, 300, 120
_PASSED, _FAILED = 0, 1
# What a checkout holds beside what git knows.
_LINKED = ("node_modules", ".venv")


class Ran(NamedTuple):
    """What pytest said: its exit code, and by name of a test how its cases ended."""

    code: int
    ends: dict[str, list[str]]
    text: str

    def of(self, test: str) -> list[str]:
        """Return how the cases of a test ended; `test` may be one case or stand for all."""
        key = test if "[" in test else f"{test}["
        return [
            end
            for name, ends in self.ends.items()
            if name == test or name.startswith(key)
            for end in ends
        ]


def main() -> int:
    """Run what was asked for; the exit code."""
    parser = argparse.ArgumentParser(description="See that the tests notice a missing defence.")
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", help="mutants whose name has this in it"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a handful of the fastest")
    asked = parser.parse_args()
    known = all_mutants()
    chosen = [
        mutant
        for mutant in known
        if any(part in mutant.name for part in asked.only or [""])
        and (mutant.is_quick or not asked.quick)
    ]
    if not chosen:
        parser.error(f"no mutant is called {asked.only}")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        results = _judged(chosen, Path(folder), asked.jobs)
    survivors = [mutant for mutant in chosen if results[mutant.name] is not None]
    if not asked.quick:
        _report(known, results)
    _say(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants noticed")
    return 1 if survivors else 0


def _report(known: Sequence[Mutant], results: dict[str, str | None]) -> None:
    """Write the report; lines of mutants that were not run stay as they are."""
    before = results_in(REPORT.read_text("utf-8")) if REPORT.exists() else {}
    told = {mutant.name: "not run yet" for mutant in known} | before | results
    REPORT.write_text(written(known, told), "utf-8")


def _judged(mutants: Sequence[Mutant], folder: Path, jobs: int) -> dict[str, str | None]:
    """Return by name why a mutant was not noticed; None: it was."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    _say(f"without a mutant: {len(tests)} tests")
    green = _run_tests(_copy(folder / "green"), tests, _GREEN_SECONDS)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        verdicts = pool.map(lambda mutant: _verdict(mutant, folder, green), mutants)
        results: dict[str, str | None] = {}
        for mutant, verdict in zip(mutants, verdicts, strict=True):
            results[mutant.name] = verdict
            _say(f"{mutant.name}: {verdict or 'noticed'}")
    return results


def _verdict(mutant: Mutant, folder: Path, green: Ran) -> str | None:
    # A test that fails anyway notices nothing.
    unsound = [test for test in mutant.tests if set(green.of(test)) != {"passed"}]
    if unsound:
        return f"not green without it: {', '.join(unsound)} (pytest {green.code})"
    tree = _copy(folder / mutant.name)
    try:
        fault = applied(mutant, tree) or _built(mutant, tree)
        if fault is not None:
            return fault
        red = _run_tests(tree, mutant.tests, _RED_SECONDS)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    blind = [test for test in mutant.tests if "failed" not in red.of(test)]
    if not blind and red.code == _FAILED:
        return None
    if red.code in {_PASSED, _FAILED}:
        ends = sorted({end for test in blind for end in red.of(test)})
        return f"SURVIVED {', '.join(blind)} ({', '.join(ends)})"
    return f"pytest ended with {red.code}: {red.text.strip()[-300:]}"


def _built(mutant: Mutant, tree: Path) -> str | None:
    """Compile the contract that the patch changed, where it changed one."""
    if mutant.build is None:
        return None
    node = shutil.which("node") or str(ROOT / ".venv" / "bin" / "node")
    command = [node, "contracts/build.mjs", mutant.build]
    built = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, check=False, timeout=_RED_SECONDS
    )
    if built.returncode != 0 or "done" not in built.stdout:
        return f"{mutant.build} was not built anew: {(built.stdout + built.stderr).strip()}"
    return None


def _copy(place: Path) -> Path:
    """Copy what git knows or would take, as it stands now; installed packages are linked."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git is where it is
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    for name in _LINKED:
        if (ROOT / name).exists():
            (place / name).symlink_to(ROOT / name)
    return place


def _run_tests(tree: Path, tests: Iterable[str], seconds: int) -> Ran:
    told = tree / "told.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    # PostgreSQL's server is slow to start, and no defence here is an engine's.
    command += ["-m", "not postgres", "--timeout", str(_TEST_SECONDS), f"--junitxml={told}"]
    # The copy comes before the checkout that .venv has installed.
    surroundings = {**os.environ, "PYTHONPATH": str(tree)}
    with subprocess.Popen(
        [*command, *tests],
        cwd=tree,
        env=surroundings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            text, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # With what it started.
            os.killpg(running.pid, signal.SIGKILL)
            text, _ = running.communicate()
    return Ran(running.returncode, _ends(told) if told.exists() else {}, text)


def _ends(told: Path) -> dict[str, list[str]]:
    """Read how each case ended: passed, failed, error (around the test) or skipped."""
    ends: dict[str, list[str]] = {}
    # Written by pytest a moment ago.
    for case in ET.parse(told).iter("testcase"):  # noqa: S314
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        kinds = {part.tag for part in case} & {"failure", "error", "skipped"}
        end = "failed" if "failure" in kinds else min(kinds, default="passed")
        ends.setdefault(name, []).append(end)
    return ends


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
