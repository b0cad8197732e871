"""Reads and writes many rows of one table in bulk, at driver speed.

Rows are tuples in the order of the table's columns, which SQLite accepts unchanged. On PostgreSQL,
many rows are written by COPY, after the rows that they replace were deleted. Few rows, and rows
that must not replace existing rows, are passed as one array per column. See
docs/explanation/storage.md#bulk-writes.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from enum import Enum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import (
    Connection,
    Dialect,
    Select,
    Table,
    bindparam,
    cast as cast_to,
    delete,
    func,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from psycopg import Connection as Driver
    from psycopg.sql import Composed
    from sqlalchemy.dialects import postgresql

Row = tuple[Any, ...]

# Minimum number of rows for COPY. For fewer rows, it takes longer than INSERT
# (docs/explanation/storage.md#bulk-writes).
_COPY_FROM = 50
# Maximum number of keys per query. With more keys, it takes too long to compile and plan.
KEYS_PER_QUERY = 500
# `%b` passes the keys in binary format. The driver's default for arrays is text format, in which
# every key would be escaped.
_ANY = "ANY(%b)"

_Insert = TypeVar("_Insert", sqlite.Insert, "postgresql.Insert")


class _ConflictPolicy(Enum):
    """The way in which an insert handles a row whose key already exists."""

    FAIL = "fail"
    REPLACE = "replace"
    KEEP = "keep"
    # A stored orphan with the same key becomes canonical again, with the new values.
    REVIVE = "revive"


def insert_rows(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Insert new rows.

    Raises:
        IntegrityError: a row with one of these keys exists already.
    """
    if _should_use_copy(connection, rows):
        _copy_rows(connection, target, rows)
    else:
        _insert_with_conflict_policy(connection, target, rows, _ConflictPolicy.FAIL)


