"""Readers that wait for a commit see it, whichever process commits."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Hash
from oracle.store import commit_watch
from oracle.store.database import Store

LONG_SECONDS = 30.0


def commit_block(store: Store) -> None:
    block_hash = Hash(f"0x{1:064x}")
    with store.transaction() as uow:
        uow.blocks.save([BlockRef(1, block_hash, block_hash, 1)])


def roll_back_block(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        raise RuntimeError


def wait_during(store: Store, act: Callable[[], None]) -> tuple[bool, bool]:
    """Return whether a waiting reader saw `act`, and whether it sees a commit afterwards."""
    watch = store.watch_commits()
    while watch.wait(0.05):
        pass
    with ThreadPoolExecutor(1) as reader:
        seen = reader.submit(watch.wait, LONG_SECONDS)
        act()
        return seen.result(LONG_SECONDS / 2), watch.wait(0.05)


def test_own_commit_wakes_reader_once(store: Store):
    assert wait_during(store, lambda: commit_block(store)) == (True, False)


def test_commit_of_another_store_wakes_reader_once(store: Store, database_url: str):
    with Store.open(database_url) as writer:
        assert wait_during(store, lambda: commit_block(writer)) == (True, False)


def test_commit_before_first_wait_wakes_reader(store: Store, database_url: str):
    watch = store.watch_commits()
    with Store.open(database_url) as writer:
        commit_block(writer)
    assert watch.wait(LONG_SECONDS)


def test_commit_between_two_waits_ends_the_second_wait(store: Store, database_url: str):
    watch = store.watch_commits()
    while watch.wait(0.05):
        pass
    with Store.open(database_url) as writer:
        commit_block(writer)
    assert watch.wait(LONG_SECONDS)
    assert not watch.wait(0.05)


def test_rolled_back_transaction_does_not_wake_a_reader(store: Store):
    watch = store.watch_commits()
    while watch.wait(0.05):
        pass
    roll_back_block(store)
    assert not watch.wait(0.2)


@pytest.mark.postgres
def test_watch_listens_again_after_its_connection_was_lost(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(commit_watch, "_REFUSED_WAITS", 2)
    with Store.open(postgresql_url) as store, psycopg.connect(postgresql_url) as connection:
        watch = store.watch_commits()
        while watch.wait(0.05):
            pass
        terminate = (
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        assert connection.execute(terminate).fetchall() == [(True,)]

        # The loss, and two waits without a connection.
        assert [watch.wait(0.01) for _ in range(3)] == [False] * 3
        # Commits until the new connection listens are not notified, so the reader reads once.
        assert watch.wait(0.01)
        commit_block(store)
        assert watch.wait(LONG_SECONDS)


def test_store_closes_while_reader_waits(database_url: str):
    with ThreadPoolExecutor(1) as reader:
        with Store.open(database_url) as store:
            watch = store.watch_commits()
            while watch.wait(0.05):
                pass
            seen = reader.submit(watch.wait, 0.5)
        assert seen.result(LONG_SECONDS) is False
