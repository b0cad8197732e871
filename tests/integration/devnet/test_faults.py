"""Every fault changes exactly the responses that it describes."""

import pytest
import requests

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import (
    block_faults as blocks,
    log_faults as logs,
    message_faults as messages,
    transport_faults as transport,
)
from devnet.fakechain.provider import Provider
from devnet.fakechain.server import serve_endpoint
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.proofs.receipts import compute_bloom_mask
from oracle.rpc.provider_dialects import DIALECTS
from tests.unit.devnet.networks import SPEAKER, Caller, grown

ALL_BLOCKS = {"fromBlock": "0x0", "toBlock": "latest"}


@pytest.fixture
def provider():
    return Provider(grown())


@pytest.fixture
def ask(provider):
    with serve_endpoint(provider) as served, Caller(served.url) as caller:
        yield caller


def test_fault_applies_a_limited_number_of_times(ask, provider):
    provider.faults.append(blocks.build_null_result_fault(times=2))
    answers = [ask("eth_getBlockByNumber", "0x1", False) for _ in range(3)]
    assert [answer is None for answer in answers] == [True, True, False]
    assert provider.faults[0].hit_count == 2


def test_fault_can_be_limited_to_certain_blocks(ask, provider):
    provider.faults.append(logs.build_omitted_logs_fault(for_blocks=(2, 3)))
    assert ask("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"}) == []
    assert len(ask("eth_getLogs", {"fromBlock": "0x4", "toBlock": "0x5"})) == 4


