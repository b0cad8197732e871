"""Faults of a database during a test: read-only, full, or failing inserts."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from oracle.store.database import Store

_A_PAGE = 4096


@contextmanager
def make_read_only(store: Store) -> Iterator[None]:
    """Make every transaction that writes fail with the engine's own read-only error."""

    def begin(connection: Any) -> None:
        is_sqlite = connection.dialect.name == "sqlite"
        connection.exec_driver_sql(
            "PRAGMA query_only = ON" if is_sqlite else "SET TRANSACTION READ ONLY"
        )

    def end(connection: Any) -> None:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = OFF")

    event.listen(store._write_engine, "begin", begin)
    event.listen(store._write_engine, "rollback", end)
    try:
        yield
    finally:
        event.remove(store._write_engine, "begin", begin)
        event.remove(store._write_engine, "rollback", end)


@contextmanager
def limit_wal_file(store: Store) -> Iterator[None]:
    """Allow SQLite's empty WAL file no further page."""
    connection = store._write_engine.raw_connection()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_A_PAGE, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def reject_inserts(store: Store, table: str, code: str) -> Iterator[None]:
    """Make PostgreSQL reject every insert into the table with this SQLSTATE."""
    body = f"BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '{code}'; END"
    with store.transaction() as uow:
        run = uow.lease._connection.exec_driver_sql
        run(f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
        run(f"CREATE TRIGGER fail BEFORE INSERT ON {table} EXECUTE FUNCTION fail()")
    try:
        yield
    finally:
        with store.transaction() as uow:
            uow.lease._connection.exec_driver_sql("DROP FUNCTION fail CASCADE")
