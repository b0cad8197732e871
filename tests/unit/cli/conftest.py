"""Fixtures of the tests in this folder."""

from tests.support.cli.fixtures import sound

__all__ = ["sound"]
