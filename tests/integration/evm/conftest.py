"""Fixtures of the tests in this folder."""

from pathlib import Path

import pytest

from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain, fresh_chain
from tests.support.evm.indexed_network import IndexedNetwork
from tests.support.txmgr.stores import new_postgresql_store, new_sqlite_store, new_store, store

__all__ = [
    "chain",
    "fresh_chain",
    "new_postgresql_store",
    "new_sqlite_store",
    "new_store",
    "store",
]


@pytest.fixture
def indexed_network(
    chain: Chain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> IndexedNetwork:
    """Return the reference network and a daemon that indexes it."""
    return IndexedNetwork(chain, tmp_path, capsys)
