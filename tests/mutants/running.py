"""Runs tests in a tree and reads how each of them ended."""

import json
import os
import signal
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

PASSED, FAILED = 0, 1
_TEST_SECONDS = 300
# A test that cannot even be run for want of a name notices nothing.
_BROKEN = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "NameError")
# Nor does a run that a busy machine kept from finishing.
_LATE = "Failed: Timeout"
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
# pytest would see to the asserts of libraries that are loaded already.
_SILENT = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


class Ran(NamedTuple):
    """What pytest said: its exit code, and by name of a test how its cases ended."""

    code: int
    ends: dict[str, list[str]]
    text: str

    def of(self, test: str) -> list[str]:
        """Return how the cases of a test ended; `test` may be one case or stand for all.

        `failed` in the call itself, `error` around it, `broken` by a name that is not there,
        `late` when pytest ended it, `skipped` or `passed`.
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


class Tester:
    """One process that pytest is forked from: starting Python and its libraries costs seconds."""

    def __init__(self) -> None:
        """Start it; it runs one thing at a time."""
        script = Path(__file__).with_name("server.py")
        # Compiled files are kept in the trees, whatever is the habit here: each start of pytest
        # would compile all of ours.
        surroundings = {**os.environ}
        surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
        # -P: without the folder of the script among the places of modules.
        self._server = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """It ends when nobody asks any more."""
        self._server.communicate()

    def run_tests(self, tree: Path, tests: Iterable[str], seconds: int, *options: str) -> Ran:
        """Run these tests in a tree, the slow ones too, for at most so many seconds."""
        # Several test processes may use one tree.
        junit_file, output_file = (
            tree / f"told-{self._server.pid}.{end}" for end in ("xml", "txt")
        )
        junit_file.unlink(missing_ok=True)
        order = {
            "tree": str(tree),
            "args": [
                *_OPTIONS,
                *_SILENT,
                f"--timeout={_TEST_SECONDS}",
                f"--junitxml={junit_file}",
                *options,
                *tests,
            ],
            "said": str(output_file),
            # What tests start finds the copy too; examples are drawn as in CI, the same ones
            # every time.
            "env": {"PYTHONPATH": str(tree), "CI": "1"},
        }
        code = self._ran(json.dumps(order), seconds)
        return Ran(
            code,
            _ends(junit_file) if junit_file.exists() else {},
            output_file.read_text("utf-8", "replace"),
        )

    def _ran(self, order: str, seconds: int) -> int:
        if self._server.stdin is None or self._server.stdout is None:
            raise AssertionError("both were asked for")
        self._server.stdin.write(f"{order}\n")
        self._server.stdin.flush()
        group = int(self._server.stdout.readline())
        too_long = threading.Timer(seconds, _end_all, [group])
        too_long.start()
        try:
            return int(self._server.stdout.readline())
        finally:
            too_long.cancel()


def _end_all(group: int) -> None:
    """End a run with what it started."""
    os.killpg(group, signal.SIGKILL)


def _ends(junit_file: Path) -> dict[str, list[str]]:
    ends: dict[str, list[str]] = {}
    # Written by pytest a moment ago.
    for case in ET.parse(junit_file).iter("testcase"):  # noqa: S314
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        ends.setdefault(name, []).append(_end(case))
    return ends


def _end(case: ET.Element) -> str:
    # pytest calls a failure what failed in the test's own call, and an error what failed
    # around it.
    failure = case.find("failure")
    if failure is not None:
        message = failure.get("message", "")
        if message.startswith(_LATE):
            return "late"
        return "broken" if message.startswith(_BROKEN) else "failed"
    return min({part.tag for part in case} & {"error", "skipped"}, default="passed")
