"""Fixtures of the tests in this folder."""

from tests.support.txmgr.stores import new_sqlite_store

__all__ = ["new_sqlite_store"]
