"""A migration of a populated database that is interrupted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, inspect, select

from oracle.store.engine import parse_database_url
from oracle.store.schema import SchemaAge, inspect_schema
from tests.faults.ingest.conftest import OpenIndexer
from tests.properties.machine.mortal import Nursery, nursery
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer
from tests.unit.store import later


@pytest.fixture(scope="module")
def nursery_process() -> Iterator[Nursery]:
    with nursery() as process:
        yield process


def dump_schema_and_rows(url: str) -> list[str]:
    """Return every column of every table, and every row, at any revision."""
    engine = create_engine(parse_database_url(url))
    try:
        with engine.connect() as connection:
            metadata = MetaData()
            metadata.reflect(connection)
            columns = [
                f"{name}.{column['name']} {column['type']}"
                for name in sorted(metadata.tables)
                for column in inspect(connection).get_columns(name)
            ]
            rows = [
                f"{name} {row}"
                for name, table in sorted(metadata.tables.items())
                for row in sorted(map(repr, connection.execute(select(table))))
            ]
            return [*columns, *rows]
    finally:
        engine.dispose()


def test_case_73_killed_migration_leaves_tables_unchanged(
    fake_chain: FakeChain,
    database_url: str,
    open_indexer: OpenIndexer,
    nursery_process: Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    old = Indexer(fake_chain.urls, database_url)
    old.index()
    folded = old.digest()
    old.close()
    before = dump_schema_and_rows(database_url)
    migrations = later.write_later_migrations(tmp_path)
    deaths: list[str] = []

    while (
        life := nursery_process.migrate(database_url, len(deaths), migrations)
    ).died_at is not None:
        deaths.append(life.died_at)
        assert dump_schema_and_rows(database_url) == before, f"killed before {life.died_at}"

    assert deaths[-1] == "commit"
    assert sum(death.startswith(("CREATE TABLE", "ALTER TABLE")) for death in deaths) > 5
    later.release(monkeypatch, migrations)
    assert inspect_schema(database_url).age is SchemaAge.CURRENT
    migrated = open_indexer(*fake_chain.urls, url=database_url)
    assert migrated.digest() == folded
    fake_chain.live(5)
    migrated.index()
    assert migrated.canonical_logs() == fake_chain.logs()
