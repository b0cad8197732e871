"""Fixtures of slow tests: three daemons as processes, on Anvil with the real contracts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.reporters.reporter_group import ReporterGroup, reporter_group
from tests.support.cli.local_network import LocalNetwork, run_local_network

_HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder; the hook receives all tests."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.evm)
            # Each of their waits has a timeout.
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    """Yield a chain for one test, with three waves of tasks."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(3)
        yield started


@pytest.fixture
def three(
    network: LocalNetwork, tmp_path: Path, empty_postgresql_url: str
) -> Iterator[ReporterGroup]:
    """Yield reporters a and c on SQLite and b on PostgreSQL; a sends first, b second, c last."""
    with reporter_group(network, tmp_path, ["", empty_postgresql_url, ""]) as opened:
        yield opened
