"""The SQLAlchemy metadata of all tables, with constraint names and column types.

The column types convert between hex text or wei in Python and bytes in the database.
"""

from functools import cached_property
from typing import Any

from sqlalchemy import Column, Dialect, Index, LargeBinary, MetaData, text
from sqlalchemy.types import TypeDecorator
from sqlalchemy.util import PopulateDict
from typing_extensions import override

# Alembic can drop only named constraints. The names are the same on both databases.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class PartialIndex(Index):
    """An index of the rows that satisfy the SQL condition `where`.

    The condition must be valid in both databases. SQLAlchemy imports a dialect as soon as an index
    gets an option of this dialect. Therefore an option is set only when the index is created in a
    database of its dialect, so that a process with SQLite does not import the PostgreSQL dialect.
    """

    def __init__(self, name: str, *columns: Column[Any], where: str, unique: bool = False) -> None:
        super().__init__(name, *columns, unique=unique)
        self.where = where

    @cached_property
    @override
    def dialect_options(self) -> Any:
        options_by_dialect = super().dialect_options

        def load_options(dialect: str) -> object:
            options = options_by_dialect[dialect]
            options["where"] = text(self.where)
            return options

        return PopulateDict(load_options)


_WEI_BYTES = 32


class Hex(TypeDecorator[str]):
    """A column type for `0x` hex in lower case, stored as bytes.

    Addresses, hashes and calldata have this type.
    """

    impl = LargeBinary
    cache_ok = True

    @override
    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else bytes.fromhex(value[2:])

    @override
    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        return None if value is None else "0x" + bytes(value).hex()


class Wei(TypeDecorator[int]):
    """A column type for amounts from 0 to 2^256 - 1, stored as 32 bytes.

    SQLite's numbers would lose digits.
    """

    impl = LargeBinary
    cache_ok = True

    @override
    def process_bind_param(self, value: int | None, dialect: Dialect) -> bytes | None:
        return None if value is None else value.to_bytes(_WEI_BYTES, "big")

    @override
    def process_result_value(self, value: bytes | None, dialect: Dialect) -> int | None:
        return None if value is None else int.from_bytes(value, "big")