def upsert_rows(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Insert rows, replacing stored rows with the same key; keys in `rows` must be unique."""
    if _should_use_copy(connection, rows) and len(target.primary_key) == 1:
        _delete_rows(connection, target, rows)
        _copy_rows(connection, target, rows)
    else:
        _insert_with_conflict_policy(connection, target, rows, _ConflictPolicy.REPLACE)


def insert_missing_rows(connection: Connection, target: Table, rows: list[Row]) -> int:
    """Insert the rows whose key is not stored yet, and return their number."""
    return _insert_with_conflict_policy(connection, target, rows, _ConflictPolicy.KEEP)


def insert_canonical_rows(connection: Connection, target: Table, rows: list[Row]) -> int:
    """Insert raw rows as canonical, and return how many rows became canonical.

    A stored orphan with the same key is overwritten and becomes canonical. A stored canonical row
    is kept.
    """
    return _insert_with_conflict_policy(connection, target, rows, _ConflictPolicy.REVIVE)


def fetch_rows(connection: Connection, target: Table, keys: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows of a table with these keys.

    The table must have a single key column. The values are as the driver returns them; for
    example, SQLite's booleans are 0 and 1.
    """
    key_list = list(keys)
    dialect = connection.dialect.name
    for offset in range(0, len(key_list), KEYS_PER_QUERY):
        batch = key_list[offset : offset + KEYS_PER_QUERY]
        if dialect == "sqlite":
            key_condition = f"IN ({','.join('?' * len(batch))})"
            parameters: Row = tuple(batch)
        else:
            key_condition = f"= {_ANY}"
            parameters = (batch,)
        result = connection.exec_driver_sql(
            _build_select_sql(dialect, target, key_condition), parameters
        )
        yield from result.all()


@lru_cache(maxsize=4 * KEYS_PER_QUERY)
def _build_select_sql(dialect: str, target: Table, condition: str) -> str:
    (key,) = target.primary_key.columns
    return f"{select(target).compile(dialect=_get_dialect(dialect))} WHERE {key.name} {condition}"


def stream_rows(
    connection: Connection, query: Select[Any], batch_rows: int
) -> Generator[list[Row]]:
    """Yield the rows of a query in batches, never holding all of them in memory.

    Values are those of the driver, as in `fetch_rows`. The caller closes the generator before the
    transaction ends.
    """
    if connection.dialect.name != "sqlite":
        # `yield_per` makes SQLAlchemy use a server-side cursor.
        with connection.execute(query.execution_options(yield_per=batch_rows)) as streamed_result:
            for batch in streamed_result.partitions():
                yield list(map(tuple, batch))
        return
    # Rows are read from the driver. Creating SQLAlchemy rows would add half of the time that
    # SQLite needs to read them.
    with connection.execute(query) as result:
        cursor = result.cursor
        while rows := cursor.fetchmany(batch_rows):
            yield list(rows)


@cache
def _get_dialect(name: str) -> Dialect:
    """Return the dialect that compiles SQL for `exec_driver_sql` with positional parameters."""
    if name == "sqlite":
        return cast("Callable[..., Dialect]", sqlite.dialect)(paramstyle="qmark")
    # Imported here, because SQLite does not need it; see `PartialIndex`.
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return cast("Callable[..., Dialect]", postgresql.dialect)(paramstyle="format")


def _should_use_copy(connection: Connection, rows: list[Row]) -> bool:
    return connection.dialect.name == "postgresql" and len(rows) >= _COPY_FROM


def _delete_rows(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Delete the stored rows with the keys of `rows`, in a table with a single key column."""
    (key,) = target.primary_key.columns
    key_index = target.columns.keys().index(key.name)
    connection.exec_driver_sql(_build_delete_sql(target), ([row[key_index] for row in rows],))


@lru_cache(maxsize=64)
def _build_delete_sql(target: Table) -> str:
    (key,) = target.primary_key.columns
    return (
        f"{delete(target).compile(dialect=_get_dialect('postgresql'))} WHERE {key.name} = {_ANY}"
    )


def _insert_with_conflict_policy(
    connection: Connection, target: Table, rows: list[Row], policy: _ConflictPolicy
) -> int:
    if not rows:
        return 0
    sql_text = _build_insert_sql(connection.dialect.name, target, policy)
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql(sql_text, rows).rowcount
    column_values = tuple(map(list, zip(*rows, strict=True)))
    return connection.exec_driver_sql(sql_text, column_values).rowcount


def _copy_rows(connection: Connection, target: Table, rows: list[Row]) -> None:
    from psycopg import Error, sql  # noqa: PLC0415  most databases are SQLite's

    column_names = sql.SQL(", ").join(map(sql.Identifier, target.columns.keys()))
    # The format is binary, because in text format every byte would take two digits.
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(target.name), column_names
    )
    try:
        _stream_copy(connection, statement, _get_column_types(target), rows)
    except Error as error:
        # The error is wrapped, because `translate_db_error` handles only SQLAlchemy's errors.
        statement_and_error = statement.as_string(), None, error, Error
        raise DBAPIError.instance(*statement_and_error, dialect=connection.dialect) from error


def _stream_copy(
    connection: Connection, copy_statement: "Composed", types: list[str], rows: list[Row]
) -> None:
    from psycopg.types.string import BytesBinaryDumper  # noqa: PLC0415  as in `_copy_rows`

    driver = cast("Driver[Row]", connection.connection.driver_connection)
    with driver.cursor() as cursor:
        # This dumper is faster than the driver's default for BYTEA, which is written in Python.
        cursor.adapters.register_dumper(bytes, BytesBinaryDumper)
        with cursor.copy(copy_statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


@lru_cache(maxsize=64)
def _get_column_types(target: Table) -> list[str]:
    """Return the PostgreSQL type name of each column of a table."""
    dialect = _get_dialect("postgresql")
    return [column.type.compile(dialect).lower() for column in target.columns]


@lru_cache(maxsize=256)
def _build_insert_sql(dialect: str, target: Table, policy: _ConflictPolicy) -> str:
    if dialect == "sqlite":
        return str(
            _apply_conflict_policy(sqlite.insert(target), target, policy).compile(
                dialect=_get_dialect(dialect)
            )
        )
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415  as in `_get_dialect`

    column_names = target.columns.keys()
    arrays = [
        cast_to(bindparam(f"all_{column.name}"), postgresql.ARRAY(column.type))
        for column in target.columns
    ]
    unnested_rows = func.unnest(*arrays).table_valued(*column_names, name="given").render_derived()
    insert = postgresql.insert(target).from_select(column_names, select(*unnested_rows.columns))
    return str(
        _apply_conflict_policy(insert, target, policy).compile(dialect=_get_dialect(dialect))
    )


def _apply_conflict_policy(insert: _Insert, target: Table, policy: _ConflictPolicy) -> _Insert:
    key_columns = list(target.primary_key.columns)
    match policy:
        case _ConflictPolicy.FAIL:
            return insert
        case _ConflictPolicy.KEEP:
            return insert.on_conflict_do_nothing(index_elements=key_columns)
        case _ConflictPolicy.REPLACE | _ConflictPolicy.REVIVE:
            value_columns = [column.name for column in target.columns if not column.primary_key]
            return insert.on_conflict_do_update(
                index_elements=key_columns,
                set_={name: insert.excluded[name] for name in value_columns},
                where=~target.c.canonical if policy is _ConflictPolicy.REVIVE else None,
            )
