"""Premises built once a module; an office on a fresh database for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.store.database import Store
from tests.support.evm.anvil import FREE_BY_HAND, anvil, from_a_minute
from tests.support.evm.chain import Chain
from tests.support.office import Office, Premises


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """As tests.support.evm's, but the `finalized` block is two below the head, not sixty-four."""
    flags = ("--slots-in-an-epoch", "1", *from_a_minute())
    with anvil(*FREE_BY_HAND, *flags) as url:
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
    """What the test does to the chain is undone."""
    return just_after(fresh_premises)


def just_after(built: Premises) -> Premises:
    """Let the chain's clock go on a second after all was built, however long ago that is."""
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
    """On SQLite alone: for what the engine cannot matter to."""
    with Store.open(sqlite_url) as opened:
        office = Office(premises, opened, tmp_path / "evidence")
        yield office
        office.close()
