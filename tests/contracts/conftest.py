"""Gives every contract test the chain of tests/support/evm.

And those of the oracle an oracle on it.
"""

from tests.contracts.oracle_fixtures import fresh_oracle, oracle
from tests.support.evm.fixtures import chain, fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_oracle", "oracle"]
