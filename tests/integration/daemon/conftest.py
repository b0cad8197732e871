"""What the tests of this folder are given."""

from tests.support.cli.fixtures import config, indexed, network, settings, sound

__all__ = ["config", "indexed", "network", "settings", "sound"]
