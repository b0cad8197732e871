"""Reads the content of a database by separate SQL, without `oracle`."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.faults.lies.expected import CALL, LOG, Content, Row

_NODE = ("membership", "paused", "running", "pool", "base", "since", "pending")
_TASK = ("node", "started_time", "stopped_time", "ending", "fee", "creator")


def read_database_content(database: Path) -> Content:
    """Return a database's content for canonical blocks; it is empty if there are no tables."""
    content = Content()
    with closing(sqlite3.connect(database)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if "log" not in tables:
            return content
        content.log = _read_rows(connection, "log", LOG, "canonical", "block, log_index")
        content.call = _read_rows(connection, "call", CALL, "canonical", "block, tx_index")
        content.nodes = _read_rows_by_key(connection, "node", "address", _NODE)
        content.tasks = _read_rows_by_key(connection, "task", "key", _TASK)
        content.scores = sorted(
            _read_rows(connection, "score", ("task", "node", "score"), "1", "1")
        )
    return content


def _read_rows(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], where: str, order: str
) -> list[Row]:
    names = ", ".join(columns)
    query = f"SELECT {names} FROM {table} WHERE {where} ORDER BY {order}"  # noqa: S608 - our own names
    return [tuple(map(_to_plain_value, row)) for row in connection.execute(query)]


def _read_rows_by_key(
    connection: sqlite3.Connection, table: str, key: str, columns: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    rows = _read_rows(connection, table, (key, *columns), "1", "1")
    return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows}


def _to_plain_value(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value
