"""Fixtures of the tests in this folder."""

from tests.support.cli.fixtures import offline_settings

__all__ = ["offline_settings"]
