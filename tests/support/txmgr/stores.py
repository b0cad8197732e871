"""Fixtures for many databases: a property needs a new one for each example."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import pytest

from oracle.store.database import Store

NewStore = Callable[[], AbstractContextManager[Store]]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def new_store(request: pytest.FixtureRequest) -> NewStore:
    """Return a function that opens a store without rows, once for each engine."""
    store_factory: NewStore = request.getfixturevalue(f"new_{request.param}_store")
    return store_factory


@pytest.fixture
def store(new_store: NewStore) -> Iterator[Store]:
    """Yield an open store without rows, on the same engine as `new_store`."""
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
def new_postgresql_store(request: pytest.FixtureRequest) -> NewStore:
    server = request.getfixturevalue("postgresql_server")
    template = request.getfixturevalue("postgresql_template")

    @contextmanager
    def new() -> Iterator[Store]:
        with server.database(template) as url, Store.open(url) as store:
            yield store

    return new
