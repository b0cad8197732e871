"""The reference for repairs: an indexer whose only endpoint serves every log."""

from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.indexer import Indexer


def index_honest_chain(a_chain: AChain, open_indexer: OpenIndexer) -> Indexer:
    """Return an indexer that has read the complete chain from an honest endpoint."""
    honest = a_chain.serve()
    honest.head = a_chain.head
    indexer = open_indexer(a_chain.urls[-1])
    indexer.index()
    return indexer
