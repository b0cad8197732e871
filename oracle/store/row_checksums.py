"""Compares the rows of all tables before and after a migration, inside its transaction.

State, outbox, reports and signatures are compared by all their values. Tables of raw rows are
large, so only their number of rows is compared; `raw_checksum`, which is compared, covers them.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256

from sqlalchemy import Connection, column, func, inspect, select, table

from oracle.store.tables.chain_tables import block, call
from oracle.store.tables.feed_tables import feed_row
from oracle.store.tables.log_tables import log_block, log_row

_COUNTED_TABLES = {raw_table.name for raw_table in (block, call, feed_row, log_block, log_row)}
_REVISION_TABLE = "alembic_version"
_PAGE_ROWS = 2_000
_CHECKSUM_BITS = 256


def list_compared_columns(
    connection: Connection, rewritten: Collection[str]
) -> dict[str, list[str]]:
    """Return the compared columns of each table, or none if its rows are only counted.

    `rewritten` contains the tables and columns (`TABLE` or `TABLE.COLUMN`) that are left out.
    """
    inspector = inspect(connection)
    return {
        name: []
        if name in _COUNTED_TABLES
        else [
            info["name"]
            for info in inspector.get_columns(name)
            if f"{name}.{info['name']}" not in rewritten
        ]
        for name in inspector.get_table_names()
        if name != _REVISION_TABLE and name not in rewritten
    }


def compute_table_checksums(
    connection: Connection, columns_by_table: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, int]]:
    """Return the number of rows of each table, and the sum of the hashes of its rows.

    The sum does not depend on the order of the rows. It is 0 for a table without columns.
    """
    return {
        name: _compute_table_checksum(connection, name, columns)
        if columns
        else (connection.execute(select(func.count()).select_from(table(name))).scalar_one(), 0)
        for name, columns in columns_by_table.items()
    }


def find_changed_tables(
    connection: Connection,
    columns_by_table: Mapping[str, Sequence[str]],
    checksums: Mapping[str, tuple[int, int]],
) -> list[str]:
    """Return the tables that lost a column, or whose rows differ from the earlier checksums."""
    present_columns = list_compared_columns(connection, ())
    kept_columns = {
        name: columns
        for name, columns in columns_by_table.items()
        if name in present_columns and set(columns) <= set(present_columns[name])
    }
    kept_checksums = compute_table_checksums(connection, kept_columns)
    return sorted(name for name in checksums if kept_checksums.get(name) != checksums[name])


def _compute_table_checksum(
    connection: Connection, name: str, columns: Sequence[str]
) -> tuple[int, int]:
    query = select(table(name, *map(column, columns)))
    row_count, checksum = 0, 0
    for row in connection.execute(query.execution_options(yield_per=_PAGE_ROWS)):
        row_count += 1
        checksum += int.from_bytes(sha256(repr(tuple(row)).encode()).digest(), "big")
    return row_count, checksum % 2**_CHECKSUM_BITS
