"""The fault proxy: its effect on requests, and a harness that works through it."""

from typing import Any

import pytest
import requests

from tests.support.harness import Harness, OracleTestbed
from tests.support.sending import faults
from tests.support.sending.proxy import EVERY, SEND, Proxy


def send_request(proxy: Proxy, method: str, *params: object) -> Any:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": list(params)}
    return requests.post(proxy.url, json=body, timeout=120).json()


def test_push_through_two_proxies_sends_same_bytes_to_each(
    proxied_harness: Harness, proxies: tuple[Proxy, Proxy]
):
    proxied_harness.pushed()
    first, second = proxies
    assert len(first.sent) == 1
    assert first.sent == second.sent


def test_proxy_rule_can_skip_requests_and_expire(testbed: OracleTestbed, open_proxy):
    proxy = open_proxy()
    rule = proxy.rule("eth_blockNumber", faults.return_error("busy", -32005), skip=1, times=2)
    responses = [send_request(proxy, "eth_blockNumber") for _ in range(4)]
    assert ["error" in response for response in responses] == [False, True, True, False]
    assert rule.hit == 2
    assert proxy.count("eth_blockNumber") == 4


def test_proxy_rule_applies_to_each_call_of_a_batch(open_proxy):
    proxy = open_proxy()
    proxy.rule("eth_chainId", faults.return_chain_id(5))
    body = [
        {"jsonrpc": "2.0", "id": place, "method": method, "params": []}
        for place, method in enumerate(("eth_blockNumber", "eth_chainId"))
    ]
    response_by_id = {
        response["id"]: response
        for response in requests.post(proxy.url, json=body, timeout=120).json()
    }
    assert response_by_id[1]["result"] == "0x5"
    assert int(response_by_id[0]["result"], 16) > 0


@pytest.mark.parametrize("fault", [faults.drop_response(), faults.cut_response()])
def test_broken_connection_raises_request_error(open_proxy, fault):
    proxy = open_proxy()
    proxy.rule(EVERY, fault)
    with pytest.raises(requests.exceptions.RequestException):
        send_request(proxy, "eth_blockNumber")


def test_stale_endpoint_stays_at_its_block(testbed: OracleTestbed, open_proxy):
    proxy = open_proxy()
    head = testbed.chain.block - 1
    proxy.rule(EVERY, faults.freeze_at_block(head))
    assert send_request(proxy, "eth_blockNumber")["result"] == hex(head)
    latest = send_request(proxy, "eth_getBlockByNumber", "latest", False)["result"]
    assert latest["number"] == hex(head)
    assert send_request(proxy, "eth_getBlockByNumber", hex(head + 1), False)["result"] is None


def test_blocks_of_another_fork_link_to_each_other(testbed: OracleTestbed, open_proxy):
    proxy = open_proxy()
    first = testbed.chain.block - 1
    proxy.rule(EVERY, faults.show_other_fork(first))
    below, lower, upper = (
        send_request(proxy, "eth_getBlockByNumber", hex(number), False)["result"]
        for number in (first - 1, first, first + 1)
    )
    assert upper["parentHash"] == lower["hash"]
    assert lower["parentHash"] == below["hash"]
    true = testbed.chain.rpc("eth_getBlockByNumber", hex(first), False)
    assert lower["hash"] != true["hash"]


def test_response_is_held_until_its_gate_opens(testbed: OracleTestbed, open_proxy):
    proxy = open_proxy()
    gate = faults.Gate()
    proxy.rule(SEND, faults.hold_request(gate))
    gate.release()
    response = send_request(proxy, SEND, "0x00")
    assert gate.reached.is_set()
    assert "error" in response
