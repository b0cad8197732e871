"""Gives every contract test the chain of tests/support/evm.

And those of the oracle an oracle on it.
"""

from collections.abc import Iterator

import pytest

from tests.contracts.oracle_fixtures import fresh_oracle, oracle
from tests.support.evm.anvil import anvil
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain

__all__ = ["chain", "fresh_oracle", "oracle"]


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """As tests.support.evm's; and a block comes a second after the last one, whenever it is."""
    with anvil() as url:
        opened = Chain(url)
        opened.steady()
        try:
            yield opened
        finally:
            opened.close()
