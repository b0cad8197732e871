"""Checks the schema version of a database, and upgrades it with Alembic.

A migration must not change a row, so the rows of all tables are compared before and after it.
State, outbox, reports and signatures are compared by all their values. Tables of raw rows are
large, so only their numbers of rows are compared. Their values are covered by `raw_checksum`,
which is compared completely.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    column,
    func,
    insert,
    inspect,
    select,
    table,
)
from sqlalchemy.engine import URL

from oracle.errors import FatalError, InputError
from oracle.resources import find_shipped_path
from oracle.store.db_errors import format_database_name, translate_db_error
from oracle.store.engine import (
    create_read_engine,
    create_write_engine,
    is_sqlite_file_missing,
    parse_database_url,
)
from oracle.store.lease_repository import LeaseRepository, LeaseState
from oracle.store.schema_comparison import find_schema_difference
from oracle.store.tables.chain_tables import block, call
from oracle.store.tables.feed_tables import feed_row
from oracle.store.tables.log_tables import log_block, log_row
from oracle.store.tables.log_view import CREATE_STATEMENTS
from oracle.store.tables.metadata import metadata

if TYPE_CHECKING:
    from alembic.config import Config

# Name of the newest file in migrations/versions, which a test verifies. It is also here, because
# Alembic is slow to import and only the migration of an older database needs it.
REVISION = "0001_initial"
# A revision consists of four digits and a name. The five revisions before the first release had
# only digits, and their databases cannot be upgraded.
_REVISION_PATTERN = re.compile(r"\d{4}_[a-z0-9_]+")
_UNRELEASED_PATTERN = re.compile(r"\d{4}")

_COUNTED_TABLES = {raw_table.name for raw_table in (block, call, feed_row, log_block, log_row)}
# Alembic's table, which contains the revision of the schema.
_REVISION_TABLE = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
_PAGE_ROWS = 2_000
_CHECKSUM_BITS = 256


class SchemaAge(StrEnum):
    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"
    # The tables differ from those of their revision. Usually a version before the first release
    # created them, and they cannot be upgraded.
    UNRELEASED = "unreleased"
    # The database has tables of another program.
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema revision of the database, compared with the expected `REVISION`."""

    age: SchemaAge
    found_revision: str | None
    # How the tables differ from the tables of `found_revision`, or None.
    difference: str | None = None


def inspect_schema(url: str) -> SchemaState:
    """Inspect the schema without changing the database.

    The state of a missing file is EMPTY.

    Raises:
        InputError: the database cannot be read, or its folder does not exist.
        TransientError: the server does not respond, for example because it is not started yet.
    """
    parsed_url = parse_database_url(url)
    if is_sqlite_file_missing(parsed_url):
        folder = Path(parsed_url.database or "").parent
        if not folder.is_dir():
            raise InputError(
                f"{format_database_name(parsed_url)}: the folder {folder} does not exist; create "
                "it, or change database.url"
            )
        return _classify_schema([], None)
    with _open_transaction(create_read_engine(parsed_url), parsed_url) as connection:
        return _read_schema_state(connection)


def require_upgradable_schema(url: str) -> SchemaState:
    """Return the schema's state, after checking that this version can use or upgrade it.

    Raises:
        InputError: the database is empty, unreachable, newer than the code, older than the first
            release, or of another program.
        TransientError: the server does not respond.
    """
    schema = inspect_schema(url)
    _check_schema_age(schema, parse_database_url(url), (SchemaAge.EMPTY, *_NOT_UPGRADABLE))
    return schema


def migrate(url: str, check_lease: Callable[[LeaseState], None] | None = None) -> SchemaState:
    """Upgrade the schema in one transaction, and return its previous state.

    The transaction excludes all other writers. `check_lease` raises an error if another process
    may work on the older database. After the migration, every row is compared with its earlier
    values. If a row has changed, the transaction is rolled back.

    Raises:
        FatalError: the migration lost or changed a row; the database is unchanged.
        InputError: the database is unreachable or unwritable, newer than the code, older than the
            first release, or of another program.
        TransientError: another process is writing to the database.
    """
    parsed_url = parse_database_url(url)
    with _open_transaction(create_write_engine(parsed_url), parsed_url) as connection:
        previous_state = _read_schema_state(connection)
        _check_schema_age(previous_state, parsed_url, _NOT_UPGRADABLE)
        if previous_state.age is SchemaAge.OLDER:
            if check_lease is not None:
                # The lease can be read before the upgrade, because every release reads it in the
                # same way.
                check_lease(LeaseRepository(connection).get_state())
            _upgrade_and_compare(connection, parsed_url, previous_state)
        elif previous_state.age is SchemaAge.EMPTY:
            _create_tables(connection)
        return previous_state


def check_schema(url: str, *, create: bool) -> None:
    """Check that the database has the expected schema.

    If `create` is True, the schema is created in an empty database.

    Raises:
        InputError: the database is unreachable or unreadable, or has another schema.
    """
    schema_state = inspect_schema(url)
    if create and schema_state.age is SchemaAge.EMPTY:
        migrate(url)
        return
    _check_schema_age(
        schema_state,
        parse_database_url(url),
        tuple(age for age in SchemaAge if age is not SchemaAge.CURRENT),
    )


_NOT_UPGRADABLE = (SchemaAge.NEWER, SchemaAge.UNRELEASED, SchemaAge.FOREIGN)


