"""Fixtures of the tests in this folder."""

from tests.support.chain.fixtures import open_source, reader, serve, served
from tests.support.txmgr.stores import new_postgresql_store, new_sqlite_store, new_store, store

__all__ = [
    "new_postgresql_store",
    "new_sqlite_store",
    "new_store",
    "open_source",
    "reader",
    "serve",
    "served",
    "store",
]
