"""Contract counters are read in the background: an endpoint without them still serves windows."""

from oracle.domain.ids import Hash
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.fake_chain import FakeChain


def test_endpoint_without_contract_counters_still_serves_logs(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    first = fake_chain.providers[0]
    second = fake_chain.serve()
    fake_chain.show(fake_chain.head)
    second.call_handler = lambda _request, _block: "0x" + 6 * f"{3:064x}"
    indexer = open_indexer(*fake_chain.urls)
    indexer.index()

    assert indexer.source.fetch_contract_counters(Hash(fake_chain.head.hash))["members"] == 3

    request_count = first.count_requests("eth_getLogs")
    fake_chain.live(1)
    indexer.index()
    assert first.count_requests("eth_getLogs") > request_count
