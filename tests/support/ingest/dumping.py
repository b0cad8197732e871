"""The whole database as text, to compare two of them byte for byte."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from sqlalchemy import Column, Select, Table, create_engine, false, select

from oracle.store.bookmarks import UNDO_FLOOR
from oracle.store.engine import parse_database_url
from oracle.store.tables.chain_tables import bookmark
from oracle.store.tables.log_tables import log_orphan
from oracle.store.tables.metadata import metadata

# Who writes at present, and for how long.
_LOCAL_TABLES = {"lease", "endpoint_fact"}
# The others say what an interrupted command had come to.
_BOOKMARKS = (UNDO_FLOOR, "reports_complete_from")
# How often the cursor was moved is a matter of how the windows fell; and PostgreSQL gives no
# number twice, also where the transaction that took it was lost.
_LOCAL_COLUMNS = {("cursor", "epoch"), ("reorg_log", "id"), ("halt", "id")}


def dump(url: str, *, orphans: bool = True, without: Collection[str] = ()) -> list[str]:
    """Return every row of every table, a line each, in order of their keys.

    Not in it: the lease, how far commands have come, what was learned of endpoints, the number of
    the cursor's moves, numbers that are counted up. `orphans` False leaves out what belongs to
    blocks that left the chain; `without` whole tables.
    """
    engine = create_engine(parse_database_url(url))
    try:
        with engine.connect() as connection:
            return [
                f"{table.name} {_text(row)}"
                for table in _tables()
                if table.name not in without
                for row in connection.execute(_rows(table, orphans=orphans))
            ]
    finally:
        engine.dispose()


def _tables() -> Iterator[Table]:
    yield from sorted(
        (table for table in metadata.tables.values() if table.name not in _LOCAL_TABLES),
        key=lambda table: table.name,
    )


def _rows(table: Table, *, orphans: bool) -> Select[Any]:
    columns: list[Column[Any]] = [
        column for column in table.columns if (table.name, column.name) not in _LOCAL_COLUMNS
    ]
    rows = select(*columns).order_by(*table.primary_key.columns)
    if table is bookmark:
        rows = rows.where(bookmark.c.name.in_(_BOOKMARKS))
    if orphans:
        return rows
    if table is log_orphan:
        return rows.where(false())
    return rows.where(table.c.canonical) if "canonical" in table.c else rows


def _text(row: Any) -> str:
    return msgspec.json.encode(
        [bytes(value).hex() if isinstance(value, bytes) else value for value in row]
    ).decode()
