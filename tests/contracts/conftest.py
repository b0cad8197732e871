"""Fixtures: every contract test uses the chain of tests/support/evm."""

from collections.abc import Iterator

import pytest

from tests.support.evm.anvil import run_anvil
from tests.support.evm.chain import Chain
from tests.support.evm.fixtures import chain

__all__ = ["chain"]


@pytest.fixture(scope="module")
def fresh_chain() -> Iterator[Chain]:
    """As tests.support.evm's; and a block comes a second after the last one, whenever it is."""
    with run_anvil() as url:
        opened = Chain(url)
        opened.steady()
        try:
            yield opened
        finally:
            opened.close()
