"""Acquiring the lease while its holder hangs: the waiting process names the holder."""

from collections.abc import Callable
from typing import Any, cast

import psycopg
import pytest

from oracle.daemon import lease_keeper
from oracle.daemon.lease_keeper import acquire_lease, try_acquire_lease
from oracle.errors import TransientError
from oracle.store import engine
from oracle.store.database import Store

Stall = Callable[[psycopg.Connection[Any], Callable[[], None]], None]
# Polls of a server that may be slow to notice the waiting process.
PATIENCE = 400


def test_lease_error_names_holder_blocked_in_write(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    with Store.open(database_url) as old, Store.open(database_url) as new:
        with old.transaction() as uow:
            assert uow.lease.acquire("the old one", -1) == 1
        with old.transaction() as uow:
            uow.lease.verify_lease_by_write(1)
            with pytest.raises(
                TransientError, match=r"lease of the old one has expired; .* kill it"
            ):
                try_acquire_lease(new, "new")
        assert acquire_lease(new, "new") == 2


def copying(driver: psycopg.Connection[Any], stalled: Callable[[], None]) -> None:
    with driver.cursor() as cursor, cursor.copy("COPY cursor FROM STDIN"):
        stalled()


def half_a_batch(driver: psycopg.Connection[Any], stalled: Callable[[], None]) -> None:
    with driver.pipeline(), driver.cursor() as cursor:
        cursor.execute("SELECT 1")
        driver.pgconn.send_flush_request()
        driver.pgconn.flush()
        stalled()


def unread(driver: psycopg.Connection[Any], stalled: Callable[[], None]) -> None:
    driver.pgconn.send_query(b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)")
    driver.pgconn.flush()
    stalled()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("stall", [copying, half_a_batch, unread])
def test_standby_takes_over_from_holder_stalled_in_sql(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch, stall: Stall
):
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    url = postgresql_url
    with Store.open(url) as old, Store.open(url) as new:
        with old.transaction() as uow:
            assert uow.lease.acquire("the old one", -1) == 1

        def taken_over() -> None:
            # A short stall is not reported...
            with pytest.raises(TransientError, match="kill it"):
                try_acquire_lease(new, "new")
            # ...but one of a lease's length is.
            monkeypatch.setattr(lease_keeper, "STALLED_SECONDS", 0)
            for _ in range(PATIENCE):
                with pytest.raises(TransientError) as caught:
                    try_acquire_lease(new, "new")
                if "stalled for 0 s was terminated" in str(caught.value):
                    break
            assert acquire_lease(new, "new") == 2

        def stalling() -> None:
            with old.transaction() as uow:
                uow.lease.verify_lease_by_write(1)
                driver = uow.lease._connection.connection.driver_connection
                stall(cast("psycopg.Connection[Any]", driver), taken_over)
                uow.lease.verify_lease_by_write(1)

        with pytest.raises((TransientError, psycopg.OperationalError)):
            stalling()
        with old.read_transaction() as uow:
            assert uow.lease.get_state().epoch == 2


@pytest.mark.slow
@pytest.mark.postgres
def test_server_terminates_lease_holder_idle_in_transaction(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.05)
    with Store.open(postgresql_url) as old, Store.open(postgresql_url) as new:
        assert acquire_lease(old, "the old one") == 1
        monkeypatch.setattr(engine, "STALLED_SECONDS", 0.2)

        def stalling() -> None:
            with old.transaction() as uow:
                uow.lease.verify_lease_by_write(1)
                assert any(may_write(new) for _ in range(PATIENCE))

        with pytest.raises(TransientError, match="idle-in-transaction"):
            stalling()


def may_write(store: Store) -> bool:
    try:
        with store.transaction() as uow:
            uow.lease.verify_lease_by_write(1)
    except TransientError:
        return False
    return True