def _check_schema_age(state: SchemaState, url: URL, ages: tuple[SchemaAge, ...]) -> None:
    if state.age not in ages:
        return
    difference = f"; {state.difference}" if state.difference else ""
    message = {
        SchemaAge.EMPTY: "has no tables yet; run `qos-oracle migrate`",
        SchemaAge.OLDER: f"is older than the program (revision {state.found_revision}; expected "
        f"{REVISION}); run `qos-oracle migrate`",
        SchemaAge.NEWER: f"is newer than the program (revision {state.found_revision}; expected "
        f"{REVISION}); install the newer qos-oracle, or restore a backup of this version "
        "(`qos-oracle service restore`)",
        SchemaAge.UNRELEASED: "has other tables than this version (revision "
        f"{state.found_revision}{difference}); finish the restore or undo the change if the "
        "database was restored only in part or changed by hand; otherwise it was created before "
        "the first release and cannot be upgraded: set [database] url to an empty database, which "
        "the daemon fills from the chain, and run `qos-oracle outbox rebuild --from-chain` if its "
        "keys have sent or signed anything",
        SchemaAge.FOREIGN: "has tables of another program; use an empty database",
        SchemaAge.CURRENT: "is up to date",
    }[state.age]
    raise InputError(f"{format_database_name(url)} {message}")


def _read_schema_state(connection: Connection) -> SchemaState:
    table_names = inspect(connection).get_table_names()
    if _REVISION_TABLE.name not in table_names:
        return _classify_schema(table_names, None)
    revision = connection.scalar(select(_REVISION_TABLE.c.version_num))
    if revision == REVISION:
        # Until the first release, the only migration is edited, and its name does not change.
        difference = find_schema_difference(connection)
        schema_age = SchemaAge.UNRELEASED if difference else SchemaAge.CURRENT
        return SchemaState(schema_age, revision, difference)
    return _classify_schema(table_names, revision)


def _classify_schema(tables: list[str], revision: str | None) -> SchemaState:
    if revision is None:
        other_tables = set(tables) - {_REVISION_TABLE.name}
        schema_age = SchemaAge.FOREIGN if other_tables else SchemaAge.EMPTY
    elif _UNRELEASED_PATTERN.fullmatch(revision):
        schema_age = SchemaAge.UNRELEASED
    elif not _REVISION_PATTERN.fullmatch(revision):
        schema_age = SchemaAge.FOREIGN
    else:
        schema_age = SchemaAge.OLDER if revision < REVISION else SchemaAge.NEWER
    return SchemaState(schema_age, revision)


def _create_tables(connection: Connection) -> None:
    """Create all tables and views of an empty database, and store the newest revision.

    A test checks that the migrations create the same schema. They are not run, because importing
    Alembic takes longer than creating the tables.
    """
    metadata.create_all(connection, checkfirst=False)
    for statement in CREATE_STATEMENTS[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    _REVISION_TABLE.create(connection, checkfirst=True)
    connection.execute(insert(_REVISION_TABLE).values(version_num=REVISION))


def _upgrade_and_compare(connection: Connection, url: URL, previous_state: SchemaState) -> None:
    """Migrate an older database, and check that every row was kept.

    A migration that rewrites or removes values on purpose lists them in `REWRITTEN`, as `TABLE` or
    `TABLE.COLUMN`; its own test has to check them.

    Raises:
        FatalError: a row was lost or changed.
    """
    from alembic.script import ScriptDirectory  # noqa: PLC0415  slow to import

    config = _build_alembic_config(connection)
    revisions = ScriptDirectory.from_config(config).iterate_revisions(
        "head", previous_state.found_revision or "base"
    )
    rewritten_tables = {
        name for revision in revisions for name in getattr(revision.module, "REWRITTEN", ())
    }
    columns = list_compared_columns(connection, rewritten_tables)
    checksums = compute_table_checksums(connection, columns)
    _upgrade_to_head(config)
    changed_tables = find_changed_tables(connection, columns, checksums)
    if changed_tables:
        raise FatalError(
            f"{format_database_name(url)}: the migration changed existing rows of "
            f"{', '.join(changed_tables)}; it was rolled back, so the database is unchanged; use "
            "the old version, and report this error"
        )


def _build_alembic_config(connection: Connection) -> "Config":
    from alembic.config import Config  # noqa: PLC0415  slow to import

    config = Config()
    config.set_main_option(
        "script_location", str(find_shipped_path("migrations")).replace("%", "%%")
    )
    config.attributes["connection"] = connection
    return config


def _upgrade_to_head(config: "Config") -> None:
    from alembic import command  # noqa: PLC0415  slow to import

    command.upgrade(config, "head")


@contextmanager
def _open_transaction(engine: Engine, url: URL) -> Iterator[Connection]:
    """Open a transaction on a separate connection, translating its errors."""
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
    except Exception as error:
        translated_error = translate_db_error(error, url)
        if translated_error is None:
            raise
        raise translated_error from error
    finally:
        engine.dispose()


def list_compared_columns(
    connection: Connection, rewritten_tables: Collection[str]
) -> dict[str, list[str]]:
    """Return the columns to compare in each table during a migration.

    The list is empty if the rows of the table are only counted. `rewritten_tables` contains the
    tables and columns (`TABLE` or `TABLE.COLUMN`) that are left out.
    """
    inspector = inspect(connection)
    return {
        name: []
        if name in _COUNTED_TABLES
        else [
            info["name"]
            for info in inspector.get_columns(name)
            if f"{name}.{info['name']}" not in rewritten_tables
        ]
        for name in inspector.get_table_names()
        if name != _REVISION_TABLE.name and name not in rewritten_tables
    }


def compute_table_checksums(
    connection: Connection, columns_by_table: Mapping[str, Sequence[str]]
) -> dict[str, tuple[int, int]]:
    """Compute each table's row count and the sum of its rows' hashes.

    The sum does not depend on the order of the rows. It is 0 for a table whose rows are only
    counted.
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
    """Return the tables that lost a column or whose rows have changed.

    `checksums` are the earlier checksums.
    """
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
