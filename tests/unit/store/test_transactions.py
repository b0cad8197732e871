"""Transactions are atomic; there is one writer, and readers are not blocked."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import psycopg
import pytest

from oracle.errors import OracleError, TransientError
from oracle.store.database import Store, UnitOfWork
from tests.unit.store.samples import block, log, node


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writers wait for each other for a tenth of a second."""
    monkeypatch.setattr("oracle.store.engine.BUSY_SECONDS", 0.1)


@pytest.fixture
def two_stores(impatient: None, database_url: str) -> Iterator[tuple[Store, Store]]:
    """Open two stores on one database, as two processes do."""
    with Store.open(database_url) as first_store, Store.open(database_url) as second_store:
        yield first_store, second_store


def test_committed_rows_are_readable(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(1)])
    with store.read_transaction() as uow:
        assert uow.nodes.get_many([node(1).address]) == {node(1).address: node(1)}


def test_exception_rolls_back_transaction(store: Store):
    def write_and_fail(uow: UnitOfWork) -> None:
        uow.nodes.save([node(1)])
        uow.logs.append([log(1)])
        raise LookupError

    with pytest.raises(LookupError), store.transaction() as uow:
        write_and_fail(uow)
    with store.read_transaction() as uow:
        assert list(uow.nodes.iterate_all()) == []
        assert uow.logs.count() == 0


def test_reader_sees_last_commit_during_write(two_stores: tuple[Store, Store]):
    writer, reader = two_stores
    with writer.transaction() as uow:
        uow.nodes.save([node(1)])
    with writer.transaction() as uow:
        uow.nodes.save([node(1, pool_sum=9), node(2)])
        with reader.read_transaction() as reader_uow, writer.read_transaction() as same:
            assert (
                list(reader_uow.nodes.iterate_all()) == list(same.nodes.iterate_all()) == [node(1)]
            )


def test_reader_keeps_its_snapshot(two_stores: tuple[Store, Store]):
    writer, reader = two_stores
    with reader.read_transaction() as before:
        assert before.cursor.get() is None
        with writer.transaction() as uow:
            uow.cursor.move_to(block(1), None, 0)
        assert before.cursor.get() is None
    with reader.read_transaction() as after:
        assert after.cursor.get() is not None


def test_second_writer_gets_transient_error(two_stores: tuple[Store, Store]):
    first_store, second_store = two_stores
    with first_store.transaction() as uow:
        uow.nodes.save([node(1)])
        with (
            pytest.raises(TransientError, match="is writing to the database"),
            second_store.transaction(),
        ):
            pytest.fail("two writers at once")
    with second_store.transaction() as uow:
        uow.nodes.save([node(2)])
    with first_store.read_transaction() as uow:
        assert [row.address for row in uow.nodes.iterate_all()] == [
            node(1).address,
            node(2).address,
        ]


def test_second_writer_waits_for_short_transaction(database_url: str):
    with Store.open(database_url) as first_store, Store.open(database_url) as second_store:
        with first_store.transaction() as uow:
            uow.nodes.save([node(1)])
            waiting = Thread(target=_save_second_node, args=(second_store,))
            waiting.start()
        waiting.join()
        with first_store.read_transaction() as uow:
            assert len(list(uow.nodes.iterate_all())) == 2


def _save_second_node(store: Store) -> None:
    with store.transaction() as uow:
        uow.nodes.save([node(2)])


def test_many_threads_read_during_write(store: Store):
    with store.transaction() as uow:
        uow.nodes.save([node(1, scored=0)])
    with ThreadPoolExecutor(6) as readers, store.transaction() as uow:
        uow.nodes.save([node(1, scored=1)])
        score_counts = list(readers.map(_scored_of_node, [store] * 60))
    assert score_counts == [0] * 60
    assert _scored_of_node(store) == 1


def _scored_of_node(store: Store) -> int:
    with store.read_transaction() as uow:
        return uow.nodes.get_many([node(1).address])[node(1).address].scored


def test_reading_session_cannot_write(store: Store):
    with pytest.raises(OracleError, match="read-only"), store.read_transaction() as uow:
        uow.nodes.save([node(1)])
    with store.read_transaction() as uow:
        assert list(uow.nodes.iterate_all()) == []


@pytest.mark.postgres
def test_lost_connection_raises_transient_error(postgresql_url: str):
    with Store.open(postgresql_url) as store:
        with pytest.raises(TransientError), store.transaction() as uow:
            _write_while_dropped(uow, postgresql_url)
        with store.transaction() as uow:
            assert list(uow.nodes.iterate_all()) == []
            uow.nodes.save([node(3)])


def _write_while_dropped(uow: UnitOfWork, url: str) -> None:
    uow.nodes.save([node(1)])
    _drop_connections(url)
    uow.nodes.save([node(2)])


@pytest.mark.postgres
def test_connection_lost_before_commit_raises_transient_error(postgresql_url: str):
    with Store.open(postgresql_url) as store:
        with pytest.raises(TransientError), store.transaction() as uow:
            _write_then_drop(uow, postgresql_url)
        with store.read_transaction() as uow:
            assert list(uow.nodes.iterate_all()) == []


def _write_then_drop(uow: UnitOfWork, url: str) -> None:
    uow.nodes.save([node(1)])
    _drop_connections(url)


def _drop_connections(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_sqlite_uses_full_synchronous_wal(sqlite_url: str):
    with Store.open(sqlite_url) as store, store.transaction() as uow:
        settings = uow.nodes._connection.exec_driver_sql
        assert settings("PRAGMA synchronous").scalar() == 2
        assert settings("PRAGMA journal_mode").scalar() == "wal"


@pytest.mark.slow
@pytest.mark.nightly
def test_write_ahead_log_size_is_bounded(sqlite_url: str):
    wal = Path(sqlite_url.removeprefix("sqlite:///") + "-wal")
    longest = 0
    with Store.open(sqlite_url) as store:
        for number in range(40):
            with store.transaction() as uow:
                uow.logs.append([log(number, n, data="0x" + "ab" * 2000) for n in range(500)])
            longest = max(longest, wal.stat().st_size)
            with store.read_transaction() as uow:
                assert uow.logs.find_highest_block() == number
    assert longest < 24 * 1024 * 1024


def test_locked_file_raises_transient_error(impatient: None, sqlite_url: str):
    with Store.open(sqlite_url) as store:
        holder = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with (
            pytest.raises(TransientError, match="another process is writing to the database"),
            store.transaction(),
        ):
            pytest.fail("wrote into a locked file")
        holder.close()
        with store.transaction() as uow:
            uow.bookmarks.set("free", "again")
