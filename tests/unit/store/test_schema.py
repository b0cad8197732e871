"""A database is accepted if it is the product's and current;
otherwise the error names the remedy.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, MetaData, column, create_engine, insert, inspect, table, update
from sqlalchemy.exc import DBAPIError

from oracle.errors import InputError
from oracle.resources import find_shipped_path
from oracle.store.database import Store
from oracle.store.engine import create_write_engine, parse_database_url
from oracle.store.schema import REVISION, SchemaAge, inspect_schema, migrate
from oracle.store.schema_comparison import find_schema_difference
from oracle.store.tables import log_view
from oracle.store.tables.metadata import metadata


@contextmanager
def open_connection(url: str) -> Iterator[Connection]:
    engine = create_write_engine(parse_database_url(url))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def migrations(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(find_shipped_path("migrations")))
    config.attributes["connection"] = connection
    return config


def layout(connection: Connection) -> dict[str, object]:
    """Return everything that the database records about its tables."""
    inspector = inspect(connection)
    return {
        name: {
            "columns": [{**c, "type": str(c["type"])} for c in inspector.get_columns(name)],
            "key": inspector.get_pk_constraint(name),
            "indexes": sorted(_index(index) for index in inspector.get_indexes(name)),
            "unique": sorted(inspector.get_unique_constraints(name), key=str),
            "foreign": sorted(inspector.get_foreign_keys(name), key=str),
            "checks": sorted(inspector.get_check_constraints(name), key=str),
        }
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def _index(index: Any) -> str:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return str({**index, "dialect_options": options})


def list_sqlite_definitions(connection: Connection) -> dict[str, list[str]]:
    """Return the SQL of each table and index, which also contains WITHOUT ROWID.

    The SQL is split and sorted, because the order of a table's constraints has no effect.
    """
    rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: sorted(re.split(r"[\s\",()]+", text)) for name, text in rows}


def list_postgresql_definitions(connection: Connection) -> set[tuple[str, ...]]:
    """Return the SQL of each index, view and function."""
    rows = connection.exec_driver_sql(
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' "
        "UNION SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' "
        "UNION SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
    )
    return {tuple(row) for row in rows}


def test_created_tables_equal_those_of_the_migrations(empty_database_url: str):
    list_definitions = (
        list_sqlite_definitions
        if empty_database_url.startswith("sqlite")
        else list_postgresql_definitions
    )
    migrate(empty_database_url)
    with open_connection(empty_database_url) as connection:
        created_layout, created_definitions = layout(connection), list_definitions(connection)
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
        command.downgrade(migrations(connection), "base")
        command.upgrade(migrations(connection), "head")
        assert layout(connection) == created_layout
        assert list_definitions(connection) == created_definitions
        assert differences == []


def test_tables_are_created_again_after_a_downgrade(empty_database_url: str):
    migrate(empty_database_url)
    with open_connection(empty_database_url) as connection:
        command.downgrade(migrations(connection), "base")
    assert migrate(empty_database_url).age is SchemaAge.EMPTY
    assert inspect_schema(empty_database_url).age is SchemaAge.CURRENT


def test_downgrade_leaves_no_tables(empty_database_url: str):
    migrate(empty_database_url)
    with open_connection(empty_database_url) as connection:
        command.downgrade(migrations(connection), "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    assert inspect_schema(empty_database_url).age is SchemaAge.EMPTY


def test_revision_constant_matches_the_newest_migration():
    assert ScriptDirectory.from_config(migrations()).get_current_head() == REVISION


def test_second_migration_changes_nothing(empty_database_url: str):
    assert migrate(empty_database_url).age is SchemaAge.EMPTY
    assert migrate(empty_database_url).age is SchemaAge.CURRENT


def test_unmigrated_store_is_not_opened(empty_database_url: str):
    with pytest.raises(InputError, match="has no tables yet; run `qos-oracle migrate`"):
        Store.open(empty_database_url)


def test_schema_check_does_not_create_missing_file(empty_sqlite_url: str):
    assert inspect_schema(empty_sqlite_url).age is SchemaAge.EMPTY
    assert not Path(empty_sqlite_url.removeprefix("sqlite:///")).exists()


def test_missing_folder_of_database_is_rejected(tmp_path: Path):
    folder = tmp_path / "absent"
    with pytest.raises(InputError, match=f"the folder {folder} does not exist; create it"):
        inspect_schema(f"sqlite:///{folder}/oracle.sqlite")
    assert not folder.exists()


def test_opening_with_create_creates_the_tables(empty_database_url: str):
    with Store.open(empty_database_url, create=True) as store, store.read_transaction() as uow:
        assert uow.cursor.get() is None


@pytest.mark.parametrize(
    ("revision", "complaint"),
    [("0000_first", "is older than the program"), ("9999_last", "is newer than the program")],
)
def test_store_with_another_schema_revision_is_rejected(
    database_url: str, revision: str, complaint: str
):
    with open_connection(database_url) as connection:
        version = table("alembic_version", column("version_num"))
        connection.execute(update(version).values(version_num=revision))
    with pytest.raises(InputError, match=complaint):
        Store.open(database_url, create=True)


def test_newer_database_is_not_migrated(database_url: str):
    with open_connection(database_url) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999_last'")
    with pytest.raises(InputError, match="install the newer qos-oracle"):
        migrate(database_url)


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004", "0005"])
def test_database_from_before_first_release_is_rejected_and_unchanged(
    empty_database_url: str, revision: str
):
    with open_connection(empty_database_url) as connection:
        connection.exec_driver_sql("CREATE TABLE halt (name TEXT)")
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        version = table("alembic_version", column("version_num"))
        connection.execute(insert(version).values(version_num=revision))
        before = layout(connection)

    for act in (migrate, lambda url: Store.open(url, create=True), Store.open):
        with pytest.raises(InputError, match=f"revision {revision}.* to an empty database"):
            act(empty_database_url)
    with open_connection(empty_database_url) as connection:
        assert layout(connection) == before
        stored_revision = connection.exec_driver_sql(
            "SELECT version_num FROM alembic_version"
        ).scalar()
        assert stored_revision == revision


def test_database_without_a_table_is_rejected_as_prerelease(database_url: str):
    with open_connection(database_url) as connection:
        connection.exec_driver_sql("DROP TABLE membership_change")

    for act in (migrate, Store.open):
        with pytest.raises(InputError, match="before the first release"):
            act(database_url)


def migrate_with_edited_text(url: str, old: str, new: str, folder: Path) -> None:
    """Create the database by the first migration with the old text replaced by the new one."""
    shipped = find_shipped_path("migrations")
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_text((shipped / "env.py").read_text())
    text = (shipped / "versions" / "0001_initial.py").read_text()
    assert old in text
    (folder / "versions" / "0001_initial.py").write_text(text.replace(old, new))
    with open_connection(url) as connection:
        config = migrations(connection)
        config.set_main_option("script_location", str(folder))
        command.upgrade(config, "head")


# Old and new text of an edit. The first two are names of 2026-11-29, which 0.1.0 replaced.
_EDITS = [
    ("'transition'", "'turn'", "table membership_change has no column transition TEXT NOT NULL"),
    ("'one_exclusive_call'", "'one_got_ready'", "table pub_intent has no unique index one_excl"),
    ("'transition', sa.Text", "'transition', sa.LargeBinary", "no column transition TEXT"),
    (
        "'last_bump_at', sa.BigInteger(), nullable=True",
        "'last_bump_at', sa.BigInteger(), nullable=False",
        "no column last_bump_at BIGINT",
    ),
    (
        "'window', sa.BigInteger(), server_default=sa.text('0')",
        "'window', sa.BigInteger()",
        "no column window",
    ),
    (
        "'log', 'sub', name=op.f('pk_accepted_round')",
        "'sub', 'log', name=op.f('pk_accepted_round')",
        "no primary key",
    ),
    (
        "'block', ['number'], unique=True",
        "'block', ['number'], unique=False",
        "no unique index one_canonical",
    ),
    (", 'final', 'foreign'", ", 'final'", "no check ck_pub_nonce_state with 'final', 'foreign'"),
    ("voided_block IS NULL", "voided_block = 0", "no unique index active_draw"),
    (
        "sa.UniqueConstraint('number', name=op.f('uq_scope_number'))",
        "",
        r"scope has no unique \(number\)",
    ),
    (
        "sa.Column('transition',",
        "sa.Column('turn', sa.Text(), nullable=False), sa.Column('transition',",
        "has the additional column turn",
    ),
]


@pytest.mark.parametrize(("old", "new", "difference"), _EDITS)
def test_database_of_an_edited_first_migration_is_rejected_and_unchanged(
    empty_database_url: str,
    tmp_path: Path,
    old: str,
    new: str,
    difference: str,
):
    migrate_with_edited_text(empty_database_url, old, new, tmp_path / "migrations")
    with open_connection(empty_database_url) as connection:
        before = layout(connection)

    for act in (migrate, lambda url: Store.open(url, create=True), Store.open):
        with pytest.raises(InputError, match=f"{difference}.*before the first release"):
            act(empty_database_url)
    with open_connection(empty_database_url) as connection:
        assert layout(connection) == before


def test_renamed_column_of_any_table_is_reported_as_a_difference(sqlite_url: str):
    with open_connection(sqlite_url) as connection:
        # SQLite does not rename a column that a view reads.
        connection.exec_driver_sql("DROP VIEW log")
        for name, defined_table in metadata.tables.items():
            for old in [each.name for each in defined_table.columns]:
                connection.exec_driver_sql(f'ALTER TABLE "{name}" RENAME COLUMN "{old}" TO "old"')
                assert f"table {name} has no " in str(find_schema_difference(connection))
                connection.exec_driver_sql(f'ALTER TABLE "{name}" RENAME COLUMN "old" TO "{old}"')
        assert find_schema_difference(connection) is None


def test_tables_and_columns_added_by_the_operator_are_accepted(database_url: str):
    with open_connection(database_url) as connection:
        connection.exec_driver_sql("CREATE TABLE own (id INTEGER NOT NULL)")
        connection.exec_driver_sql("CREATE INDEX own_index ON node (address)")
        connection.exec_driver_sql("ALTER TABLE node ADD COLUMN own TEXT")
    with Store.open(database_url):
        pass


@pytest.mark.parametrize("revision", [None, "3f2a9c"])
def test_database_with_tables_of_another_program_is_rejected_and_unchanged(
    empty_database_url: str, revision: str | None
):
    with open_connection(empty_database_url) as connection:
        connection.exec_driver_sql("CREATE TABLE users (id INTEGER PRIMARY KEY)")
        if revision is not None:
            connection.exec_driver_sql("CREATE TABLE alembic_version (version_num TEXT)")
            version = table("alembic_version", column("version_num"))
            connection.execute(insert(version).values(version_num=revision))
    with pytest.raises(InputError, match="has tables of another program"):
        migrate(empty_database_url)
    with open_connection(empty_database_url) as connection:
        assert "node" not in inspect(connection).get_table_names()


def test_failed_creation_leaves_database_empty(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
):
    dialect = parse_database_url(empty_database_url).get_backend_name()
    monkeypatch.setitem(log_view.CREATE_STATEMENTS, dialect, ("CREATE VIEW log AS SELECT 1 FROM",))
    with pytest.raises(DBAPIError, match=r"syntax error|incomplete input"):
        migrate(empty_database_url)
    assert inspect_schema(empty_database_url).age is SchemaAge.EMPTY


def test_first_migration_creates_current_views():
    first = ScriptDirectory.from_config(migrations()).get_revision(REVISION).module
    assert (first._CREATED, first._DROPPED) == (
        log_view.CREATE_STATEMENTS,
        log_view.DROP_STATEMENTS,
    )


def test_every_table_is_in_metadata():
    reflected = MetaData()
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    reflected.reflect(engine)
    assert {"log_row", "node", "report", "pub_intent", "lease"} <= set(reflected.tables)
    engine.dispose()
