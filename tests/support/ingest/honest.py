"""The reference for repairs: an indexer whose only endpoint serves every log."""

from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


def index_honest_chain(fake_chain: FakeChain, open_indexer: OpenIndexer) -> Indexer:
    """Return an indexer that has read the complete chain from an honest endpoint."""
    honest = fake_chain.serve()
    honest.head = fake_chain.head
    indexer = open_indexer(fake_chain.urls[-1])
    indexer.index()
    return indexer
