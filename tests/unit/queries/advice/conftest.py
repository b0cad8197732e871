"""Fixtures of the tests in this folder."""

from tests.support.txmgr.stores import new_postgresql_store, new_sqlite_store, new_store, store

__all__ = ["new_postgresql_store", "new_sqlite_store", "new_store", "store"]
