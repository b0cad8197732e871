"""What the tests of this folder are given."""

from tests.support.chain.fixtures import reader

__all__ = ["reader"]
