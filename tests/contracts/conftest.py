"""Gives every contract test the chain of tests/evm."""

from tests.evm.fixtures import chain, fresh_chain

__all__ = ["chain", "fresh_chain"]
