"""Settings of pytest and Hypothesis, and fixtures that restore the process after each test."""

import gc
import logging
import os
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings

from oracle.telemetry import safe_text
from tests.support.examples import BOUNDED, MOST, QUICK, UNSHRUNK, is_bounded, is_quick

# Also where the environment forbids bytecode: every process would rewrite the asserts of 600 files
# again, and the processes that tests start would compile the modules that no test imports.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["tests.support.databases", "tests.support.leaks", "tests.support.suites"]

# Deadlines and health checks would measure the machine. In CI the examples are the same in every
# run, so that only a change can make it fail; everywhere else they are new ones.
settings.register_profile(
    "house",
    deadline=None,
    # Fixtures of a function return a new database for every example, or none.
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
    derandomize="CI" in os.environ,
)
settings.load_profile("house")
for _profile, _most in MOST.items():
    settings.register_profile(_profile, parent=settings.get_profile("house"), max_examples=_most)
settings.register_profile(
    UNSHRUNK,
    parent=settings.get_profile("house"),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def pytest_configure(config: pytest.Config) -> None:
    """Select the number of examples, before the tests that use it are imported.

    Tests selected by name, the night and the mutants run all examples.
    """
    if is_bounded(config):
        settings.load_profile(QUICK if is_quick(config) else BOUNDED)


def pytest_collection() -> None:
    """Disable garbage collection until all tests are collected, because they stay alive.

    It would take a fifth of the time of the collection, in each worker.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude what exists now from garbage collection, and collect less often than by default.

    A full collection takes half a second, which is longer than most tests.
    """
    gc.enable()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


# Python's default. py_ecc, which web3 imports, raises it beyond what the C stack holds. Deeply
# nested JSON would then end the interpreter; `entrypoints.cli` resets it as well.
_MAX_FRAMES = 1000


@pytest.fixture(autouse=True)
def default_recursion_limit() -> None:
    sys.setrecursionlimit(_MAX_FRAMES)


@pytest.fixture(scope="session")
def bounded(request: pytest.FixtureRequest) -> bool:
    """Return whether crashes and lies are tested only at the first of each kind of place."""
    return is_bounded(request.config)


@pytest.fixture(autouse=True)
def restored_secrets() -> Iterator[None]:
    """Unregister the secrets of a test, which would be redacted in later tests."""
    before = safe_text._hidden.copy()
    yield
    safe_text._hidden.intersection_update(before)


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Restore the logging of the process, which commands configure."""
    handlers = logging.root.handlers[:]
    level = logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()
