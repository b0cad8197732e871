"""What the tests of this folder are given."""

from collections.abc import Iterator

import pytest

from oracle.store.database import Store
from tests.integration.notify.notified_daemon import NotifiedDaemon
from tests.support.receiver import Receiver, receiving
from tests.support.txmgr.stores import new_postgresql_store, new_sqlite_store, new_store, store

__all__ = ["new_postgresql_store", "new_sqlite_store", "new_store", "store"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as opened_receiver:
        yield opened_receiver


@pytest.fixture
def notified_daemon(store: Store, receiver: Receiver) -> NotifiedDaemon:
    """A daemon at the head of a chain with three nodes, which tells one receiver of everything."""
    notified_daemon = NotifiedDaemon(store, receiver)
    notified_daemon.begin()
    return notified_daemon
