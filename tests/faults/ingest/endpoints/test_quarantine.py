"""Cases 39 and 52: endpoints that reject our key or serve another chain are not used."""

import pytest

from devnet.fakechain.faults import transport_faults as faults
from devnet.fakechain.faults.block_faults import build_forwarding_fault, build_wrong_chain_id_fault
from devnet.fakechain.provider import Provider
from devnet.fakechain.tree import BlockTree
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import InputError, TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.a_chain import AChain
from tests.support.ingest.dumping import dump
from tests.support.ingest.endpoints import (
    count_requests,
    follow_until_idle,
    get_serving_index,
    list_endpoints,
    list_labels,
    read_metric,
)
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def pair(a_chain: AChain, open_indexer: OpenIndexer, clock: VirtualClock) -> Indexer:
    """Return an indexer with both endpoints, at block 30."""
    indexer = open_indexer(*a_chain.urls, clock=clock)
    indexer.index()
    return indexer


@pytest.mark.parametrize("code", [401, 403])
def test_case_39_endpoint_refusing_key_is_quarantined_and_others_continue(
    a_chain: AChain, pair: Indexer, clock: VirtualClock, code: int
):
    a_chain.provider.faults.append(faults.build_http_status_fault(code))
    for _ in range(6):
        a_chain.live(1)
        follow_until_idle(pair, clock)
        clock.advance(15)

    assert list(pair.source.endpoints.get_quarantine_reasons()) == [list_endpoints(pair)[0].name]
    assert read_metric("oracle_endpoint_quarantined", endpoint=list_labels(pair)[0]) == 1
    assert count_requests(a_chain.provider, lambda: follow_until_idle(pair, clock)) == 0
    assert pair.canonical_logs() == a_chain.logs()


def test_case_39_endpoint_accepting_key_again_is_readmitted(
    a_chain: AChain, pair: Indexer, clock: VirtualClock
):
    a_chain.provider.faults.append(faults.build_http_status_fault(401))
    for _ in range(6):
        pair.source.fetch_heads()
        clock.advance(15)
    assert pair.source.endpoints.get_quarantine_reasons()
    a_chain.provider.faults.clear()

    for _ in range(15):
        pair.source.fetch_heads()
        clock.advance(30)

    assert pair.source.endpoints.get_quarantine_reasons() == {}
    assert read_metric("oracle_endpoint_quarantined", endpoint=list_labels(pair)[0]) == 0
    assert read_metric("oracle_endpoints_usable") == 2
    assert get_serving_index(pair) == 0


def of_another_genesis() -> Provider:
    """Return an endpoint of a longer chain with our chain id and another genesis block."""
    tree = BlockTree(31337, start=1_600_000_000)
    provider = Provider(tree)
    provider.head = tree.mine_empty_blocks(60)
    return provider


def holding(indexer: Indexer, a_chain: AChain) -> Indexer:
    indexer.source.add_checkpoint(0, a_chain.tree.genesis.hash, "the database")  # type: ignore[arg-type]  # a hash
    return indexer


def test_case_52_endpoint_showing_another_genesis_is_quarantined_before_any_write(
    a_chain: AChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = holding(open_indexer(a_chain.urls[0], clock=clock), a_chain)
    indexer.index()
    before = dump(indexer.url)

    a_chain.provider.faults.append(build_forwarding_fault(of_another_genesis()))
    clock.advance(5)
    with pytest.raises(TransientError, match=r"shows block 0 as .*the database has"):
        indexer.step()

    assert dump(indexer.url) == before
    assert read_metric("oracle_endpoint_quarantined", endpoint=list_labels(indexer)[0]) == 1
    assert read_metric("oracle_endpoints_usable") == 0


def test_case_52_correct_endpoint_continues_during_quarantine(
    a_chain: AChain, pair: Indexer, clock: VirtualClock
):
    holding(pair, a_chain)
    a_chain.provider.faults.append(build_forwarding_fault(of_another_genesis()))
    a_chain.live(5)

    follow_until_idle(pair, clock)

    assert list(pair.source.endpoints.get_quarantine_reasons()) == [list_endpoints(pair)[0].name]
    assert pair.cursor == (35, a_chain.head.hash)
    assert pair.canonical_logs() == a_chain.logs()


def test_case_52_chain_id_is_checked_at_every_endpoint_switch(
    a_chain: AChain, pair: Indexer, clock: VirtualClock
):
    """The second endpoint was right a moment ago, but is checked again before it takes over."""
    first, second = list_endpoints(pair)
    for endpoint in (second, first):
        pair.source.endpoints.run_with_endpoint(
            lambda used_endpoint: used_endpoint, only_endpoint=endpoint.name
        )
    a_chain.providers[1].faults.append(build_wrong_chain_id_fault(5))
    a_chain.live(1)
    a_chain.provider.faults.append(faults.build_http_status_fault(502))
    before = pair.cursor

    with pytest.raises(TransientError, match="is on chain 5"):
        pair.step()

    assert pair.cursor == before
    assert list(pair.source.endpoints.get_quarantine_reasons()) == [second.name]


def test_case_52_wrong_chain_at_start_raises_input_error(
    a_chain: AChain, open_indexer: OpenIndexer
):
    a_chain.provider.faults.append(build_wrong_chain_id_fault(5))

    with pytest.raises(InputError, match=r"is on chain 5, but \[chain\] id is 31337"):
        open_indexer(a_chain.urls[0])
