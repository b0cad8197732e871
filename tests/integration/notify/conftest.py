"""Fixtures of the tests in this folder."""

from collections.abc import Iterator

import pytest

from oracle.store.database import Store
from tests.integration.notify.notified_daemon import NotifiedDaemon
from tests.support.receiver import Receiver, run_receiver
from tests.support.txmgr.stores import new_postgresql_store, new_sqlite_store, new_store, store

__all__ = ["new_postgresql_store", "new_sqlite_store", "new_store", "store"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as opened_receiver:
        yield opened_receiver


@pytest.fixture
def notified_daemon(store: Store, receiver: Receiver) -> NotifiedDaemon:
    """Return a daemon at the head of a chain with three nodes,
    which notifies one receiver of everything.
    """
    notified_daemon = NotifiedDaemon(store, receiver)
    notified_daemon.begin()
    return notified_daemon
