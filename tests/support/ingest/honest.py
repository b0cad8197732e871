"""The measure of what was repaired: an indexer whose only endpoint told it everything."""

from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import Indexer


def whole(a_chain: AChain, open_indexer: OpenIndexer) -> Indexer:
    """What an indexer holds that was told everything from the start."""
    honest = a_chain.serve()
    honest.head = a_chain.head
    indexer = open_indexer(a_chain.urls[-1])
    indexer.index()
    return indexer
