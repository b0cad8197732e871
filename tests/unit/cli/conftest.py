"""What the tests of this folder are given."""

from tests.support.cli.fixtures import sound

__all__ = ["sound"]
