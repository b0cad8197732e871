"""What contracts count is asked beside everything else: who cannot say it serves us as before."""

import pytest

from oracle.errors import TransientError
from tests.faults.a_chain import AChain
from tests.faults.conftest import OpenIndexer


def test_an_endpoint_that_cannot_count_is_not_passed_over(
    a_chain: AChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(*a_chain.urls)
    indexer.index()

    # They know no such call.
    with pytest.raises(TransientError, match="is no number"):
        indexer.source.counted(a_chain.head.hash)

    asked = a_chain.provider.count("eth_getLogs")
    a_chain.live(1)
    indexer.index()
    assert a_chain.provider.count("eth_getLogs") > asked
