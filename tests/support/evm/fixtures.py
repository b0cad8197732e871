"""Fixtures for tests on a real chain: one Anvil per module, each test on a clean state."""

from collections.abc import Iterator

import pytest

from tests.support.evm.anvil import FREE_BY_HAND, anvil, from_a_minute
from tests.support.evm.chain import Chain


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """A chain of this module, never undone: deploy what all its tests share here."""
    with anvil(*FREE_BY_HAND, *from_a_minute()) as url:
        chain = Chain(url)
        try:
            yield chain
        finally:
            chain.close()


@pytest.fixture
def chain(fresh_chain: Chain) -> Iterator[Chain]:
    """The module's chain; what the test does to it is undone."""
    with fresh_chain.undone():
        yield fresh_chain
