"""Every fault spoils what it says, where it may, and nothing else."""

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
from oracle.chain.proofs.bloom import compute_bloom_mask
from oracle.rpc.provider_dialects import DIALECTS
from tests.unit.devnet.networks import SPEAKER, Caller, grown

WHOLE = {"fromBlock": "0x0", "toBlock": "latest"}


@pytest.fixture
def provider():
    return Provider(grown())


@pytest.fixture
def ask(provider):
    with serve_endpoint(provider) as served, Caller(served.url) as caller:
        yield caller


def test_a_fault_strikes_so_many_times_and_never_again(ask, provider):
    provider.faults.append(blocks.return_null(times=2))
    answers = [ask("eth_getBlockByNumber", "0x1", False) for _ in range(3)]
    assert [answer is None for answer in answers] == [True, True, False]
    assert provider.faults[0].hits == 2


def test_a_fault_can_be_kept_to_some_blocks(ask, provider):
    provider.faults.append(logs.omit_logs(for_blocks=(2, 3)))
    assert ask("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"}) == []
    assert len(ask("eth_getLogs", {"fromBlock": "0x4", "toBlock": "0x5"})) == 4


def test_what_a_fault_leaves_alone_does_not_use_it_up(ask, provider):
    provider.faults.append(messages.limit_range(2, times=1))
    assert len(ask("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})) == 4
    assert ask("eth_getLogs", WHOLE)["code"] == messages.RANGE_MESSAGES[0].code
    assert len(ask("eth_getLogs", WHOLE)) == 10


def test_faults_add_up(ask, provider):
    provider.faults += [logs.cap_logs(4), logs.omit_log(0)]
    assert len(ask("eth_getLogs", WHOLE)) == 3


def test_a_fault_spoils_no_honest_answer(ask, provider):
    provider.faults.append(logs.uppercase_hex(times=1, methods=logs.RECEIPT_METHODS))
    spoiled, honest = (ask("eth_getBlockReceipts", "0x1") for _ in range(2))
    assert spoiled[0]["logs"][0]["address"] == "0x" + "5A" * 20
    assert honest[0]["logs"][0]["address"] == SPEAKER


def test_ranges_lose_what_a_hash_still_finds(ask, provider):
    provider.faults.append(logs.omit_logs_of_ranges())
    assert ask("eth_getLogs", WHOLE) == []
    assert len(ask("eth_getLogs", {"blockHash": provider.head.hash})) == 2


def test_an_unknown_block_may_be_an_empty_one(ask, provider):
    provider.faults.append(logs.return_empty_for_unknown())
    assert ask("eth_getLogs", {"blockHash": "0x" + "77" * 32}) == []


def test_pruned_history_may_say_nothing(ask, provider):
    provider.faults.append(logs.serve_pruned_silently(4))
    assert len(ask("eth_getLogs", WHOLE)) == 4
    assert ask("eth_getBlockReceipts", "0x3") is None
    assert len(ask("eth_getBlockReceipts", "0x4")) == 1


def test_a_cache_shows_what_was_before_a_reorg(ask, provider):
    provider.faults.append(blocks.serve_cached(methods="eth_getBlockByNumber"))
    before = ask("eth_getBlockByNumber", "latest", False)["hash"]
    provider.head = provider.head.below()
    assert ask("eth_getBlockByNumber", "latest", False)["hash"] == before
    assert ask("eth_blockNumber") == "0x4"


def test_a_load_balancer_answers_from_two_nodes_in_turn(ask, provider):
    tree = grown(2)
    provider.faults.append(blocks.forward_to(Provider(tree), when=blocks.match_every_second()))
    assert [ask("eth_blockNumber") for _ in range(4)] == ["0x5", "0x2"] * 2


def test_logs_of_another_fork_come_with_the_headers_of_this_one(ask, provider):
    other = Provider(grown(5))
    other.head = other.head.get_ancestor()
    provider.faults.append(logs.serve_logs_of(other))
    assert len(ask("eth_getLogs", WHOLE)) == 8


def test_blooms_are_what_a_fault_says(ask, provider):
    for fault, bloom in (
        (blocks.serve_zero_bloom(), 0),
        (blocks.serve_saturated_bloom(), 2**2048 - 1),
        (blocks.serve_wrong_bloom(compute_bloom_mask(SPEAKER)), compute_bloom_mask(SPEAKER)),
    ):
        provider.faults = [fault]
        assert int(ask("eth_getBlockByNumber", "0x1", False)["logsBloom"], 16) == bloom


def test_every_message_says_its_numbers(ask, provider):
    for row in DIALECTS:
        words = messages.ErrorMessage(row.code, row.example)
        provider.faults = [messages.limit_range(2, words)]
        told = ask("eth_getLogs", WHOLE)
        assert told["code"] == words.code
        assert "{" not in told["message"]
        assert ("{limit}" not in words.message) or "2" in told["message"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (transport.return_status(403), 403),
        (transport.return_429(7), 429),
        (transport.return_429_in_200(), 200),
        (transport.return_html(), 200),
        (transport.return_empty_body(), 200),
    ],
    ids=lambda one: one.name if isinstance(one, InjectedFault) else str(one),
)
def test_a_whole_http_answer_comes_in_place_of_json(ask, provider, fault, status):
    provider.faults = [fault]
    answered = ask.session.post(
        ask.url, json={"id": 1, "method": "eth_chainId", "params": []}, timeout=120
    )
    assert answered.status_code == status
    assert b"0x7a69" not in answered.content


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (transport.cut_connection(), requests.exceptions.ChunkedEncodingError),
        (transport.reset_connection(), requests.exceptions.ConnectionError),
        (transport.truncate_body(), requests.exceptions.JSONDecodeError),
        (transport.corrupt_gzip(), requests.exceptions.ContentDecodingError),
    ],
    ids=lambda one: one.name if isinstance(one, InjectedFault) else "",
)
def test_a_broken_body_is_noticed_by_an_http_client(ask, provider, fault, error):
    provider.faults = [fault]
    with pytest.raises((error, requests.exceptions.ChunkedEncodingError)):
        ask("eth_getLogs", WHOLE)
    provider.faults = []
    assert ask("eth_chainId") == "0x7a69"


def test_batches_come_shuffled_with_gaps_with_errors_or_not_at_all(ask, provider):
    calls = [("eth_chainId",)] * 3

    def ids(fault):
        provider.faults = [fault]
        return [answer["id"] for answer in ask.batch(*calls)]

    assert ids(transport.reverse_batch()) == [2, 1, 0]
    assert ids(transport.omit_response(1)) == [0, 2]
    assert ids(transport.fail_one_call(1)) == [0, 1, 2]
    provider.faults = [transport.reject_batch(2)]
    assert ask.batch(*calls)["error"]["code"] == -32007
    assert len(ask.batch(*calls[:2])) == 2


def test_a_slow_endpoint_takes_seconds_of_a_clock_that_nobody_waits_for(ask, provider):
    clock = VirtualClock()
    provider.faults.append(transport.delay_response(clock, 8, methods="eth_chainId"))
    began = clock()
    ask("eth_chainId")
    ask("eth_blockNumber")
    assert clock() - began == 8


def test_something_can_happen_between_two_answers(ask, provider):
    def reorg(_asked):
        provider.head = provider.head.below()

    provider.faults.append(transport.run_after(reorg, times=1))
    assert [ask("eth_blockNumber"), ask("eth_blockNumber")] == ["0x5", "0x4"]
