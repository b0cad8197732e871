"""Runs tests in a tree and reads their results."""

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
# A test that fails because a name is undefined notices nothing.
_BROKEN = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "NameError")
# Neither does a run that timed out on a busy machine.
_LATE = "Failed: Timeout"
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
# pytest would rewrite the asserts of libraries that are already loaded.
_SILENT = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


class Ran(NamedTuple):
    """The result of a pytest run: its exit code, and the results of cases by test name."""

    code: int
    ends: dict[str, list[str]]
    text: str

    def of(self, test: str) -> list[str]:
        """Return the results of a test's cases; `test` may be one case or stand for all.

        `failed` in the call itself, `error` around it, `broken` by an undefined name, `late`
        after a timeout, `skipped` or `passed`.
        """
        key = test if "[" in test else f"{test}["
        return [
            end
            for name, ends in self.ends.items()
            if name == test or name.startswith(key)
            for end in ends
        ]


# PostgreSQL's server is slow to start, and no defence here depends on the engine.
ONE_ENGINE = ("-m", "not postgres")


class Tester:
    """A process from which pytest is forked.

    Starting Python and its libraries takes seconds.
    """

    def __init__(self) -> None:
        """Start the process, which handles one request at a time."""
        script = Path(__file__).with_name("server.py")
        # Compiled files are kept in the trees, whatever the environment sets: otherwise
        # each start of pytest would compile everything.
        surroundings = {**os.environ}
        surroundings.pop("PYTHONDONTWRITEBYTECODE", None)
        # -P: without the folder of the script in the module path.
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
        """Close the input, so that the process ends."""
        self._server.communicate()

    def run_tests(self, tree: Path, tests: Iterable[str], seconds: int, *options: str) -> Ran:
        """Run these tests in a tree, including slow ones, for up to `seconds`."""
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
            # Processes that tests start use the copy, too; examples are drawn as in
            # CI, always the same ones.
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
    """Kill a run with all processes that it started."""
    os.killpg(group, signal.SIGKILL)


def _ends(junit_file: Path) -> dict[str, list[str]]:
    ends: dict[str, list[str]] = {}
    # Written by pytest a moment ago.
    for case in ET.parse(junit_file).iter("testcase"):  # noqa: S314
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        ends.setdefault(name, []).append(_end(case))
    return ends


def _end(case: ET.Element) -> str:
    # pytest reports an exception of the test's own call as a failure, and any other as an
    # error.
    failure = case.find("failure")
    if failure is not None:
        message = failure.get("message", "")
        if message.startswith(_LATE):
            return "late"
        return "broken" if message.startswith(_BROKEN) else "failed"
    return min({part.tag for part in case} & {"error", "skipped"}, default="passed")
