"""Bulk writes and reads: many rows of one table at the speed of the driver.

Rows are tuples in the order of the table's columns. SQLite takes them as they are. PostgreSQL
takes many rows by COPY, after deleting rows of the same key if they are to be replaced; for few
rows, and for rows that may be kept, it takes one array per column. See
docs/explanation/storage.md#bulk-writes.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import (
    Connection,
    Dialect,
    Table,
    bindparam,
    cast as cast_to,
    delete,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from psycopg import Connection as Driver
    from psycopg.sql import Composed

Row = tuple[Any, ...]

# Below this many rows COPY costs more than it saves
# (docs/explanation/storage.md#bulk-writes).
_COPY_FROM = 50
# Keys per query; shorter queries are compiled and planned faster.
KEYS = 500
# Keys are passed as binary: in text format, the driver's default for arrays, each is escaped.
_ANY = "ANY(%b)"

_Insert = TypeVar("_Insert", sqlite.Insert, postgresql.Insert)
# Dialects that compile SQL for `exec_driver_sql` with positional parameters.
_DIALECTS = {
    "sqlite": cast("Callable[..., Dialect]", sqlite.dialect)(paramstyle="qmark"),
    "postgresql": cast("Callable[..., Dialect]", postgresql.dialect)(paramstyle="format"),
}


class _Meeting(Enum):
    """How an insert treats a row whose key exists already."""

    FAIL = "fail"
    REPLACE = "replace"
    KEEP = "keep"
    # An orphan of the same key becomes canonical again, with the new values.
    REVIVE = "revive"


def append(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Insert new rows.

    Raises:
        IntegrityError: a row with one of the keys exists already.
    """
    if _is_copied(connection, rows):
        _copy(connection, target, rows)
    else:
        _merge(connection, target, rows, _Meeting.FAIL)


def upsert(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Insert rows, or replace those of the same key; no key may occur twice."""
    if _is_copied(connection, rows) and len(target.primary_key) == 1:
        _delete(connection, target, rows)
        _copy(connection, target, rows)
    else:
        _merge(connection, target, rows, _Meeting.REPLACE)


def append_missing(connection: Connection, target: Table, rows: list[Row]) -> int:
    """Insert the rows whose key does not exist yet, keep the others; return how many."""
    return _merge(connection, target, rows, _Meeting.KEEP)


def append_canonical(connection: Connection, target: Table, rows: list[Row]) -> int:
    """Insert raw rows; an orphan of the same key becomes canonical, with the new values.

    Return how many rows became canonical.
    """
    return _merge(connection, target, rows, _Meeting.REVIVE)


def fetch(connection: Connection, target: Table, keys: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows whose key, the table's only key column, is among `keys`.

    Values are as the driver returns them: SQLite's booleans are 0 and 1.
    """
    wanted, dialect = list(keys), connection.dialect.name
    for at in range(0, len(wanted), KEYS):
        some = wanted[at : at + KEYS]
        if dialect == "sqlite":
            asked = f"IN ({','.join('?' * len(some))})"
            given: Row = tuple(some)
        else:
            asked, given = f"= {_ANY}", (some,)
        yield from connection.exec_driver_sql(_chosen(dialect, target, asked), given)


@lru_cache(maxsize=4 * KEYS)
def _chosen(dialect: str, target: Table, asked: str) -> str:
    (key,) = target.primary_key.columns
    return f"{select(target).compile(dialect=_DIALECTS[dialect])} WHERE {key.name} {asked}"


def _is_copied(connection: Connection, rows: list[Row]) -> bool:
    return connection.dialect.name == "postgresql" and len(rows) >= _COPY_FROM


def _delete(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Delete the rows with the same keys; the table has one key column."""
    (key,) = target.primary_key.columns
    place = target.columns.keys().index(key.name)
    connection.exec_driver_sql(_deleted(target), ([row[place] for row in rows],))


@lru_cache(maxsize=64)
def _deleted(target: Table) -> str:
    (key,) = target.primary_key.columns
    return f"{delete(target).compile(dialect=_DIALECTS['postgresql'])} WHERE {key.name} = {_ANY}"


def _merge(connection: Connection, target: Table, rows: list[Row], meeting: _Meeting) -> int:
    if not rows:
        return 0
    text = _text(connection.dialect.name, target, meeting)
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql(text, rows).rowcount
    columns = tuple(map(list, zip(*rows, strict=True)))
    return connection.exec_driver_sql(text, columns).rowcount


def _copy(connection: Connection, target: Table, rows: list[Row]) -> None:
    from psycopg import Error, sql  # noqa: PLC0415  most databases are SQLite's

    names = sql.SQL(", ").join(map(sql.Identifier, target.columns.keys()))
    # Binary format: in text format every byte would take two digits.
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        sql.Identifier(target.name), names
    )
    try:
        _send(connection, statement, _types(target), rows)
    except Error as error:
        # Wrapped like the error of any statement: `translate_db_error` handles only SQLAlchemy's
        # errors.
        of_copy = statement.as_string(), None, error, Error
        raise DBAPIError.instance(*of_copy, dialect=connection.dialect) from error


def _send(connection: Connection, copying: "Composed", types: list[str], rows: list[Row]) -> None:
    from psycopg.types.string import BytesBinaryDumper  # noqa: PLC0415  as in `_copy`

    driver = cast("Driver[Row]", connection.connection.driver_connection)
    with driver.cursor() as cursor:
        # By default the driver uses a dumper for BYTEA that is written in Python.
        cursor.adapters.register_dumper(bytes, BytesBinaryDumper)
        with cursor.copy(copying) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)


@lru_cache(maxsize=64)
def _types(target: Table) -> list[str]:
    """Return PostgreSQL's type names of the columns."""
    dialect = _DIALECTS["postgresql"]
    return [each.type.compile(dialect).lower() for each in target.columns]


@lru_cache(maxsize=256)
def _text(dialect: str, target: Table, meeting: _Meeting) -> str:
    if dialect == "sqlite":
        return str(
            _meet(sqlite.insert(target), target, meeting).compile(dialect=_DIALECTS[dialect])
        )
    names = target.columns.keys()
    arrays = [
        cast_to(bindparam(f"all_{each.name}"), postgresql.ARRAY(each.type))
        for each in target.columns
    ]
    given = func.unnest(*arrays).table_valued(*names, name="given").render_derived()
    inserted = postgresql.insert(target).from_select(names, select(*given.columns))
    return str(_meet(inserted, target, meeting).compile(dialect=_DIALECTS[dialect]))


def _meet(insert: _Insert, target: Table, meeting: _Meeting) -> _Insert:
    key = list(target.primary_key.columns)
    match meeting:
        case _Meeting.FAIL:
            return insert
        case _Meeting.KEEP:
            return insert.on_conflict_do_nothing(index_elements=key)
        case _Meeting.REPLACE | _Meeting.REVIVE:
            others = [each.name for each in target.columns if not each.primary_key]
            return insert.on_conflict_do_update(
                index_elements=key,
                set_={name: insert.excluded[name] for name in others},
                where=~target.c.canonical if meeting is _Meeting.REVIVE else None,
            )
