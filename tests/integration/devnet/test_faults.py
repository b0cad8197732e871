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
from devnet.fakechain.server import serving
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
    with serving(provider) as served, Caller(served.url) as caller:
        yield caller


def test_a_fault_strikes_so_many_times_and_never_again(ask, provider):
    provider.faults.append(blocks.nothing(times=2))
    answers = [ask("eth_getBlockByNumber", "0x1", False) for _ in range(3)]
    assert [answer is None for answer in answers] == [True, True, False]
    assert provider.faults[0].hits == 2


def test_a_fault_can_be_kept_to_some_blocks(ask, provider):
    provider.faults.append(logs.omits_logs(for_blocks=(2, 3)))
    assert ask("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"}) == []
    assert len(ask("eth_getLogs", {"fromBlock": "0x4", "toBlock": "0x5"})) == 4


def test_what_a_fault_leaves_alone_does_not_use_it_up(ask, provider):
    provider.faults.append(messages.limited_range(2, times=1))
    assert len(ask("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})) == 4
    assert ask("eth_getLogs", WHOLE)["code"] == messages.RANGE_WORDS[0].code
    assert len(ask("eth_getLogs", WHOLE)) == 10


def test_faults_add_up(ask, provider):
    provider.faults += [logs.capped(4), logs.omits_one(0)]
    assert len(ask("eth_getLogs", WHOLE)) == 3


def test_a_fault_spoils_no_honest_answer(ask, provider):
    provider.faults.append(logs.upper_case(times=1, methods=logs.RECEIPTS))
    spoiled, honest = (ask("eth_getBlockReceipts", "0x1") for _ in range(2))
    assert spoiled[0]["logs"][0]["address"] == "0x" + "5A" * 20
    assert honest[0]["logs"][0]["address"] == SPEAKER


def test_ranges_lose_what_a_hash_still_finds(ask, provider):
    provider.faults.append(logs.omits_in_ranges())
    assert ask("eth_getLogs", WHOLE) == []
    assert len(ask("eth_getLogs", {"blockHash": provider.head.hash})) == 2


def test_an_unknown_block_may_be_an_empty_one(ask, provider):
    provider.faults.append(logs.empty_where_unknown())
    assert ask("eth_getLogs", {"blockHash": "0x" + "77" * 32}) == []


def test_pruned_history_may_say_nothing(ask, provider):
    provider.faults.append(logs.pruned_silently(4))
    assert len(ask("eth_getLogs", WHOLE)) == 4
    assert ask("eth_getBlockReceipts", "0x3") is None
    assert len(ask("eth_getBlockReceipts", "0x4")) == 1


def test_a_cache_shows_what_was_before_a_reorg(ask, provider):
    provider.faults.append(blocks.cached(methods="eth_getBlockByNumber"))
    before = ask("eth_getBlockByNumber", "latest", False)["hash"]
    provider.head = provider.head.below()
    assert ask("eth_getBlockByNumber", "latest", False)["hash"] == before
    assert ask("eth_blockNumber") == "0x4"


def test_a_load_balancer_answers_from_two_nodes_in_turn(ask, provider):
    tree = grown(2)
    provider.faults.append(blocks.switched(Provider(tree), when=blocks.every_second()))
    assert [ask("eth_blockNumber") for _ in range(4)] == ["0x5", "0x2"] * 2


def test_logs_of_another_fork_come_with_the_headers_of_this_one(ask, provider):
    other = Provider(grown(5))
    other.head = other.head.below()
    provider.faults.append(logs.logs_of(other))
    assert len(ask("eth_getLogs", WHOLE)) == 8


def test_blooms_are_what_a_fault_says(ask, provider):
    for fault, bloom in (
        (blocks.zero_bloom(), 0),
        (blocks.saturated_bloom(), 2**2048 - 1),
        (blocks.other_bloom(compute_bloom_mask(SPEAKER)), compute_bloom_mask(SPEAKER)),
    ):
        provider.faults = [fault]
        assert int(ask("eth_getBlockByNumber", "0x1", False)["logsBloom"], 16) == bloom


def test_every_message_says_its_numbers(ask, provider):
    for row in DIALECTS:
        words = messages.Words(row.code, row.example)
        provider.faults = [messages.limited_range(2, words)]
        told = ask("eth_getLogs", WHOLE)
        assert told["code"] == words.code
        assert "{" not in told["message"]
        assert ("{limit}" not in words.message) or "2" in told["message"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (transport.status(403), 403),
        (transport.throttled(7), 429),
        (transport.throttled_in_200(), 200),
        (transport.web_page(), 200),
        (transport.empty_body(), 200),
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
        (transport.cut_off(), requests.exceptions.ChunkedEncodingError),
        (transport.reset(), requests.exceptions.ConnectionError),
        (transport.truncated(), requests.exceptions.JSONDecodeError),
        (transport.broken_gzip(), requests.exceptions.ContentDecodingError),
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

    assert ids(transport.shuffled_batch()) == [2, 1, 0]
    assert ids(transport.batch_without(1)) == [0, 2]
    assert ids(transport.batch_with_error(1)) == [0, 1, 2]
    provider.faults = [transport.refused_batch(2)]
    assert ask.batch(*calls)["error"]["code"] == -32007
    assert len(ask.batch(*calls[:2])) == 2


def test_a_slow_endpoint_takes_seconds_of_a_clock_that_nobody_waits_for(ask, provider):
    clock = VirtualClock()
    provider.faults.append(transport.slow(clock, 8, methods="eth_chainId"))
    began = clock()
    ask("eth_chainId")
    ask("eth_blockNumber")
    assert clock() - began == 8


def test_something_can_happen_between_two_answers(ask, provider):
    def reorg(_asked):
        provider.head = provider.head.below()

    provider.faults.append(transport.then(reorg, times=1))
    assert [ask("eth_blockNumber"), ask("eth_blockNumber")] == ["0x5", "0x4"]
