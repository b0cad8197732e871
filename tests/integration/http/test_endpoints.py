"""Several endpoints: the first healthy one does the work."""

from dataclasses import dataclass

import pytest

from oracle.errors import InputError, TransientError
from oracle.rpc.endpoints.endpoint import Endpoint
from oracle.rpc.pool import EndpointPool
from oracle.rpc.responses import Quantity
from oracle.rpc.rpc_errors import ErrorKind
from tests.support.chain.fixtures import Serve
from tests.support.chain.memory_chain import MemoryChain
from tests.support.chain.server import Http, Served


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def both(serve: Serve) -> tuple[Served, Served]:
    return serve(MemoryChain()), serve(MemoryChain())


def on(clock: Clock, *served: Served) -> EndpointPool:
    return EndpointPool.from_urls([endpoint.url for endpoint in served], 31337, clock)


def name_of(endpoint: Endpoint) -> str:
    """Send a request, and return the name of the endpoint that answered."""
    endpoint.client.call("eth_blockNumber", [], Quantity)
    return endpoint.name


def breaks(served: Served, http: Http) -> None:
    served.faults.append(lambda _: http)


def test_first_endpoint_is_preferred(clock: Clock, both: tuple[Served, Served]):
    assert on(clock, *both).run_with_endpoint(name_of) == both[0].url


def test_next_endpoint_is_used_after_the_first_fails(clock: Clock, both: tuple[Served, Served]):
    breaks(both[0], Http(status=502))

    assert on(clock, *both).run_with_endpoint(name_of) == both[1].url


def test_preferred_endpoint_is_used_again_after_one_minute(
    clock: Clock, both: tuple[Served, Served]
):
    endpoints = on(clock, *both)
    breaks(both[0], Http(status=502))
    for _ in range(10):
        endpoints.run_with_endpoint(name_of)
        clock.now += 60
    both[0].faults.clear()

    assert endpoints.run_with_endpoint(name_of) == both[0].url


def test_endpoint_in_backoff_receives_no_request(clock: Clock, both: tuple[Served, Served]):
    endpoints = on(clock, *both)
    breaks(both[0], Http(status=502))
    endpoints.run_with_endpoint(name_of)
    before = len(both[0].received_requests)

    endpoints.run_with_endpoint(name_of)

    assert len(both[0].received_requests) == before


def test_lagging_endpoint_is_skipped_without_backoff(clock: Clock, both: tuple[Served, Served]):
    endpoints = on(clock, *both)
    lags = True

    def waits(request: object) -> Http | None:
        fault = b'{"id":null,"error":{"code":-32000,"message":"header not found"}}'
        return Http(body=fault) if lags and "Number" in str(request) else None

    both[0].faults.append(waits)
    assert endpoints.run_with_endpoint(name_of) == both[1].url

    lags = False
    assert endpoints.run_with_endpoint(name_of) == both[0].url


def test_error_of_all_endpoints_lists_every_reason(clock: Clock, both: tuple[Served, Served]):
    breaks(both[0], Http(status=502))
    breaks(both[1], Http(status=401))

    with pytest.raises(TransientError, match=r"HTTP 401.*HTTP 502"):
        on(clock, *both).run_with_endpoint(name_of)


def test_throttling_endpoint_receives_no_request_before_retry_after(clock: Clock, serve: Serve):
    served = serve(MemoryChain())
    endpoints = on(clock, served)
    breaks(served, Http(status=429, headers={"Retry-After": "30"}))
    with pytest.raises(TransientError):
        endpoints.run_with_endpoint(name_of)
    served.faults.clear()
    before = len(served.received_requests)

    clock.now += 29
    with pytest.raises(TransientError, match=ErrorKind.THROTTLED):
        endpoints.run_with_endpoint(name_of)
    assert len(served.received_requests) == before

    clock.now += 2
    assert endpoints.run_with_endpoint(name_of) == served.url


def test_backoff_of_all_endpoints_is_capped_at_one_minute(
    clock: Clock, both: tuple[Served, Served]
):
    endpoints = on(clock, *both)
    breaks(both[0], Http(status=429, headers={"Retry-After": "3600"}))
    assert endpoints.run_with_endpoint(name_of) == both[1].url
    before = len(both[0].received_requests)

    # While the other endpoint works, the pause is kept.
    clock.now += 600
    assert endpoints.run_with_endpoint(name_of) == both[1].url
    assert len(both[0].received_requests) == before

    breaks(both[1], Http(status=429, headers={"Retry-After": "3600"}))
    both[0].faults.clear()
    with pytest.raises(TransientError, match="requested a pause of 3600 s"):
        endpoints.run_with_endpoint(name_of)
    # The pause of the first endpoint began ten minutes ago.
    assert endpoints.run_with_endpoint(name_of) == both[0].url

    breaks(both[0], Http(status=429, headers={"Retry-After": "3600"}))
    for elapsed_seconds in (0, 59):
        clock.now += elapsed_seconds
        with pytest.raises(TransientError, match=r"rate-limited|429"):
            endpoints.run_with_endpoint(name_of)
    both[1].faults.clear()
    clock.now += 2
    assert endpoints.run_with_endpoint(name_of) == both[1].url


def test_wrong_chain_is_reported_before_any_block_is_requested(clock: Clock, serve: Serve):
    served = serve(MemoryChain(chain_id=5))

    with pytest.raises(InputError, match=r"is on chain 5, .* is 31337"):
        on(clock, served).run_with_endpoint(name_of)
    assert served.count("eth_blockNumber") == 0


def test_chain_id_is_checked_again_after_a_failure(clock: Clock, serve: Serve):
    served = serve(MemoryChain())
    endpoints = on(clock, served)
    breaks(served, Http(status=502))
    with pytest.raises(TransientError):
        endpoints.run_with_endpoint(name_of)
    served.faults.clear()
    served.chain.chain_id = 5

    with pytest.raises(InputError, match="chain 5"):
        endpoints.run_with_endpoint(name_of)


def test_empty_endpoint_list_raises_input_error(clock: Clock):
    with pytest.raises(InputError, match="at least one"):
        EndpointPool([], 31337, clock)
