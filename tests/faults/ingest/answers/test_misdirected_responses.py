"""Responses to other requests, from a proxy that mixed two up, and their effect on the index."""

import pytest

from devnet.fakechain.faults import transport_faults as faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.rpc.client import JsonRpcClient
from oracle.rpc.endpoints.endpoint import SOLE_ENDPOINT_QUARANTINE_SECONDS
from oracle.rpc.responses import Quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from tests.faults.ingest.conftest import OpenIndexer
from tests.pools import caller_of
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_misdirected_response_is_retried_on_a_new_connection(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    misdirected = faults.build_misdirected_responses_fault(max_connections=2)
    fake_chain.provider.faults.append(misdirected)
    indexer = open_indexer(fake_chain.urls[0], clock=clock)

    indexer.index()

    assert indexer.source.endpoints.get_quarantine_reasons() == {}
    assert indexer.canonical_logs() == fake_chain.logs()


def test_persistently_misdirected_responses_are_rejected(fake_chain: FakeChain):
    fake_chain.provider.faults.append(
        faults.build_misdirected_responses_fault(max_connections=100)
    )
    endpoint = JsonRpcClient(fake_chain.urls[0])

    with pytest.raises(RpcError, match="received the response to another request") as caught:
        endpoint.call("eth_chainId", [], Quantity)
    with pytest.raises(RpcError, match="received the response to another request"):
        endpoint.call_batch("eth_chainId", [[], []], Quantity)

    assert caught.value.kind is ErrorKind.UNREACHABLE


def test_sender_rejects_misdirected_response_and_reconnects(
    fake_chain: FakeChain,
):
    fake_chain.provider.faults.append(faults.build_misdirected_responses_fault(max_connections=1))
    line = caller_of(fake_chain.urls[0])

    with pytest.raises(RpcError, match="received the response to another request"):
        line.request("eth_chainId")

    assert line.serves_chain(CHAIN_ID)
    line.endpoint.close()


def test_misdirected_chain_id_does_not_quarantine_the_endpoint(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    fake_chain.live(1)
    for provider in fake_chain.providers:
        provider.faults.append(
            faults.build_misdirected_responses_fault(max_connections=9, methods="eth_chainId")
        )
    indexer.source.endpoints.require_new_chain_proofs()

    with pytest.raises(TransientError):
        indexer.step()

    assert indexer.source.endpoints.get_quarantine_reasons() == {}


def test_endpoints_are_rechecked_quickly_if_all_report_wrong_chain(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    fake_chain.live(1)
    for provider in fake_chain.providers:
        provider.chain_id = 5
    indexer.source.endpoints.require_new_chain_proofs()
    with pytest.raises(TransientError, match="is on chain 5"):
        indexer.step()
    assert len(indexer.source.endpoints.get_quarantine_reasons()) == 2

    for provider in fake_chain.providers:
        provider.chain_id = CHAIN_ID
    clock.advance(SOLE_ENDPOINT_QUARANTINE_SECONDS)
    indexer.index()

    assert indexer.cursor == (fake_chain.head.number, fake_chain.head.hash)
    assert indexer.source.endpoints.get_quarantine_reasons() == {}


def test_endpoint_of_wrong_chain_stays_quarantined(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    fake_chain.provider.chain_id = 5
    indexer.source.endpoints.require_new_chain_proofs()
    indexer.step()

    fake_chain.provider.chain_id = CHAIN_ID
    clock.advance(2 * SOLE_ENDPOINT_QUARANTINE_SECONDS)
    indexer.step()

    assert list(indexer.source.endpoints.get_quarantine_reasons()) == [fake_chain.urls[0]]
