"""The bulk paths: many rows of one table at the speed of the driver.

Rows are tuples in the order of the table's columns. SQLite takes them as they are; PostgreSQL by
COPY, through a temporary table where rows may be there already.
See docs/explanation/storage.md#bulk-writes.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import Connection, Dialect, Table, column, select, table
from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from psycopg import Connection as Driver

Row = tuple[Any, ...]

# Below this many rows COPY's round trips cost more than they save
# (docs/explanation/storage.md#bulk-writes).
_COPY_FROM = 50
# Keys in one question; short ones are compiled and planned faster.
KEYS = 500

_Insert = TypeVar("_Insert", sqlite.Insert, postgresql.Insert)
# SQL text for `exec_driver_sql` with tuples: places instead of names.
_DIALECTS = {
    "sqlite": cast("Callable[..., Dialect]", sqlite.dialect)(paramstyle="qmark"),
    "postgresql": cast("Callable[..., Dialect]", postgresql.dialect)(paramstyle="format"),
}


class _Meeting(Enum):
    """What becomes of a row whose key is there already."""

    FAIL = "fail"
    REPLACE = "replace"
    KEEP = "keep"
    # An orphan of the same key becomes canonical again, as it is said now.
    REVIVE = "revive"


def append(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Insert rows that are not there.

    Raises:
        IntegrityError: one is there.
    """
    if not rows:
        return
    if _is_small(connection, rows):
        connection.exec_driver_sql(_text(connection.dialect.name, target, _Meeting.FAIL), rows)
    else:
        _copy(_driver(connection), target.name, target, rows)


def upsert(connection: Connection, target: Table, rows: list[Row]) -> None:
    """Insert rows, or replace those of the same key; no key twice."""
    _merge(connection, target, rows, _Meeting.REPLACE)


def append_missing(connection: Connection, target: Table, rows: list[Row]) -> int:
    """Insert the rows whose key is not there, leave the others alone; return how many."""
    return _merge(connection, target, rows, _Meeting.KEEP)


def append_canonical(connection: Connection, target: Table, rows: list[Row]) -> int:
    """Insert raw rows; one that is there as an orphan becomes canonical again, as said now.

    Returns how many became canonical by it.
    """
    return _merge(connection, target, rows, _Meeting.REVIVE)


def fetch(connection: Connection, target: Table, keys: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows whose key, the table's only key column, is among `keys`."""
    wanted = list(keys)
    (key,) = target.primary_key.columns
    for at in range(0, len(wanted), KEYS):
        question = select(target).where(key.in_(wanted[at : at + KEYS]))
        yield from connection.execute(question)


def _merge(connection: Connection, target: Table, rows: list[Row], meeting: _Meeting) -> int:
    if not rows:
        return 0
    if _is_small(connection, rows):
        text = _text(connection.dialect.name, target, meeting)
        return connection.exec_driver_sql(text, rows).rowcount
    from psycopg import sql  # noqa: PLC0415  most databases are SQLite's

    driver = _driver(connection)
    stage = f"stage_{target.name}"
    names = {"stage": sql.Identifier(stage), "target": sql.Identifier(target.name)}
    driver.execute(
        sql.SQL(
            "CREATE TEMP TABLE IF NOT EXISTS {stage} (LIKE {target}) ON COMMIT DELETE ROWS"
        ).format(**names)
    )
    _copy(driver, stage, target, rows)
    columns = target.columns.keys()
    staged = select(*table(stage, *map(column, columns)).columns)
    merging = postgresql.insert(target).from_select(columns, staged)
    counted = _meet(merging, target, meeting).execution_options(preserve_rowcount=True)
    merged = connection.execute(counted).rowcount
    driver.execute(sql.SQL("TRUNCATE {stage}").format(**names))
    return merged


def _copy(driver: "Driver[Row]", into: str, target: Table, rows: list[Row]) -> None:
    from psycopg import sql  # noqa: PLC0415  as above

    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(into), sql.SQL(", ").join(map(sql.Identifier, target.columns.keys()))
    )
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _is_small(connection: Connection, rows: list[Row]) -> bool:
    """Whether the driver's own `executemany` is the fastest way."""
    return connection.dialect.name == "sqlite" or len(rows) < _COPY_FROM


def _driver(connection: Connection) -> "Driver[Row]":
    return cast("Driver[Row]", connection.connection.driver_connection)


@lru_cache(maxsize=256)
def _text(dialect: str, target: Table, meeting: _Meeting) -> str:
    if dialect == "sqlite":
        return str(
            _meet(sqlite.insert(target), target, meeting).compile(dialect=_DIALECTS[dialect])
        )
    merging = _meet(postgresql.insert(target), target, meeting)
    return str(merging.compile(dialect=_DIALECTS[dialect]))


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