def test_unrelated_request_does_not_consume_a_fault(ask, provider):
    provider.faults.append(messages.build_range_limit_fault(2, times=1))
    assert len(ask("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})) == 4
    assert ask("eth_getLogs", ALL_BLOCKS)["code"] == messages.RANGE_MESSAGES[0].code
    assert len(ask("eth_getLogs", ALL_BLOCKS)) == 10


def test_several_faults_apply_to_one_response(ask, provider):
    provider.faults += [logs.build_capped_logs_fault(4), logs.build_omitted_log_fault(0)]
    assert len(ask("eth_getLogs", ALL_BLOCKS)) == 3


def test_fault_does_not_change_later_responses(ask, provider):
    provider.faults.append(logs.build_uppercase_hex_fault(times=1, methods=logs.RECEIPT_METHODS))
    spoiled, honest = (ask("eth_getBlockReceipts", "0x1") for _ in range(2))
    assert spoiled[0]["logs"][0]["address"] == "0x" + "5A" * 20
    assert honest[0]["logs"][0]["address"] == SPEAKER


def test_logs_omitted_from_range_queries_are_returned_by_block_hash(ask, provider):
    provider.faults.append(logs.build_omitted_range_logs_fault())
    assert ask("eth_getLogs", ALL_BLOCKS) == []
    assert len(ask("eth_getLogs", {"blockHash": provider.head.hash})) == 2


def test_unknown_block_fault_returns_an_empty_log_list(ask, provider):
    provider.faults.append(logs.build_empty_logs_for_unknown_block_fault())
    assert ask("eth_getLogs", {"blockHash": "0x" + "77" * 32}) == []


def test_silent_pruning_returns_empty_logs_and_null_receipts(ask, provider):
    provider.faults.append(logs.build_silent_pruning_fault(4))
    assert len(ask("eth_getLogs", ALL_BLOCKS)) == 4
    assert ask("eth_getBlockReceipts", "0x3") is None
    assert len(ask("eth_getBlockReceipts", "0x4")) == 1


def test_stale_cache_fault_returns_the_block_from_before_a_reorg(ask, provider):
    provider.faults.append(blocks.build_stale_cache_fault(methods="eth_getBlockByNumber"))
    before = ask("eth_getBlockByNumber", "latest", False)["hash"]
    provider.head = provider.head.get_ancestor()
    assert ask("eth_getBlockByNumber", "latest", False)["hash"] == before
    assert ask("eth_blockNumber") == "0x4"


def test_forwarding_fault_alternates_between_two_nodes(ask, provider):
    tree = grown(2)
    provider.faults.append(
        blocks.build_forwarding_fault(Provider(tree), when=blocks.match_every_second_request())
    )
    assert [ask("eth_blockNumber") for _ in range(4)] == ["0x5", "0x2"] * 2


def test_logs_of_another_fork_are_returned_with_current_headers(ask, provider):
    fork_provider = Provider(grown(5))
    fork_provider.head = fork_provider.head.get_ancestor()
    provider.faults.append(logs.build_foreign_logs_fault(fork_provider))
    assert len(ask("eth_getLogs", ALL_BLOCKS)) == 8


def test_bloom_faults_replace_logs_bloom(ask, provider):
    for fault, bloom in (
        (blocks.build_zero_bloom_fault(), 0),
        (blocks.build_saturated_bloom_fault(), 2**2048 - 1),
        (blocks.build_wrong_bloom_fault(compute_bloom_mask(SPEAKER)), compute_bloom_mask(SPEAKER)),
    ):
        provider.faults = [fault]
        assert int(ask("eth_getBlockByNumber", "0x1", False)["logsBloom"], 16) == bloom


def test_every_range_error_message_contains_the_limit(ask, provider):
    for row in DIALECTS:
        error_message = messages.ErrorMessage(row.code, row.example)
        provider.faults = [messages.build_range_limit_fault(2, error_message)]
        error = ask("eth_getLogs", ALL_BLOCKS)
        assert error["code"] == error_message.code
        assert "{" not in error["message"]
        assert ("{limit}" not in error_message.message) or "2" in error["message"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (transport.build_http_status_fault(403), 403),
        (transport.build_429_fault(7), 429),
        (transport.build_429_in_200_fault(), 200),
        (transport.build_html_fault(), 200),
        (transport.build_empty_body_fault(), 200),
    ],
    ids=lambda endpoint: endpoint.name if isinstance(endpoint, InjectedFault) else str(endpoint),
)
def test_http_fault_replaces_the_json_response(ask, provider, fault, status):
    provider.faults = [fault]
    answered = ask.session.post(
        ask.url, json={"id": 1, "method": "eth_chainId", "params": []}, timeout=120
    )
    assert answered.status_code == status
    assert b"0x7a69" not in answered.content


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (transport.build_cut_connection_fault(), requests.exceptions.ChunkedEncodingError),
        (transport.build_reset_connection_fault(), requests.exceptions.ConnectionError),
        (transport.build_truncated_body_fault(), requests.exceptions.JSONDecodeError),
        (transport.build_corrupt_gzip_fault(), requests.exceptions.ContentDecodingError),
    ],
    ids=lambda endpoint: endpoint.name if isinstance(endpoint, InjectedFault) else "",
)
def test_broken_response_body_raises_an_error_in_the_http_client(ask, provider, fault, error):
    provider.faults = [fault]
    with pytest.raises((error, requests.exceptions.ChunkedEncodingError)):
        ask("eth_getLogs", ALL_BLOCKS)
    provider.faults = []
    assert ask("eth_chainId") == "0x7a69"


def test_batch_faults_reorder_omit_fail_or_reject_calls(ask, provider):
    calls = [("eth_chainId",)] * 3

    def ids(fault):
        provider.faults = [fault]
        return [answer["id"] for answer in ask.batch(*calls)]

    assert ids(transport.build_reversed_batch_fault()) == [2, 1, 0]
    assert ids(transport.build_omitted_response_fault(1)) == [0, 2]
    assert ids(transport.build_failed_call_fault(1)) == [0, 1, 2]
    provider.faults = [transport.build_batch_limit_fault(2)]
    assert ask.batch(*calls)["error"]["code"] == -32007
    assert len(ask.batch(*calls[:2])) == 2


def test_slow_response_fault_advances_virtual_clock(ask, provider):
    clock = VirtualClock()
    provider.faults.append(transport.build_delayed_response_fault(clock, 8, methods="eth_chainId"))
    began = clock()
    ask("eth_chainId")
    ask("eth_blockNumber")
    assert clock() - began == 8


def test_callback_fault_runs_between_two_responses(ask, provider):
    def reorg(_request):
        provider.head = provider.head.get_ancestor()

    provider.faults.append(transport.build_callback_fault(reorg, times=1))
    assert [ask("eth_blockNumber"), ask("eth_blockNumber")] == ["0x5", "0x4"]
