"""What the indexer has learned about an endpoint applies to the sending side, too."""

from collections.abc import Iterator

import pytest

from oracle.domain.ids import Address
from oracle.errors import TransientError
from oracle.rpc.endpoints.rate_limiter import Backoff
from oracle.rpc.pool import EndpointPool
from oracle.rpc.rpc_errors import ErrorKind, NoEndpointError, RpcError
from oracle.txmgr.client.receipts import fetch_balance
from tests.integration.http.test_transports import Endpoint, first_endpoint, other
from tests.pools import pool_of

__all__ = ["first_endpoint", "other"]

RAW = b"\x02signed"
ACCOUNT = Address("0x" + 40 * "5")


@pytest.fixture
def pool(first_endpoint: Endpoint, other: Endpoint) -> Iterator[EndpointPool]:
    opened = pool_of(first_endpoint.url, other.url)
    yield opened
    opened.close()


def methods(endpoint: Endpoint) -> list[str]:
    return [request["method"] for request in endpoint.received_requests]


def test_quarantined_endpoint_is_skipped_but_counts_towards_the_quorum(
    pool: EndpointPool, first_endpoint: Endpoint, other: Endpoint
):
    first, _ = pool
    pool.quarantine(first, "showed a false block")
    view = pool.create_view()
    other.response = "0x7"

    assert view.request_from_first([("eth_blockNumber", ())]) == ["0x7"]
    assert [
        answer
        for _, answer in view.read_from_each(lambda caller: caller.request("eth_blockNumber"))
    ] == ["0x7"]
    assert [caller.name for caller in view.with_head_at_least(7).callers] == [view.callers[1].name]
    assert (
        first_endpoint.received_requests,
        view.quorum.size,
        view.with_head_at_least(7).quorum.size,
    ) == (
        [],
        2,
        2,
    )


def test_broadcast_ignores_backoff_and_does_not_extend_it(first_endpoint: Endpoint):
    now = [0.0]
    pool = pool_of(first_endpoint.url, clock=lambda: now[0])
    (endpoint,) = pool
    first_endpoint.status = 429
    first_endpoint.headers = {"Retry-After": "40"}
    first_endpoint.response = b"slow down"
    with pytest.raises(RpcError):
        pool.create_view().request("eth_blockNumber")
    now[0] = 30.0

    (error_by_endpoint,) = pool.broadcast([RAW])
    error = error_by_endpoint[endpoint.name]

    assert methods(first_endpoint) == ["eth_blockNumber", "eth_sendRawTransaction"]
    assert error is not None
    assert error.kind is ErrorKind.THROTTLED
    assert endpoint.health.backoff.get_remaining_seconds() == 10
    pool.close()


def test_broadcast_goes_to_every_endpoint_of_the_chain(
    pool: EndpointPool, first_endpoint: Endpoint, other: Endpoint
):
    first, second = pool
    pool.quarantine(first, "is on chain 5", is_on_other_chain=True)
    pool.quarantine(second, "refused repeatedly")

    (error_by_endpoint,) = pool.broadcast([RAW])

    assert (first_endpoint.received_requests, methods(other)) == ([], ["eth_sendRawTransaction"])
    assert error_by_endpoint[first.name] is not None
    assert error_by_endpoint[second.name] is None


def test_balance_is_not_cached_and_falls_back_to_next_endpoint(
    pool: EndpointPool, first_endpoint: Endpoint, other: Endpoint
):
    first_endpoint.response, other.response = "0x10", "0x20"
    assert [fetch_balance(pool.create_view(), ACCOUNT) for _ in range(2)] == [16, 16]
    assert len(first_endpoint.received_requests) == 2
    first_endpoint.response = b"<html>"
    assert fetch_balance(pool.create_view(), ACCOUNT) == 32


def test_endpoint_that_throttles_the_sender_is_avoided_by_the_indexer(
    pool: EndpointPool, first_endpoint: Endpoint, other: Endpoint
):
    first_endpoint.status = 429
    first_endpoint.headers = {"Retry-After": "40"}
    first_endpoint.response = b"slow down"
    other.response = "0x7a69"
    assert pool.create_view().request("eth_chainId") == "0x7a69"

    def name_of(endpoint: object) -> str:
        return getattr(endpoint, "name", "")

    assert pool.run_with_endpoint(name_of) == [*pool][1].name


def test_endpoint_that_throttles_the_indexer_is_avoided_by_the_sender(pool: EndpointPool):
    first, second = pool
    first.health.backoff = second.health.backoff = Backoff(lambda: 0.0)
    for endpoint in pool:
        endpoint.health.rate_limiter.record_throttling(40.0)
    with pytest.raises(TransientError, match="no requests for another"):
        pool.create_view().request("eth_blockNumber")


def test_pool_without_endpoints_raises_input_error():
    with pytest.raises(NoEndpointError, match="name at least one"):
        pool_of()
