"""Fixtures: a testbed built once per module, and a harness on a new database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.store.database import Store
from tests.support.evm.anvil import FREE_BY_HAND, build_minute_start_flags, run_anvil
from tests.support.evm.chain import Chain
from tests.support.harness import Harness, OracleTestbed


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """Yield a chain whose `finalized` block is two below the head; Anvil's default is 64."""
    flags = ("--slots-in-an-epoch", "1", *build_minute_start_flags())
    with run_anvil(*FREE_BY_HAND, *flags) as url:
        chain = Chain(url)
        try:
            yield chain
        finally:
            chain.close()


@pytest.fixture(scope="module")
def fresh_testbed(fresh_chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> OracleTestbed:
    return OracleTestbed.built(fresh_chain, tmp_path_factory.mktemp("keys"))


@pytest.fixture
def testbed(fresh_testbed: OracleTestbed, chain: Chain) -> OracleTestbed:
    """Return the module's testbed; the test's changes of the chain are undone."""
    return advance_one_second(fresh_testbed)


def advance_one_second(built: OracleTestbed) -> OracleTestbed:
    """Set the chain's clock to one second after the testbed was built."""
    built.chain.later(1)
    built.chain.mine()
    return built


@pytest.fixture
def harness(testbed: OracleTestbed, store: Store, tmp_path: Path) -> Iterator[Harness]:
    opened = Harness(testbed, store, tmp_path / "evidence")
    yield opened
    opened.close()


@pytest.fixture
def sqlite_harness(testbed: OracleTestbed, sqlite_url: str, tmp_path: Path) -> Iterator[Harness]:
    """Yield a harness on SQLite only, for tests that do not depend on the engine."""
    with Store.open(sqlite_url) as opened:
        harness = Harness(testbed, opened, tmp_path / "evidence")
        yield harness
        harness.close()
