"""Providers with real users that deviate from JSON-RPC in their own way."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import log_faults, transport_faults as faults
from devnet.fakechain.faults.message_faults import ErrorMessage, build_error_fault
from devnet.fakechain.requests import FakeRequest, HttpResponse
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.profiles.event_reader import EventReader
from oracle.chain.source import ChainSource
from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.client import MAX_BATCH_SIZE, JsonRpcClient
from oracle.rpc.responses import Quantity
from oracle.rpc.rpc_errors import ErrorKind, RpcError
from tests.faults.ingest.conftest import OpenIndexer
from tests.pools import caller_of
from tests.support.chain.network_logs import NETWORK, ORACLE
from tests.support.ingest.endpoints import follow_until_idle, list_endpoints, read_metric
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import CHAIN_ID, CONTRACTS, FINALITY
from tests.support.ingest.reading import add_busy_blocks, read_feature_metric


@pytest.mark.parametrize(
    "words",
    [
        ErrorMessage(-32600, "Unsupported method: eth_getBlockReceipts"),
        ErrorMessage(-32601, "the method eth_getBlockReceipts does not exist/is not available"),
        ErrorMessage(-32000, "rpc method is not whitelisted"),
        ErrorMessage(403, "eth_getBlockReceipts: upgrade your plan"),
        ErrorMessage(-32099, "请求失败"),
    ],
)
def test_transaction_receipts_prove_blocks_without_block_receipts(
    fake_chain: FakeChain, open_indexer: OpenIndexer, words: ErrorMessage
):
    add_busy_blocks(fake_chain)
    clock = VirtualClock()
    fake_chain.provider.faults.append(build_error_fault(words, methods="eth_getBlockReceipts"))
    indexer = open_indexer(fake_chain.urls[0], clock=clock)

    took = follow_until_idle(indexer, clock)

    assert took == 0
    assert indexer.canonical_logs() == fake_chain.logs()
    assert read_feature_metric("receipts_root") == 1


def test_receipts_of_full_blocks_are_requested_individually(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    add_busy_blocks(fake_chain)
    error_message = ErrorMessage(-32600, "Unsupported method: eth_getBlockReceipts")
    fake_chain.provider.faults.append(
        build_error_fault(error_message, methods="eth_getBlockReceipts")
    )
    indexer = open_indexer(fake_chain.urls[0])
    reader = EventReader.from_profile("reference", CONTRACTS, ORACLE)
    reader.selectors = {Address(NETWORK): frozenset({"0x12345678"})}
    indexer.source = ChainSource(indexer.source.endpoints, reader, FINALITY)

    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()
    assert read_feature_metric("receipts_root") == 1


def build_batch_rejection(form: str) -> InjectedFault:
    """Return a fault that rejects batches, in one of many forms."""
    error = {"code": -32600, "message": "batch requests are not supported"}
    error_response = {"jsonrpc": "2.0", "id": None, "error": error}
    bodies = {
        "text in JSON": b'{"error": "batch requests are not allowed on this plan"}',
        "plain text": b"invalid json request",
        "one error": msgspec.json.encode(error_response),
        "an error with a code of its own": msgspec.json.encode(
            {**error_response, "error": {"code": -32601, "message": "method not found"}}
        ),
        "a list of one error": msgspec.json.encode([error_response]),
        "an empty list": b"[]",
        "a list of errors": msgspec.json.encode([error_response] * 3),
    }
    return faults.build_batch_limit_status_fault(form, bodies[form])


FORMS = [
    "text in JSON",
    "plain text",
    "one error",
    "an error with a code of its own",
    "a list of one error",
    "an empty list",
    "a list of errors",
]


@pytest.mark.parametrize("form", FORMS)
def test_endpoint_without_batch_support_gets_single_requests(
    fake_chain: FakeChain, open_indexer: OpenIndexer, form: str
):
    refusal = build_batch_rejection(form)
    fake_chain.provider.faults.append(refusal)
    clock = VirtualClock()
    indexer = open_indexer(fake_chain.urls[0], clock=clock)

    took = follow_until_idle(indexer, clock)
    learnt = refusal.hit_count
    fake_chain.live(5)
    follow_until_idle(indexer, clock)

    assert (took, refusal.hit_count - learnt) == (0, 0)
    assert list_endpoints(indexer)[0].client.batch_limit == 1
    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize("code", [401, 403, 405])
def test_batch_rejected_with_auth_status_does_not_stop_indexing(
    fake_chain: FakeChain, open_indexer: OpenIndexer, code: int
):
    fake_chain.provider.faults.append(
        faults.build_batch_limit_status_fault("no", b"no batches", code)
    )
    clock = VirtualClock()
    indexer = open_indexer(fake_chain.urls[0], clock=clock)

    assert follow_until_idle(indexer, clock) == 0
    assert indexer.canonical_logs() == fake_chain.logs()


def test_unsupported_method_in_batch_does_not_disable_batches(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    add_busy_blocks(fake_chain)

    def one_for_all(requests: Sequence[FakeRequest], sent: list[dict[str, Any]]) -> object:
        if requests[0].method != "eth_getBlockReceipts":
            return sent
        return HttpResponse(400, b'{"error": "Unsupported method: eth_getBlockReceipts"}')

    fake_chain.provider.faults += [
        InjectedFault("receipts refused", change_batch=one_for_all),
        build_error_fault(
            ErrorMessage(-32600, "Unsupported method"), methods="eth_getBlockReceipts"
        ),
    ]
    indexer = open_indexer(fake_chain.urls[0])

    indexer.index()

    assert list_endpoints(indexer)[0].client.batch_limit == MAX_BATCH_SIZE
    assert read_feature_metric("receipts_root") == 1


def test_sender_uses_single_requests_after_batch_is_refused(fake_chain: FakeChain):
    for form in FORMS:
        fake_chain.provider.faults[:] = [build_batch_rejection(form)]
        line = caller_of(fake_chain.urls[0])
        with pytest.raises(TransientError):
            line.request_all([("eth_chainId", []), ("eth_blockNumber", [])])

        assert line.request_all([("eth_chainId", []), ("eth_blockNumber", [])])
        line.endpoint.close()


ODD_ERRORS = {
    "text": b'{"jsonrpc":"2.0","id":null,"error":"the node is on holiday"}',
    "a code as text": b'{"id":null,"error":{"code":"-32000","message":"the node is on holiday"}}',
    "no message": b'{"id":null,"error":{"message":null,"data":"the node is on holiday"}}',
    "a list": b'{"id":null,"error":["the node is on holiday"]}',
    "nested error": b'{"id":null,"error":{"error":{"message":"the node is on holiday"}}}',
    "no JSON-RPC": b'{"message":"the node is on holiday"}',
    "HTML page": b"<html><body>the node is <b>on holiday</b></body></html>",
}


@pytest.mark.parametrize("code", [200, 400, 401, 500])
@pytest.mark.parametrize("shape", ODD_ERRORS)
def test_raised_error_contains_the_message_of_the_provider(
    fake_chain: FakeChain, shape: str, code: int
):
    fault = faults.build_http_response_fault(shape, HttpResponse(code, ODD_ERRORS[shape]))
    fake_chain.provider.faults.append(fault)

    with pytest.raises(RpcError, match="the node is on holiday"):
        JsonRpcClient(fake_chain.urls[0]).call("eth_blockNumber", [], Quantity)
    with pytest.raises(TransientError, match="the node is on holiday"):
        caller_of(fake_chain.urls[0]).request("eth_blockNumber")


def test_json_rpc_error_is_parsed_under_any_http_status(fake_chain: FakeChain):
    error_body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}'
    for code in (200, 400, 404, 405, 500):
        fake_chain.provider.faults[:] = [
            faults.build_http_response_fault("error", HttpResponse(code, error_body))
        ]
        with pytest.raises(RpcError) as caught:
            JsonRpcClient(fake_chain.urls[0]).call("eth_getBlockReceipts", [], list)
        assert (caught.value.kind, "no such method" in str(caught.value)) == (
            ErrorKind.UNSUPPORTED,
            True,
        )


@pytest.mark.parametrize(
    "change",
    [
        lambda body: b"\xef\xbb\xbf" + body,
        lambda body: body + b"\r\n \n",
        lambda body: re.sub(rb'"id":(\d+)', rb'"id":"\1"', body),
    ],
    ids=["byte order mark", "trailing spaces", "ids as text"],
)
def test_alternative_json_formatting_is_parsed(
    fake_chain: FakeChain, open_indexer: OpenIndexer, change: Callable[[bytes], bytes]
):
    fake_chain.provider.faults.append(
        faults.build_changed_body_fault(
            "written otherwise", lambda body: HttpResponse(body=change(body))
        )
    )
    indexer = open_indexer(fake_chain.urls[0])

    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()
    assert caller_of(fake_chain.urls[0]).serves_chain(CHAIN_ID)


TIMES = {
    "zero": "0x0",
    "milliseconds": hex(1_700_000_000_000),
    "decimal": "1700000000",
    "a number": 1_700_000_000,
    "another second": "0x6553f101",
    "a date": "2023-11-14T22:13:20Z",
    "an object": {},
}


@pytest.mark.parametrize("history", [True, False], ids=["history", "head"])
@pytest.mark.parametrize("written", TIMES)
def test_header_time_replaces_a_different_log_time(
    fake_chain: FakeChain, open_indexer: OpenIndexer, written: str, *, history: bool
):
    if history:
        fake_chain.mine_empty(FINALITY)
    fake_chain.provider.faults.append(
        log_faults.build_changed_log_field_fault("blockTimestamp", TIMES[written])
    )
    indexer = open_indexer(fake_chain.urls[0], reports=not history)
    before = read_metric("oracle_log_timestamp_mismatches_total", endpoint=fake_chain.urls[0])

    indexer.index()

    with indexer.store.read_transaction() as uow:
        times = {log.block: log.time for log in uow.logs.iterate_between(0, 2**62)}
    true = {block.number: block.time for block in get_branch(fake_chain.head)}
    assert times == {number: true[number] for number in times}
    assert indexer.canonical_logs() == fake_chain.logs()
    assert (
        read_metric("oracle_log_timestamp_mismatches_total", endpoint=fake_chain.urls[0]) > before
    )


def test_block_hash_mismatch_error_contains_both_hashes(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.mine_empty(FINALITY)
    wrong = "0x" + "ab" * 32
    fake_chain.provider.faults.append(log_faults.build_changed_log_field_fault("blockHash", wrong))
    indexer = open_indexer(fake_chain.urls[0], reports=False)
    both = rf"block \d+ have different hashes: logs {wrong}, header 0x[0-9a-f]{{64}}$"

    with pytest.raises(TransientError, match=both):
        indexer.index()
