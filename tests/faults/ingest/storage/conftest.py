"""An indexed database of either engine, for tests that damage or rebuild it."""

from collections.abc import Iterator

import pytest

from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

_LIVE_BLOCKS = 90


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def synced_indexer(
    request: pytest.FixtureRequest, fake_chain: FakeChain, open_indexer: OpenIndexer
) -> Iterator[Indexer]:
    """Yield an indexer that has read the chain, whose newest blocks are not final."""
    fake_chain.live(_LIVE_BLOCKS)
    if request.param == "sqlite":
        indexer = open_indexer(*fake_chain.urls)
        indexer.index()
        yield indexer
        return
    server = request.getfixturevalue("postgresql_server")
    with server.database(request.getfixturevalue("postgresql_template")) as url:
        indexer = open_indexer(*fake_chain.urls, url=url)
        indexer.index()
        yield indexer
        indexer.close()
