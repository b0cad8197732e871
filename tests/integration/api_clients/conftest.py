"""Fixtures: a server with a small history, which the clients read over HTTP."""

from collections.abc import Iterator

import pytest

from oracle.daemon.config.listener_section import ApiSection
from oracle.daemon.web.api.read_api import create_read_api
from oracle.daemon.web.http_server import serve_app
from oracle.store.database import Store
from tests.support.api import IndexedHistory
from tests.support.histories import History


@pytest.fixture
def history() -> History:
    history = History().joins("A", "B", "C")
    return history.scores("A", 10, 10, 5).scores("B", 0, 0).scores("C", 2, 10)


@pytest.fixture
def indexed(sqlite_url: str, history: History) -> Iterator[IndexedHistory]:
    with Store.open(sqlite_url) as store:
        yield IndexedHistory(store).whole(history)


@pytest.fixture
def url(indexed: IndexedHistory) -> Iterator[str]:
    """Return the address of the server, whose event streams end after a second."""
    section = ApiSection(stream_seconds=1)
    app = create_read_api(indexed.source, streams=section)
    with serve_app(app, section, 0) as address:
        yield address
