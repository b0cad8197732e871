"""Fixtures: a second database of the same engine."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from oracle.store.database import Store
from oracle.store.schema import migrate


@pytest.fixture
def other_store(tmp_path) -> Iterator[Store]:
    """Yield the database of another reader: SQLite, whatever the first one is."""
    url = f"sqlite:///{tmp_path / 'other.sqlite'}"
    migrate(url)
    with Store.open(url) as opened:
        yield opened


@pytest.fixture(scope="module")
def databases(tmp_path_factory) -> Callable[[], AbstractContextManager[Store]]:
    """Return a function that creates new databases for examples."""
    numbers = itertools.count()

    def fresh() -> AbstractContextManager[Store]:
        url = f"sqlite:///{tmp_path_factory.mktemp('feed') / f'{next(numbers)}.sqlite'}"
        migrate(url)
        return Store.open(url)

    return fresh
