"""Runs pytest again and again, forked from one Python that has loaded the libraries, none of ours.

Reads a line of JSON for each run, {"tree", "args", "said", "env"}; answers with the run's process
id, and when it is over with its exit code, each on a line.
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
    """Run what is asked for until nobody asks any more."""
    for name in LIBRARIES:
        importlib.import_module(name)
    # pytest collects garbage several times; what is loaded once is none.
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            sys.exit(_tested(order))
        try:
            _say(child)
            _, status = os.waitpid(child, 0)
        except BaseException:
            # No process waits for it any longer.
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            raise
        _say(os.waitstatus_to_exitcode(status))


def _tested(order: dict[str, Any]) -> int:
    # A group of its own, so that whatever it starts can be ended with it.
    os.setsid()
    output_fd = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for mine, target_fd in ((nothing, 0), (output_fd, 1), (output_fd, 2)):
        os.dup2(mine, target_fd)
    os.chdir(order["tree"])
    os.environ.update(order["env"])
    # The copy comes before the checkout that .venv has installed.
    sys.path.insert(0, order["tree"])
    return int(pytest.main(order["args"]))


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
