"""Cases 39 and 52: endpoints that reject our key or serve another chain are not used."""

import pytest

from devnet.fakechain.faults import transport_faults as faults
from devnet.fakechain.faults.block_faults import build_forwarding_fault, build_wrong_chain_id_fault
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import InputError, TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.endpoints import (
    count_requests,
    follow_until_idle,
    get_serving_index,
    list_endpoints,
    list_labels,
    read_metric,
)
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def two_endpoint_indexer(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer with both endpoints, at block 30."""
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    return indexer


@pytest.mark.parametrize("code", [401, 403])
def test_case_39_endpoint_that_rejects_its_key_is_quarantined(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock, code: int
):
    fake_chain.provider.faults.append(faults.build_http_status_fault(code))
    for _ in range(6):
        fake_chain.live(1)
        follow_until_idle(two_endpoint_indexer, clock)
        clock.advance(15)

    assert list(two_endpoint_indexer.source.endpoints.get_quarantine_reasons()) == [
        list_endpoints(two_endpoint_indexer)[0].name
    ]
    assert (
        read_metric("oracle_endpoint_quarantined", endpoint=list_labels(two_endpoint_indexer)[0])
        == 1
    )
    assert (
        count_requests(fake_chain.provider, lambda: follow_until_idle(two_endpoint_indexer, clock))
        == 0
    )
    assert two_endpoint_indexer.canonical_logs() == fake_chain.logs()


def test_case_39_endpoint_is_readmitted_when_it_accepts_its_key(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.provider.faults.append(faults.build_http_status_fault(401))
    for _ in range(6):
        two_endpoint_indexer.source.fetch_heads()
        clock.advance(15)
    assert two_endpoint_indexer.source.endpoints.get_quarantine_reasons()
    fake_chain.provider.faults.clear()

    for _ in range(15):
        two_endpoint_indexer.source.fetch_heads()
        clock.advance(30)

    assert two_endpoint_indexer.source.endpoints.get_quarantine_reasons() == {}
    assert (
        read_metric("oracle_endpoint_quarantined", endpoint=list_labels(two_endpoint_indexer)[0])
        == 0
    )
    assert read_metric("oracle_endpoints_usable") == 2
    assert get_serving_index(two_endpoint_indexer) == 0


def create_foreign_provider() -> Provider:
    """Return an endpoint of a longer chain with our chain id and another genesis block."""
    tree = BlockTree(31337, start=1_600_000_000)
    provider = Provider(tree)
    provider.head = tree.mine_empty_blocks(60)
    return provider


def add_genesis_checkpoint(indexer: Indexer, fake_chain: FakeChain) -> Indexer:
    indexer.source.add_checkpoint(0, fake_chain.tree.genesis.hash, "the database")  # type: ignore[arg-type]  # a hash
    return indexer


def test_case_52_endpoint_with_another_genesis_is_quarantined(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = add_genesis_checkpoint(open_indexer(fake_chain.urls[0], clock=clock), fake_chain)
    indexer.index()
    before = dump_database_rows(indexer.url)

    fake_chain.provider.faults.append(build_forwarding_fault(create_foreign_provider()))
    clock.advance(5)
    with pytest.raises(TransientError, match=r"shows block 0 as .*the database has"):
        indexer.step()

    assert dump_database_rows(indexer.url) == before
    assert read_metric("oracle_endpoint_quarantined", endpoint=list_labels(indexer)[0]) == 1
    assert read_metric("oracle_endpoints_usable") == 0


def test_case_52_correct_endpoint_is_used_while_the_other_is_quarantined(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    add_genesis_checkpoint(two_endpoint_indexer, fake_chain)
    fake_chain.provider.faults.append(build_forwarding_fault(create_foreign_provider()))
    fake_chain.live(5)

    follow_until_idle(two_endpoint_indexer, clock)

    assert list(two_endpoint_indexer.source.endpoints.get_quarantine_reasons()) == [
        list_endpoints(two_endpoint_indexer)[0].name
    ]
    assert two_endpoint_indexer.cursor == (35, fake_chain.head.hash)
    assert two_endpoint_indexer.canonical_logs() == fake_chain.logs()


def test_case_52_chain_id_is_checked_at_every_endpoint_switch(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    """The second endpoint was right a moment ago, but is checked again before it takes over."""
    first, second = list_endpoints(two_endpoint_indexer)
    for endpoint in (second, first):
        two_endpoint_indexer.source.endpoints.run_with_endpoint(
            lambda used_endpoint: used_endpoint, only_endpoint=endpoint.name
        )
    fake_chain.providers[1].faults.append(build_wrong_chain_id_fault(5))
    fake_chain.live(1)
    fake_chain.provider.faults.append(faults.build_http_status_fault(502))
    before = two_endpoint_indexer.cursor

    with pytest.raises(TransientError, match="is on chain 5"):
        two_endpoint_indexer.step()

    assert two_endpoint_indexer.cursor == before
    assert list(two_endpoint_indexer.source.endpoints.get_quarantine_reasons()) == [second.name]


def test_case_52_wrong_chain_at_startup_raises_input_error(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.provider.faults.append(build_wrong_chain_id_fault(5))

    with pytest.raises(InputError, match=r"is on chain 5, but \[chain\] id is 31337"):
        open_indexer(fake_chain.urls[0])
