"""Runs pytest repeatedly, forked from a Python that has loaded the libraries, but not the
product.

Reads a line of JSON for each run, {"tree", "args", "said", "env"}; writes the process id of the
run, and after it the exit code, each on a line.
"""

import gc
import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import pytest

# Modules that load slowly and that no patch changes.
LIBRARIES = (
    "_hypothesis_pytestplugin",
    "_sqlite3",
    "alembic.command",
    "anyio.pytest_plugin",
    "eth_account",
    "fastapi.testclient",
    "hypothesis",
    "msgspec.json",
    "platformdirs.pytest_plugin",
    "prometheus_client",
    "psycopg",
    "pydantic_settings",
    "pytest_cov.plugin",
    "pytest_timeout",
    "requests",
    "rich.console",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "sqlalchemy.orm",
    "structlog",
    "typer.testing",
    "web3",
)


def main() -> None:
    """Run pytest for each request on standard input, until the input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    # pytest collects garbage several times; objects loaded once are never garbage.
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            sys.exit(run_order(order))
        try:
            _write_number(child)
            _, status = os.waitpid(child, 0)
        except BaseException:
            # No process waits for it any longer.
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            raise
        _write_number(os.waitstatus_to_exitcode(status))


def run_order(order: dict[str, Any]) -> int:
    # A separate process group, so that all processes that it starts can be killed with it.
    os.setsid()
    output_fd = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for mine, target_fd in ((nothing, 0), (output_fd, 1), (output_fd, 2)):
        os.dup2(mine, target_fd)
    os.chdir(order["tree"])
    os.environ.update(order["env"])
    # The copy precedes the checkout that is installed in .venv.
    sys.path.insert(0, order["tree"])
    return int(pytest.main(order["args"]))


def _write_number(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
