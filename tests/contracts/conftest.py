"""Gives every contract test the chain of tests/evm, and those of the oracle an oracle on it."""

from tests.contracts.oracle_fixtures import fresh_oracle, oracle
from tests.evm.fixtures import chain, fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_oracle", "oracle"]
