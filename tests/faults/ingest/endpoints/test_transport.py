"""Cases 33 and 37 to 44: faults between the indexer and an endpoint."""

import time
from collections.abc import Callable
from threading import Event

import pytest

from devnet.fakechain.fault import FaultLimits, InjectedFault
from devnet.fakechain.faults import block_faults, message_faults, transport_faults as faults
from devnet.fakechain.requests import FakeRequest
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.rpc.rpc_errors import ErrorKind
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import (
    count_requests,
    follow_until_idle,
    list_endpoints,
    read_metric,
)
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def single_endpoint_indexer(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer with only the first endpoint; it has read the chain up to block 30."""
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    return indexer


def list_requested_log_ranges(fake_chain: FakeChain) -> list[tuple[int, int] | None]:
    """Return every range of logs that the first endpoint was asked for."""
    return [
        request.block_range
        for request in fake_chain.provider.received_requests
        if request.method == "eth_getLogs"
    ]


# --- quota and size ---


def test_case_33_quota_error_retries_the_same_range_after_a_wait(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    quota = message_faults.build_error_fault(
        message_faults.RATE_MESSAGE, methods="eth_getLogs", times=1
    )
    fake_chain.provider.faults.append(quota)

    waited = follow_until_idle(indexer, clock)

    first, second = list_requested_log_ranges(fake_chain)[:2]
    assert (quota.hit_count, first == second, waited > 0) == (1, True, True)
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_33_result_limit_with_the_same_code_splits_the_range(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    fake_chain.provider.faults.append(
        message_faults.build_result_limit_fault(9, message_faults.DENSITY_MESSAGE)
    )

    assert follow_until_idle(indexer, clock) == 0
    assert indexer.canonical_logs() == fake_chain.logs()


# --- throttling ---


IN_SECONDS_OR_AS_DATE = pytest.mark.parametrize(
    "retry_after", [90, faults.IN_NINETY_SECONDS], ids=["seconds", "date"]
)


@IN_SECONDS_OR_AS_DATE
def test_case_37_retry_after_is_respected_exactly(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock, retry_after: int | str
):
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    throttled = fake_chain.provider
    throttled.faults.append(faults.build_429_fault(retry_after, times=1))
    fake_chain.live(1)
    indexer.index()
    assert throttled.faults[0].hit_count == 1

    for seconds, is_used in ((89, False), (1.1, True)):
        clock.advance(seconds)
        fake_chain.live(1)
        assert (count_requests(throttled, indexer.index) > 0) == is_used
        assert indexer.cursor[0] == fake_chain.head.number


@IN_SECONDS_OR_AS_DATE
def test_case_37_only_endpoint_is_retried_after_at_most_one_minute(
    single_endpoint_indexer: Indexer,
    fake_chain: FakeChain,
    clock: VirtualClock,
    retry_after: int | str,
):
    fake_chain.live(1)
    fake_chain.provider.faults.append(faults.build_429_fault(retry_after, times=1))
    with pytest.raises(TransientError, match=ErrorKind.THROTTLED):
        single_endpoint_indexer.step()

    clock.advance(59)
    with pytest.raises(TransientError, match=ErrorKind.THROTTLED):
        assert count_requests(fake_chain.provider, single_endpoint_indexer.step) == 0
    clock.advance(1.1)

    single_endpoint_indexer.index()
    assert single_endpoint_indexer.cursor[0] == fake_chain.head.number


def test_case_37_request_rate_is_reduced_and_recovers(
    single_endpoint_indexer: Indexer, fake_chain: FakeChain, clock: VirtualClock
):
    (endpoint,) = list_endpoints(single_endpoint_indexer)
    fake_chain.provider.faults.append(faults.build_429_fault(5, times=1))
    with pytest.raises(TransientError):
        single_endpoint_indexer.step()
    cut = read_metric("oracle_endpoint_rate_limit", endpoint=endpoint.name)

    clock.advance(20)
    single_endpoint_indexer.step()
    later = read_metric("oracle_endpoint_rate_limit", endpoint=endpoint.name)
    clock.advance(1_000)
    single_endpoint_indexer.step()
    at_last = read_metric("oracle_endpoint_rate_limit", endpoint=endpoint.name)

    assert 0 < cut < later
    assert at_last == 0


@pytest.mark.parametrize(
    "fault",
    [faults.build_429_in_200_fault, faults.build_rate_limit_text_fault],
    ids=["JSON", "text"],
)
def test_case_38_throttling_under_http_200_is_retried_after_a_wait(
    single_endpoint_indexer: Indexer,
    fake_chain: FakeChain,
    clock: VirtualClock,
    fault: Callable[..., InjectedFault],
):
    fake_chain.live(1)
    fake_chain.provider.faults.append(fault(times=1))
    with pytest.raises(TransientError, match=ErrorKind.THROTTLED):
        single_endpoint_indexer.step()

    with pytest.raises(TransientError, match=ErrorKind.THROTTLED):
        assert count_requests(fake_chain.provider, single_endpoint_indexer.step) == 0
    clock.advance(1)
    single_endpoint_indexer.index()

    assert single_endpoint_indexer.canonical_logs() == fake_chain.logs()


# --- time and bodies ---


def test_case_40_late_response_is_retried_and_counted_once(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    for endpoint in list_endpoints(indexer):
        endpoint.client._wire._timeout_seconds = 1.0
    gate = Event()
    held = faults.build_held_response_fault(gate, methods="eth_getLogs", times=1)
    fake_chain.provider.faults.append(held)
    began = time.monotonic()
    try:
        follow_until_idle(indexer, clock)
    finally:
        gate.set()

    # Well before the server closes the connection, and before the usual timeout of twenty seconds.
    assert (held.hit_count, time.monotonic() - began < 15) == (1, True)
    assert indexer.canonical_logs() == fake_chain.logs()


def is_wide_range(request: FakeRequest) -> bool:
    """Return whether the response is long enough to be truncated."""
    return request.block_range is not None and request.block_range[1] - request.block_range[0] >= 8


@pytest.mark.parametrize(
    "fault",
    [
        faults.build_cut_connection_fault,
        faults.build_reset_connection_fault,
        faults.build_truncated_body_fault,
        faults.build_corrupt_gzip_fault,
    ],
    ids=lambda fault: str(getattr(fault, "__name__", fault)),
)
def test_case_41_truncated_response_splits_range(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    fault: Callable[..., InjectedFault],
):
    fake_chain.live(40)
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    limits: FaultLimits = {"methods": "eth_getLogs", "when": is_wide_range}
    early = fault(**limits)
    fake_chain.provider.faults.append(early)

    assert follow_until_idle(indexer, clock) == 0
    assert early.hit_count
    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize(
    "fault", [faults.build_html_fault, faults.build_empty_body_fault], ids=["HTML", "empty"]
)
def test_case_42_non_json_response_raises_a_transient_error(
    single_endpoint_indexer: Indexer, fake_chain: FakeChain, fault: Callable[..., InjectedFault]
):
    fake_chain.provider.faults.append(fault())

    with pytest.raises(TransientError, match=rf"{ErrorKind.INVALID}: returned .* JSON"):
        single_endpoint_indexer.step()


@pytest.mark.parametrize(
    "fault", [faults.build_html_fault, faults.build_empty_body_fault], ids=["HTML", "empty"]
)
def test_case_42_non_json_response_causes_failover(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    fault: Callable[..., InjectedFault],
):
    fake_chain.provider.faults.append(fault())
    indexer = open_indexer(*fake_chain.urls, clock=clock)

    assert follow_until_idle(indexer, clock) == 0
    assert indexer.canonical_logs() == fake_chain.logs()


# --- batches and null ---


@pytest.mark.parametrize(
    "fault",
    [
        faults.build_reversed_batch_fault(),
        faults.build_omitted_response_fault(0),
        faults.build_failed_call_fault(0),
    ],
    ids=["shuffled", "with a missing response", "with an error"],
)
def test_case_43_incomplete_batch_response_is_completed(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock, fault: InjectedFault
):
    fake_chain.provider.faults.append(fault)
    indexer = open_indexer(fake_chain.urls[0], clock=clock)

    assert follow_until_idle(indexer, clock) == 0
    assert fault.hit_count
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_43_batch_size_stays_reduced_after_a_rejection(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    refusal = faults.build_batch_limit_fault(max_calls=7)
    fake_chain.provider.faults.append(refusal)
    indexer = open_indexer(fake_chain.urls[0], clock=clock)

    assert follow_until_idle(indexer, clock) == 0
    assert indexer.canonical_logs() == fake_chain.logs()
    assert list_endpoints(indexer)[0].client.batch_limit <= 7
    # The batch was halved a few times, not once per batch.
    assert 0 < refusal.hit_count <= 7


@pytest.mark.parametrize("place", [1, 2, 3], ids=["first", "in the middle", "newest"])
def test_case_44_announced_block_that_is_null_is_retried(
    single_endpoint_indexer: Indexer, fake_chain: FakeChain, clock: VirtualClock, place: int
):
    fake_chain.live(3)
    announced = 30 + place
    null = block_faults.build_null_result_fault(
        when=lambda request: request.block_range == (announced,) * 2, times=2
    )
    fake_chain.provider.faults.append(null)

    follow_until_idle(single_endpoint_indexer, clock)

    assert null.hit_count == 2
    assert single_endpoint_indexer.cursor == (fake_chain.head.number, fake_chain.head.hash)
    assert single_endpoint_indexer.canonical_logs() == fake_chain.logs()


# --- names, certificates, addresses ---
