"""Fixtures of the tests in this folder."""

from tests.support.cli.fixtures import config, indexed_config, network, offline_settings, settings

__all__ = ["config", "indexed_config", "network", "offline_settings", "settings"]
