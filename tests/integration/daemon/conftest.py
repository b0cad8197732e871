"""Fixtures of the tests in this folder."""

from tests.support.cli.fixtures import config, indexed, network, settings, sound

__all__ = ["config", "indexed", "network", "settings", "sound"]
