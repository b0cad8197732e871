"""Whether a database has our tables, and bringing it up to the code's (Alembic)."""

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

# The newest file in migrations/versions; a test compares. Here, because Alembic is slow to import
# and only `migrate` needs it.
REVISION = "0001_initial"
# Ours are a number of four digits and a name. The five of before the first release had the number
# alone, and no way leads from them to the one that took their place.
_OURS, _UNRELEASED = re.compile(r"\d{4}_[a-z0-9_]+"), re.compile(r"\d{4}")


class SchemaAge(StrEnum):
    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"
    # Of before the first release; cannot be brought up.
    UNRELEASED = "unreleased"
    # Tables, but none of ours.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The database's revision beside the code's."""

    age: SchemaAge
    found: str | None
    wanted: str


def schema_state(url: str) -> SchemaState:
    """Look at the database without changing it; a file that is not there is EMPTY.

    Raises:
        InputError: it cannot be read.
        TransientError: it does not answer, which passes when its server is started.
    """
    address = parsed(url)
    if is_missing_file(address):
        return _state([], None)
    with _transaction(reading_engine(address), address) as connection:
        return _state_of(connection)


def migrate(url: str) -> SchemaState:
    """Bring the database to the code's revision in one transaction; return what it was before.

    Raises:
        InputError: it cannot be reached or written, is newer than the code or of before the first
            release, or is not ours.
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
    """Refuse a database whose tables are not the code's; `create` fills an empty one.

    Raises:
        InputError: it cannot be reached or read, or its tables are not the code's.
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
        # Until the first release the one migration grows, and keeps its name.
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
    """One transaction on a connection of its own, closed at the end; our errors only."""
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
