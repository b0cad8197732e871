"""Cases 17 to 20, 23, 53, 54 and 57: endpoints that lag, lie, fail, and return."""

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import transport_faults as faults
from devnet.fakechain.provider import TagTarget
from devnet.fakechain.requests import FakeRpcError, HttpResponse
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.indexer.commit import CommittedWindow
from oracle.rpc.endpoints.endpoint import Endpoint
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import (
    count_requests,
    follow_until_idle,
    get_serving_index,
    list_endpoints,
    list_labels,
    read_metric,
)
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def two_endpoint_indexer(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer with both endpoints, at block 30."""
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    return indexer


# --- finality ---

_ERROR = FakeRpcError(-32000, "finalized block not found")


@pytest.mark.parametrize(
    "tags",
    [{}, {"safe": None, "finalized": None}, {"safe": 2, "finalized": _ERROR}],
    ids=["unsupported", "null", "error"],
)
def test_case_17_missing_finalized_tag_falls_back_to_depth(
    fake_chain: FakeChain, open_indexer: OpenIndexer, tags: dict[str, TagTarget]
):
    fake_chain.provider.tag_targets = tags
    indexer = open_indexer(fake_chain.urls[0], finality=5)

    heads = indexer.source.fetch_heads()

    (label,) = list_labels(indexer)
    assert (heads.final.number, heads.final.hash) == (25, fake_chain.back(5).hash)
    assert read_metric("oracle_endpoint_tag_known", endpoint=label, tag="finalized") == 0


def test_case_17_unsupported_tag_is_requested_only_once(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.provider.tag_targets = {}
    indexer = open_indexer(fake_chain.urls[0])
    indexer.source.fetch_heads()

    assert count_requests(fake_chain.provider, indexer.source.fetch_heads) == 1


def test_case_18_finalized_block_going_backwards_is_ignored_and_counted(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(fake_chain.urls[0], finality=2)
    fake_chain.provider.tag_targets = {"finalized": 4}
    final = indexer.source.fetch_heads().final
    (label,) = list_labels(indexer)
    before = read_metric("oracle_endpoint_final_regressions_total", endpoint=label)
    fake_chain.live(1)

    fake_chain.provider.tag_targets = {"finalized": 20}
    again = indexer.source.fetch_heads().final

    assert (final.number, again) == (26, final)
    assert read_metric("oracle_endpoint_final_regressions_total", endpoint=label) == before + 1


def test_case_18_lower_finalized_block_of_an_endpoint_is_ignored(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.providers[1].tag_targets = {"finalized": 20}
    indexer = open_indexer(*fake_chain.urls, clock=clock, finality=2)
    final = indexer.source.fetch_heads().final
    fake_chain.provider.faults.append(faults.build_http_status_fault(502))

    assert final.number == 22
    assert indexer.source.fetch_heads().final == final


def test_case_19_endpoint_with_finalized_above_latest_is_skipped(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer
):
    liar = fake_chain.provider
    label = list_labels(two_endpoint_indexer)[0]
    before = read_metric(
        "oracle_endpoint_inconsistent_total", endpoint=label, check="finalized above latest"
    )
    liar.tag_targets = {"finalized": fake_chain.tree.mine(parent_block=fake_chain.head)}

    heads = two_endpoint_indexer.source.fetch_heads()

    assert (heads.latest.number, heads.final.number) == (30, 22)
    assert count_requests(liar, two_endpoint_indexer.source.fetch_heads) == 0
    after = read_metric(
        "oracle_endpoint_inconsistent_total", endpoint=label, check="finalized above latest"
    )
    assert after == before + 1


# --- the chain stalls ---


def test_case_20_chain_without_a_block_for_one_hour_is_stalled(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    stalled_flags = []
    for seconds in [15] * 12 + [180] * 19:
        clock.advance(seconds)
        stalled_flags.append(two_endpoint_indexer.source.fetch_heads().stalled)

    # Ten blocks of twelve seconds.
    assert stalled_flags[:8] == [False] * 8
    assert stalled_flags[10:] == [True] * 21
    assert read_metric("oracle_chain_stalled") == 1

    fake_chain.live(1)
    clock.advance(40)
    assert not two_endpoint_indexer.source.fetch_heads().stalled
    assert read_metric("oracle_chain_stalled") == 0
    follow_until_idle(two_endpoint_indexer, clock)
    assert two_endpoint_indexer.cursor[0] == 31


def test_case_20_single_stalled_endpoint_does_not_stall_chain(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.following.remove(fake_chain.provider)

    for _ in range(20):
        fake_chain.mine_empty(1)
        clock.advance(15)
        assert not two_endpoint_indexer.source.fetch_heads().stalled

    assert two_endpoint_indexer.source.fetch_heads().latest.number == 50


# --- behind ---


def test_case_23_endpoint_behind_cursor_is_skipped_without_rollback(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.following.remove(fake_chain.provider)
    fake_chain.provider.head = fake_chain.back(5)
    fake_chain.live(5)

    done = two_endpoint_indexer.index()

    assert {type(step) for step in done} == {CommittedWindow}
    assert two_endpoint_indexer.cursor == (35, fake_chain.head.hash)
    assert two_endpoint_indexer.canonical_logs() == fake_chain.logs()


def test_case_23_endpoint_behind_cursor_at_start_is_skipped(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.following.remove(fake_chain.provider)
    fake_chain.provider.head = fake_chain.back(10)
    fake_chain.live(5)

    two_endpoint_indexer.restart()
    done = two_endpoint_indexer.index()

    assert {type(step) for step in done} == {CommittedWindow}
    assert two_endpoint_indexer.cursor == (35, fake_chain.head.hash)


# --- down, and back ---


def test_case_53_indexing_resumes_after_outage_of_all_endpoints(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    for provider in fake_chain.providers:
        provider.faults.append(faults.build_http_status_fault(502))
    before = sum(len(provider.received_requests) for provider in fake_chain.providers)
    for _ in range(40):
        clock.advance(90)
        with pytest.raises(TransientError):
            two_endpoint_indexer.step()
    fake_chain.live(30)
    request_count = (
        sum(len(provider.received_requests) for provider in fake_chain.providers) - before
    )

    for provider in fake_chain.providers:
        provider.faults.clear()
    took = follow_until_idle(two_endpoint_indexer, clock)

    assert took <= 15
    assert two_endpoint_indexer.cursor == (60, fake_chain.head.hash)
    assert two_endpoint_indexer.canonical_logs() == fake_chain.logs()
    # No endpoint is flooded meanwhile: a few requests per tick.
    assert request_count < 8 * 40


def test_case_54_preferred_endpoint_is_reused_after_one_minute(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.provider.faults.append(faults.build_http_status_fault(502))
    for _ in range(20):
        clock.advance(15)
        two_endpoint_indexer.source.fetch_heads()
        assert get_serving_index(two_endpoint_indexer) == 1
    fake_chain.provider.faults.clear()

    by_second = []
    for _ in range(61):
        clock.advance(1)
        by_second.append(get_serving_index(two_endpoint_indexer))

    # It is preferred again, permanently, once it has been healthy for a while.
    assert by_second[0] == 1
    assert by_second[-1] == 0
    assert by_second == sorted(by_second, reverse=True)


def test_case_54_failed_endpoint_must_be_healthy_for_one_minute(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.provider.faults.append(faults.build_http_status_fault(502))
    clock.advance(5)
    two_endpoint_indexer.source.fetch_heads()
    fake_chain.provider.faults.clear()

    worker_indexes = []
    for _ in range(13):
        clock.advance(5)
        worker_indexes.append(get_serving_index(two_endpoint_indexer))

    assert worker_indexes == [1] * 11 + [0] * 2


def build_slow_response_fault(clock: VirtualClock) -> InjectedFault:
    """Return a fault by which every request, batch or not, takes eight seconds."""

    def delay_response(body: bytes) -> HttpResponse:
        clock.advance(8)
        return HttpResponse(body=body)

    return InjectedFault("8 s slow", change_body=delay_response)


def test_case_57_slow_endpoint_is_replaced_without_causing_lag(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    slow = build_slow_response_fault(clock)
    fake_chain.provider.faults.append(slow)
    began = clock()
    lags = []
    while clock() - began < 1_200:
        fake_chain.mine_empty(1)
        two_endpoint_indexer.step()
        lags.append(fake_chain.head.number - two_endpoint_indexer.cursor[0])
        clock.advance(24)

    # It was used for less than a tenth of twenty minutes.
    assert 8 * slow.hit_count < 120
    assert max(lags) == 0
    assert get_serving_index(two_endpoint_indexer) == 1


def test_case_57_endpoint_is_preferred_again_when_it_is_fast(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    fake_chain.provider.faults.append(build_slow_response_fault(clock))
    for _ in range(5):
        two_endpoint_indexer.source.fetch_heads()
        clock.advance(5)
    assert get_serving_index(two_endpoint_indexer) == 1

    fake_chain.provider.faults.clear()
    for _ in range(20):
        two_endpoint_indexer.source.fetch_heads()
        clock.advance(30)

    assert get_serving_index(two_endpoint_indexer) == 0


def test_case_57_slow_second_provider_delays_only_finality(
    fake_chain: FakeChain, two_endpoint_indexer: Indexer, clock: VirtualClock
):
    """The only other provider is slow, so the final block lags some minutes behind."""
    slow = build_slow_response_fault(clock)
    fake_chain.providers[1].faults.append(slow)
    began = clock()
    confirmed = set[int | None]()
    at = None
    while clock() - began < 3_600:
        fake_chain.live(1)
        follow_until_idle(two_endpoint_indexer, clock)
        with two_endpoint_indexer.store.read_transaction() as uow:
            at = uow.cursor.get()
        assert at is not None
        assert (at.number, at.hash) == (fake_chain.head.number, fake_chain.head.hash)
        confirmed.add(at.final_number)
        clock.advance(12)

    assert 8 * slow.hit_count < 360
    assert len(confirmed) > 5
    assert at is not None
    assert at.final_number is not None
    assert fake_chain.head.number - at.final_number < 60


def test_case_57_third_provider_replaces_a_slow_witness(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.serve()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    slow = build_slow_response_fault(clock)
    fake_chain.providers[1].faults.append(slow)

    finals, slow_hits = [], []
    for _ in range(20):
        fake_chain.live(1)
        before = slow.hit_count
        follow_until_idle(indexer, clock)
        slow_hits.append(slow.hit_count - before)
        with indexer.store.read_transaction() as uow:
            at = uow.cursor.get()
        assert at is not None
        finals.append(at.final_number)
        clock.advance(1)

    assert finals == [fake_chain.head.number - 8 - 19 + number for number in range(20)]
    assert sum(map(bool, slow_hits)) < 4


def test_case_57_run_once_waits_until_last_block_is_confirmed(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.providers[1].faults.append(build_slow_response_fault(clock))
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.source.allow_slow_witnesses()

    for _ in range(3):
        fake_chain.live(5)
        indexer.index()

        with indexer.store.read_transaction() as uow:
            at = uow.cursor.get()
        assert at is not None
        assert at.final_number == fake_chain.head.number - 8


def test_endpoints_on_one_host_have_distinct_names(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    url = fake_chain.urls[0]
    indexer = open_indexer(f"{url}/key-of-the-first", f"{url}/key-of-the-second")

    first, second = list_endpoints(indexer)
    assert first.name == url
    assert second.name == f"{url}#2"
    assert "key-of" not in f"{first!r} {first.name} {second!r} {second.name}"
    assert isinstance(first, Endpoint)
