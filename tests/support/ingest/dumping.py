"""Dumps a complete database as text, so that two databases can be compared byte for byte."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from sqlalchemy import Column, Select, Table, create_engine, false, select

from oracle.store.bookmarks import UNDO_FLOOR
from oracle.store.engine import parse_database_url
from oracle.store.tables.chain_tables import bookmark
from oracle.store.tables.log_tables import log_orphan
from oracle.store.tables.metadata import metadata

# The current lease and its end.
_LOCAL_TABLES = {"lease", "endpoint_fact"}
# Tables with the progress of interrupted commands.
_BOOKMARKS = (UNDO_FLOOR, "reports_complete_from")
# The number of cursor moves depends on the windows, and PostgreSQL does not reuse a number, even
# if its transaction was rolled back.
_LOCAL_COLUMNS = {("cursor", "epoch"), ("reorg_log", "id"), ("halt", "id")}


def dump_database_rows(
    url: str, *, orphans: bool = True, without: Collection[str] = ()
) -> list[str]:
    """Return every row of every table, one per line, in the order of the keys.

    The result omits the lease, the progress of commands, learned limits, the number of cursor
    moves, and counted ids. `orphans` = False also omits rows of blocks that left the chain;
    `without` names tables to omit.
    """
    engine = create_engine(parse_database_url(url))
    try:
        with engine.connect() as connection:
            return [
                f"{table.name} {_format_row(row)}"
                for table in _iter_tables()
                if table.name not in without
                for row in connection.execute(_select_rows(table, orphans=orphans))
            ]
    finally:
        engine.dispose()


def _iter_tables() -> Iterator[Table]:
    yield from sorted(
        (table for table in metadata.tables.values() if table.name not in _LOCAL_TABLES),
        key=lambda table: table.name,
    )


def _select_rows(table: Table, *, orphans: bool) -> Select[Any]:
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


def _format_row(row: Any) -> str:
    return msgspec.json.encode(
        [bytes(value).hex() if isinstance(value, bytes) else value for value in row]
    ).decode()
