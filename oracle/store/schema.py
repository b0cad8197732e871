"""Schema version of a database, and its upgrade to this version (Alembic)."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.engine import URL

from oracle.errors import InputError
from oracle.resources import shipped
from oracle.store.db_errors import shown, translated
from oracle.store.engine import is_missing_file, parsed, reading_engine, writing_engine
from oracle.store.tables.metadata import metadata

# The newest file in migrations/versions, as a test verifies. Kept here because Alembic is slow to
# import and only `migrate` needs it.
REVISION = "0001_initial"
# Revisions are four digits and a name. The five from before the first release had only the number,
# and cannot be upgraded to the migration that replaced them.
_OURS, _UNRELEASED = re.compile(r"\d{4}_[a-z0-9_]+"), re.compile(r"\d{4}")


class SchemaAge(StrEnum):
    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"
    # From before the first release; cannot be upgraded.
    UNRELEASED = "unreleased"
    # Tables, but of another program.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema revision of the database and the expected one."""

    age: SchemaAge
    found: str | None
    wanted: str


def schema_state(url: str) -> SchemaState:
    """Inspect the schema without changing the database; a missing file is EMPTY.

    Raises:
        InputError: the database cannot be read.
        TransientError: the server does not respond; passes once it is started.
    """
    address = parsed(url)
    if is_missing_file(address):
        return _state([], None)
    with _transaction(reading_engine(address), address) as connection:
        return _state_of(connection)


def migrate(url: str) -> SchemaState:
    """Upgrade the schema to the expected revision in one transaction; return the previous state.

    Raises:
        InputError: the database is unreachable or unwritable, newer than the code, older than the
            first release, or of another program.
        TransientError: another process is writing to it.
    """
    address = parsed(url)
    with _transaction(writing_engine(address), address) as connection:
        before = _state_of(connection)
        _refuse(before, address, _NO_WAY_UP)
        if before.age is not SchemaAge.CURRENT:
            _upgrade(connection)
        return before


def check_schema(url: str, *, create: bool) -> None:
    """Reject a database with another schema; `create` sets up an empty one.

    Raises:
        InputError: the database is unreachable or unreadable, or has another schema.
    """
    state = schema_state(url)
    if create and state.age is SchemaAge.EMPTY:
        migrate(url)
        return
    _refuse(state, parsed(url), tuple(age for age in SchemaAge if age is not SchemaAge.CURRENT))


_NO_WAY_UP = (SchemaAge.NEWER, SchemaAge.UNRELEASED, SchemaAge.FOREIGN)


def _refuse(state: SchemaState, address: URL, ages: tuple[SchemaAge, ...]) -> None:
    if state.age not in ages:
        return
    complaint = {
        SchemaAge.EMPTY: "has no tables yet; run `qos-oracle migrate`",
        SchemaAge.OLDER: f"is older than the program (revision {state.found}, wanted "
        f"{state.wanted}); run `qos-oracle migrate`",
        SchemaAge.NEWER: f"is newer than the program (revision {state.found}, known "
        f"{state.wanted}); install the newer qos-oracle",
        SchemaAge.UNRELEASED: f"is of before the first release (revision {state.found}) and "
        "cannot be brought up; name an empty one in [database] url, which the daemon fills "
        "from the chain, and where keys have sent or signed, run "
        "`qos-oracle outbox rebuild --from-chain`",
        SchemaAge.FOREIGN: "holds the tables of another program; name an empty one",
        SchemaAge.CURRENT: "is up to date",
    }[state.age]
    raise InputError(f"{shown(address)} {complaint}")


def _state_of(connection: Connection) -> SchemaState:
    tables = inspect(connection).get_table_names()
    if "alembic_version" not in tables:
        return _state(tables, None)
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return _state(tables, found)


def _state(tables: list[str], found: str | None) -> SchemaState:
    if found is None:
        others = set(tables) - {"alembic_version"}
        age = SchemaAge.FOREIGN if others else SchemaAge.EMPTY
    elif found == REVISION:
        # Until the first release the single migration grows and keeps its name.
        is_whole = metadata.tables.keys() <= set(tables)
        age = SchemaAge.CURRENT if is_whole else SchemaAge.UNRELEASED
    elif _UNRELEASED.fullmatch(found):
        age = SchemaAge.UNRELEASED
    elif not _OURS.fullmatch(found):
        age = SchemaAge.FOREIGN
    else:
        age = SchemaAge.OLDER if found < REVISION else SchemaAge.NEWER
    return SchemaState(age, found, REVISION)


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  slow to import, and only this needs it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(shipped("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def _transaction(engine: Engine, address: URL) -> Iterator[Connection]:
    """Open one transaction on a connection of its own; database errors are translated."""
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
    except Exception as error:
        ours = translated(error, address)
        if ours is None:
            raise
        raise ours from error
    finally:
        engine.dispose()
