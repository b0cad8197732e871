"""Fixtures: a network with a history, and a database that has indexed this history."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.cli.main import run
from tests.support.cli.local_network import LocalNetwork, Settings, run_local_network, write_config


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNetwork]:
    """Yield a chain of about fifty blocks; tests may add blocks, but must not remove any."""
    with run_local_network(tmp_path_factory.mktemp("keys")) as started:
        started.play(6)
        yield started


@pytest.fixture
def settings(network: LocalNetwork, tmp_path: Path) -> Settings:
    """Return the settings of this test's daemon; change them, then `write`."""
    return network.settings(tmp_path)


@pytest.fixture
def config(settings: Settings, tmp_path: Path) -> Path:
    """Return a valid configuration with an empty database."""
    return write_config(settings, tmp_path / "config.toml")


@pytest.fixture(scope="session")
def indexed_config(network: LocalNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configuration whose database has been indexed; tests must only read it."""
    folder = tmp_path_factory.mktemp("indexed")
    path = write_config(network.settings(folder), folder / "config.toml")
    assert run(["run", "--once", "--config", str(path)]) == 0
    return path


SOUND: Settings = {
    "database": {"url": "sqlite:///nowhere.sqlite"},
    "chain": {"id": 1, "endpoints": ["http://127.0.0.1:1"]},
    "network": {"contracts": {"TaskNetwork": "0x" + "1" * 40}},
}


@pytest.fixture
def offline_settings(tmp_path):
    """Return settings without a chain, for faults that are detected before any request."""
    database = {"url": f"sqlite:///{tmp_path / 'oracle.sqlite'}"}
    return {**{name: dict(section) for name, section in SOUND.items()}, "database": database}
