"""Runs tests in a tree and reads how each of them ended."""

import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PASSED, FAILED = 0, 1
_TEST_SECONDS = 120
# A test that cannot even be run for want of a name notices nothing.
_BROKEN = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "NameError")


class Ran(NamedTuple):
    """What pytest said: its exit code, and by name of a test how its cases ended."""

    code: int
    ends: dict[str, list[str]]
    text: str

    def of(self, test: str) -> list[str]:
        """Return how the cases of a test ended; `test` may be one case or stand for all.

        `failed` in the call itself, `error` around it, `broken` by a name that is not there,
        `skipped` or `passed`.
        """
        key = test if "[" in test else f"{test}["
        return [
            end
            for name, ends in self.ends.items()
            if name == test or name.startswith(key)
            for end in ends
        ]


# PostgreSQL's server is slow to start, and no defence here is an engine's.
ONE_ENGINE = ("-m", "not postgres")


def run_tests(tree: Path, tests: Iterable[str], seconds: int, *options: str) -> Ran:
    """Run these tests in a tree, the slow ones too, for at most so many seconds."""
    told = tree / "told.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
    command += ["--timeout", str(_TEST_SECONDS), f"--junitxml={told}", *options]
    # The copy comes before the checkout that .venv has installed; examples are drawn as in CI,
    # the same ones every time.
    surroundings = {**os.environ, "PYTHONPATH": str(tree), "CI": "1"}
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
    ends: dict[str, list[str]] = {}
    # Written by pytest a moment ago.
    for case in ET.parse(told).iter("testcase"):  # noqa: S314
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        ends.setdefault(name, []).append(_end(case))
    return ends


def _end(case: ET.Element) -> str:
    # pytest calls a failure what failed in the test's own call, and an error what failed
    # around it.
    failure = case.find("failure")
    if failure is not None:
        return "broken" if failure.get("message", "").startswith(_BROKEN) else "failed"
    return min({part.tag for part in case} & {"error", "skipped"}, default="passed")
