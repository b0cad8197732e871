"""Fixtures for every floor: real databases, and logging as it was."""

import gc
import logging
import os
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, Phase, settings

from tests.support.examples import BOUNDED, MOST, QUICK, UNSHRUNK, is_bounded, is_quick

# Also where Python is told to keep none: every process would make the asserts of 400 files explain
# themselves anew, which takes longer than most tests.
sys.dont_write_bytecode = False

pytest_plugins = ["tests.support.databases", "tests.support.leaks", "tests.support.suites"]

# How fast a shared machine draws examples says nothing about us. CI plays the same examples every
# time, so that it is red only for what a change did; everywhere else they are new ones.
settings.register_profile(
    "house",
    deadline=None,
    # Fixtures here give a fresh database for every example, or none.
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
    """Before the tests are imported, which say how many examples they want.

    What is named by hand, the night (which plays every property again) and the mutants play all
    of them.
    """
    if is_bounded(config):
        settings.load_profile(QUICK if is_quick(config) else BOUNDED)


def pytest_collection_finish() -> None:
    """Half a million objects are there when tests begin, and stay: no collector looks again."""
    gc.freeze()


# Python's own. py_ecc, which web3 brings, raises it to what no C stack bears: a test that reads
# deeply nested JSON would then end the interpreter (`entrypoints.cli` puts it back as well).
_MOST_FRAMES = 1000


@pytest.fixture(autouse=True)
def frames_as_many_as_the_stack_bears() -> None:
    """Whoever was imported meanwhile."""
    sys.setrecursionlimit(_MOST_FRAMES)


@pytest.fixture(scope="session")
def bounded(request: pytest.FixtureRequest) -> bool:
    """Whether to die, stall and lie at the first of each kind of place, not everywhere."""
    return is_bounded(request.config)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A command sets logging up for its process, which here is everybody's."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()
