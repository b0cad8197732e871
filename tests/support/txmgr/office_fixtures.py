"""Fixtures: premises built once per module, and an office on a new database for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.store.database import Store
from tests.support.evm.anvil import FREE_BY_HAND, build_minute_start_flags, run_anvil
from tests.support.evm.chain import Chain
from tests.support.office import Office, Premises


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
def fresh_premises(fresh_chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> Premises:
    return Premises.built(fresh_chain, tmp_path_factory.mktemp("keys"))


@pytest.fixture
def premises(fresh_premises: Premises, chain: Chain) -> Premises:
    """Undo what the test does to the chain."""
    return just_after(fresh_premises)


def just_after(built: Premises) -> Premises:
    """Set the chain's clock to one second after the premises were built."""
    built.chain.later(1)
    built.chain.mine()
    return built


@pytest.fixture
def office(premises: Premises, store: Store, tmp_path: Path) -> Iterator[Office]:
    opened = Office(premises, store, tmp_path / "evidence")
    yield opened
    opened.close()


@pytest.fixture
def sqlite_office(premises: Premises, sqlite_url: str, tmp_path: Path) -> Iterator[Office]:
    """Yield an office on SQLite only, for tests that do not depend on the engine."""
    with Store.open(sqlite_url) as opened:
        office = Office(premises, opened, tmp_path / "evidence")
        yield office
        office.close()
