"""What the tests of this folder are given."""

from tests.support.txmgr.stores import new_sqlite_store

__all__ = ["new_sqlite_store"]
