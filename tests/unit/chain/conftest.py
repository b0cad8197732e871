"""Fixtures of the tests in this folder."""

from tests.support.chain.fixtures import reader

__all__ = ["reader"]
