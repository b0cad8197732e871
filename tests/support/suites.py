"""Assigns tests to suites: the quick suite, CI, and the night.

- quick (`-m 'not slow'`): tests that need neither a chain nor a server, and the main paths of the
others.

- CI (`(slow or hypothesis) and not nightly`): the other tests that are not nightly; properties
with at most 15 examples, and slow tests with one parameter set.

- night: all tests.

The marks follow from a test's location and fixtures, so that authors need not set them.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.faults.catalogue import INGEST, SENDING, find_case_number, list_all_cases
from tests.mutants.patches import list_mutants
from tests.support.examples import is_quick

_TESTS = Path(__file__).resolve().parents[1]
FAULTS = (INGEST, SENDING)
# Tests with real daemons, sockets and transactions are never quick.
SLOW_FOLDERS = (
    *FAULTS,
    _TESTS / "integration" / "reporters",
    _TESTS / "integration" / "segments",
)
# CI runs a selection of this folder that the folder itself chooses.
_LIES = _TESTS / "faults" / "lies"
_MODULE_MARKS = re.compile(r"^pytestmark = (\[[^\]]*|.*)", re.MULTILINE)
# Fixtures with a chain: Anvil's own, or one with our network.
_CHAINS = {"fresh_chain", "network"}
_SERVERS = {"postgresql_server", "new_postgresql_store"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the folders and files of which a quick run would execute no test.

    They would be a quarter of the tests that every worker collects.
    """
    if not is_quick(config) or any(str(collection_path) in arg for arg in config.args):
        return None
    is_slow = collection_path in SLOW_FOLDERS or (
        collection_path.suffix == ".py" and is_slow_module(collection_path.read_text("utf-8"))
    )
    return True if is_slow else None


def is_slow_module(source: str) -> bool:
    """Return whether the marks of a test module make all of its tests slow."""
    marks = _MODULE_MARKS.search(source)
    return marks is not None and (
        "mark.slow" in marks[1] or ("mark.evm" in marks[1] and "mark.main_path" not in source)
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test, before tests are deselected by their marks."""
    folders = {path: _find_slow_folder(path) for path in {item.path for item in items}}
    for item in items:
        if folders[item.path] is not None or needs_a_server(item):
            item.add_marker(pytest.mark.slow)
    if not is_quick(config):
        _mark_nightly(items, folders)


def _mark_nightly(items: list[pytest.Item], folders: Mapping[Path, Path | None]) -> None:
    """Mark the slow tests that CI leaves out."""
    lies = {path for path in folders if _LIES in path.parents}
    faults = [item for item in items if folders[item.path] in FAULTS]
    forms = [
        item
        for item in items
        if folders[item.path] not in FAULTS and item.path not in lies and _is_in_ci(item)
    ]
    chosen = select_representatives(item.nodeid for item in faults)
    chosen |= select_first_forms(item.nodeid for item in forms)
    for item in (*faults, *forms):
        if item.nodeid not in chosen:
            item.add_marker(pytest.mark.nightly)


def needs_a_server(item: pytest.Item) -> bool:
    """Return whether a test needs a chain or PostgreSQL and is not on a main path."""
    needs = {*getattr(item, "fixturenames", ())}
    if item.get_closest_marker("postgres") is not None or needs & _SERVERS:
        return True
    if item.get_closest_marker("main_path") is not None:
        return False
    return item.get_closest_marker("evm") is not None or bool(needs & _CHAINS)


def select_representatives(node_ids: Iterable[str]) -> set[str]:
    """Return the fault tests that CI runs (decision 0160).

    For each critical case, these are the tests named by a mutant, which are known to fail without
    the defence.
    """
    named = list_critical_case_tests()
    return select_first_forms(
        node_id for node_id in node_ids if node_id.partition("[")[0] in named
    )


def select_first_forms(node_ids: Iterable[str]) -> set[str]:
    """Return the first parameter set of each test, on PostgreSQL if the test runs there, too.

    SQLite is what the quick suite and the demo use (decision 0160).
    """
    chosen: dict[str, str] = {}
    for node_id in node_ids:
        test = node_id.partition("[")[0]
        if test not in chosen or ("postgresql" in node_id and "postgresql" not in chosen[test]):
            chosen[test] = node_id
    return set(chosen.values())


def list_critical_case_tests() -> set[str]:
    """Return the tests of critical cases, without parameters, that mutants name."""
    critical = {case.number for case in list_all_cases() if case.severity == "critical"}
    tests = {test.partition("[")[0] for mutant in list_mutants() for test in mutant.tests}
    return {test for test in tests if find_case_number(test) in critical}


def _is_in_ci(item: pytest.Item) -> bool:
    is_slow = item.get_closest_marker("slow") is not None
    return is_slow and item.get_closest_marker("nightly") is None


def _find_slow_folder(path: Path) -> Path | None:
    """Return the slow folder that contains a file, or None."""
    return next((folder for folder in SLOW_FOLDERS if folder in path.parents), None)
