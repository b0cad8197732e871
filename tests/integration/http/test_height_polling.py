"""How often an endpoint is queried for its height."""

from collections.abc import Iterator

import pytest

from oracle.rpc.rpc_errors import RpcError
from tests.pools import caller_of
from tests.support.sending.faults import Fault, drop_response, respond_with
from tests.support.sending.proxy import Proxy, run_proxy

HEIGHT = "eth_blockNumber"


@pytest.fixture
def endpoint() -> Iterator[Proxy]:
    """Yield an endpoint without a chain, whose responses the test sets."""
    with run_proxy("http://127.0.0.1:9") as opened_proxy:
        yield opened_proxy


def test_height_is_requested_once_per_tick(endpoint: Proxy):
    now = 100.0
    line = caller_of(endpoint.url, clock=lambda: now)
    folded_to(endpoint, 7)
    assert all(line.has_reached_block(7) for _ in range(3))
    assert endpoint.count(HEIGHT) == 1

    # Another block and another tick each cause a request.
    assert not line.has_reached_block(8)
    now += 1.0
    folded_to(endpoint, 6)
    assert not line.has_reached_block(7)
    line.endpoint.close()


def test_height_is_requested_again_after_a_failure(endpoint: Proxy):
    line = caller_of(endpoint.url, clock=lambda: 100.0)
    folded_to(endpoint, 7)
    assert line.has_reached_block(7)
    endpoint.rule("eth_call", drop_response())
    with pytest.raises(RpcError):
        line.request("eth_call")
    # The address may now lead to another node.
    folded_to(endpoint, 6)
    assert not line.has_reached_block(7)
    line.endpoint.close()


def folded_to(endpoint: Proxy, height: int) -> None:
    endpoint.heal()
    height_fault: Fault = respond_with(hex(height))
    endpoint.rule(HEIGHT, height_fault)
