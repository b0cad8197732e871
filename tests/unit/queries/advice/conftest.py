"""What the tests of this folder are given."""

from tests.support.txmgr.stores import new_postgresql_store, new_sqlite_store, new_store, store

__all__ = ["new_postgresql_store", "new_sqlite_store", "new_store", "store"]
