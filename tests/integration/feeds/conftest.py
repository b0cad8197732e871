"""A second database beside the first, of the same engine."""

from collections.abc import Iterator

import pytest

from oracle.store.database import Store
from oracle.store.schema import migrate


@pytest.fixture
def other_store(tmp_path) -> Iterator[Store]:
    """Another reader's database: SQLite, whatever the first one is."""
    url = f"sqlite:///{tmp_path / 'other.sqlite'}"
    migrate(url)
    with Store.open(url) as opened:
        yield opened
