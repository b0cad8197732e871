"""Databases by the dozen: a property wants a fresh one for every example."""

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
    """Makes an open store without rows, as often as it is called; once for each engine."""
    store_factory: NewStore = request.getfixturevalue(f"new_{request.param}_store")
    return store_factory


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
def new_postgresql_store(request: pytest.FixtureRequest) -> NewStore:
    server = request.getfixturevalue("postgresql_server")
    template = request.getfixturevalue("postgresql_template")

    @contextmanager
    def new() -> Iterator[Store]:
        with server.database(template) as url, Store.open(url) as store:
            yield store

    return new
