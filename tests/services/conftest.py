"""Databases by the dozen: a property wants a fresh one for every example."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from oracle.store.metadata import metadata
from oracle.store.store import Store

MakeDatabase = Callable[[], str]
NewStore = Callable[[], AbstractContextManager[Store]]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def new_store(request: pytest.FixtureRequest) -> NewStore:
    """Makes an open store without rows, as often as it is called; once for each engine."""
    made: NewStore = request.getfixturevalue(f"new_{request.param}_store")
    return made


@pytest.fixture
def store(new_store: NewStore) -> Iterator[Store]:
    """One of them: a test that takes both has them on one engine."""
    with new_store() as opened:
        yield opened


@pytest.fixture
def new_sqlite_store(tmp_path: Path, sqlite_template: Path) -> NewStore:
    numbers = count()

    @contextmanager
    def new() -> Iterator[Store]:
        fresh = tmp_path / f"{next(numbers)}.sqlite"
        shutil.copyfile(sqlite_template, fresh)
        with Store.open(f"sqlite:///{fresh}") as store:
            yield store

    return new


@pytest.fixture
def new_postgresql_store(emptied_databases: list[str], make_database: MakeDatabase) -> NewStore:
    @contextmanager
    def new() -> Iterator[Store]:
        url = emptied_databases.pop() if emptied_databases else make_database()
        with Store.open(url) as store:
            yield store
        _empty(url)
        emptied_databases.append(url)

    return new


@pytest.fixture(scope="session")
def emptied_databases() -> list[str]:
    """Databases without rows: emptying one takes a tenth of the time of making one."""
    return []


@pytest.fixture(scope="session")
def make_database(request: pytest.FixtureRequest) -> Iterator[MakeDatabase]:
    server = request.getfixturevalue("postgresql_server")
    template = request.getfixturevalue("postgresql_template")
    with ExitStack() as made:
        yield lambda: str(made.enter_context(server.database(template)))


def _empty(url: str) -> None:
    tables = [sql.Identifier(table.name) for table in metadata.sorted_tables]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("TRUNCATE {}").format(sql.SQL(", ").join(tables)))
