"""Compares the tables of a database with the definitions of this version.

Until the first release, the only migration is edited in place, so its name does not tell which
tables a database has. Therefore the tables themselves are compared.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import CheckConstraint, Connection, Dialect, Table, UniqueConstraint, inspect

from oracle.store.tables.metadata import PartialIndex, metadata

# Both databases keep the texts and numbers of a condition, but not its format.
_LITERAL_PATTERN = re.compile(r"'[^']*'|\b\d+\b")
_SQLITE_CHECK_PATTERN = re.compile(r"CONSTRAINT (\w+) CHECK (.*)")
# SQLAlchemy's inspector takes thirty times as long, because it sends six queries for each table.
_SQLITE_COLUMNS = """
SELECT m.name, c.name, c.type, NOT c."notnull", c.dflt_value, c.pk
FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c WHERE m.type = 'table'
ORDER BY m.name, c.pk
"""
_SQLITE_INDEXES = """
SELECT m.name, i.name, i."unique", coalesce(s.sql, ''),
       (SELECT group_concat(name) FROM pragma_index_info(i.name))
FROM sqlite_master AS m, pragma_index_list(m.name) AS i
LEFT JOIN sqlite_master AS s ON s.type = 'index' AND s.name = i.name WHERE m.type = 'table'
"""


class _TableParts:
    """Describes the parts of a table as texts that are the same for both databases."""

    def __init__(self) -> None:
        self.descriptions: set[str] = set()
        self.required_columns: list[str] = []

    def add_column(
        self, name: str, type_name: object, *, is_nullable: bool, has_default: bool
    ) -> None:
        suffix = f"{'' if is_nullable else ' NOT NULL'}{' DEFAULT' if has_default else ''}"
        self.descriptions.add(f"column {name} {type_name}{suffix}")
        if not is_nullable and not has_default:
            self.required_columns.append(name)

    def add_primary_key(self, columns: Sequence[str]) -> None:
        self.descriptions.add(f"primary key ({', '.join(columns)})")

    def add_index(
        self, name: object, columns: Sequence[str | None], condition: str, *, is_unique: bool
    ) -> None:
        """Add an index, or the unique constraint behind it.

        A unique constraint has no name on SQLite.
        """
        listing = f"({', '.join(map(str, columns))}){_list_literals(condition)}"
        if name is not None:
            self.descriptions.add(f"{'unique ' if is_unique else ''}index {name} {listing}")
        elif is_unique:
            self.descriptions.add(f"unique {listing}")

    def add_check(self, name: object, condition: str) -> None:
        self.descriptions.add(f"check {name}{_list_literals(condition)}")


def _list_literals(condition: str) -> str:
    literals = sorted(set(_LITERAL_PATTERN.findall(condition)))
    return f" with {', '.join(literals)}" if literals else ""


def find_schema_difference(connection: Connection) -> str | None:
    """Return the first difference that makes the tables unusable for this version, if any.

    An additional table, index or optional column is not a difference, because the operator may
    have added it.
    """
    dialect = connection.dialect
    tables = _read_sqlite(connection) if dialect.name == "sqlite" else _read_postgresql(connection)
    for name, table in metadata.tables.items():
        if name not in tables:
            return f"table {name} is missing"
        missing_descriptions = (
            _describe_table(table, dialect).descriptions - tables[name].descriptions
        )
        if missing_descriptions:
            return f"table {name} has no {min(missing_descriptions)}"
        required_extra_columns = set(tables[name].required_columns) - set(table.columns.keys())
        if required_extra_columns:
            return f"table {name} has the additional column {min(required_extra_columns)}"
    return None


def _describe_table(table: Table, dialect: Dialect) -> _TableParts:
    parts = _TableParts()
    for column in table.columns:
        is_serial = dialect.name != "sqlite" and column is table.autoincrement_column
        parts.add_column(
            column.name,
            column.type.compile(dialect),
            is_nullable=bool(column.nullable),
            has_default=column.server_default is not None or is_serial,
        )
    parts.add_primary_key(table.primary_key.columns.keys())
    for index in table.indexes:
        condition = index.where if isinstance(index, PartialIndex) else ""
        parts.add_index(index.name, index.columns.keys(), condition, is_unique=bool(index.unique))
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            parts.add_index(None, constraint.columns.keys(), "", is_unique=True)
        elif isinstance(constraint, CheckConstraint):
            parts.add_check(constraint.name, str(constraint.sqltext))
    return parts


def _read_sqlite(connection: Connection) -> Mapping[str, _TableParts]:
    tables: dict[str, _TableParts] = defaultdict(_TableParts)
    keys: dict[str, list[str]] = defaultdict(list)
    for table, name, type_name, is_nullable, default, key_position in connection.exec_driver_sql(
        _SQLITE_COLUMNS
    ):
        tables[table].add_column(
            name, type_name, is_nullable=is_nullable, has_default=default is not None
        )
        if key_position:
            keys[table].append(name)
    for table, columns in keys.items():
        tables[table].add_primary_key(columns)
    for table, name, is_unique, sql, columns in connection.exec_driver_sql(_SQLITE_INDEXES):
        tables[table].add_index(
            name if sql else None, (columns or "").split(","), sql, is_unique=is_unique
        )
    for table, sql in connection.exec_driver_sql(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
    ):
        for name, condition in _SQLITE_CHECK_PATTERN.findall(sql):
            tables[table].add_check(name, condition)
    return tables


def _read_postgresql(connection: Connection) -> Mapping[str, _TableParts]:
    tables: dict[str, _TableParts] = defaultdict(_TableParts)
    inspector = inspect(connection)
    for (_, table), columns in inspector.get_multi_columns().items():
        for column in columns:
            tables[table].add_column(
                column["name"],
                column["type"],
                is_nullable=column["nullable"],
                has_default=column["default"] is not None,
            )
    for (_, table), key in inspector.get_multi_pk_constraint().items():
        tables[table].add_primary_key(key["constrained_columns"])
    for (_, table), indexes in inspector.get_multi_indexes().items():
        for index in indexes:
            tables[table].add_index(
                None if "duplicates_constraint" in index else index["name"],
                index["column_names"],
                index.get("dialect_options", {}).get("postgresql_where", ""),
                is_unique=index["unique"],
            )
    for (_, table), checks in inspector.get_multi_check_constraints().items():
        for check in checks:
            tables[table].add_check(check["name"], check["sqltext"])
    return tables
