"""Fixtures for tests on a real chain: one Anvil per module, with a clean state for each test."""

from collections.abc import Iterator

import pytest

from tests.support.evm.anvil import FREE_BY_HAND, build_minute_start_flags, run_anvil
from tests.support.evm.chain import Chain


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """Yield the module's chain, which is never undone; deploy shared contracts here."""
    with run_anvil(*FREE_BY_HAND, *build_minute_start_flags()) as url:
        chain = Chain(url)
        try:
            yield chain
        finally:
            chain.close()


@pytest.fixture
def chain(fresh_chain: Chain) -> Iterator[Chain]:
    """Yield the module's chain, and undo the test's changes afterwards."""
    with fresh_chain.undone():
        yield fresh_chain
