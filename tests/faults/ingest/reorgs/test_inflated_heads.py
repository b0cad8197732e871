"""One endpoint shows a newest block far above the chain's, which nobody can read.

The index follows the chain, and counts as being at its head, as without the endpoint.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import log_faults, transport_faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.head_faults import build_invented_head_fault, build_shown_head_fault
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.ingest.proofs import add_provable_blocks
from tests.support.ingest.reading import add_fault


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def list_report_periods(indexer: Indexer) -> list[int]:
    with indexer.store.read_transaction() as uow:
        return [report.report.period for report in uow.reports.list_newest(1000)]


def follow_chain(indexer: Indexer, chain: FakeChain, clock: VirtualClock, blocks: int) -> None:
    """Mine blocks, and index each without a failed step; the known head is the chain's."""
    for _ in range(blocks):
        chain.emit(encode_task_created_log(90_000 + chain.head.number))
        clock.advance(12)
        indexer.index()
        heads = indexer.ingest.heads
        assert heads is not None
        assert heads.latest.number == indexer.cursor[0] == chain.head.number
        assert heads.final.number <= chain.head.number - FINALITY


def build_head_faults(chain: FakeChain, lead: int) -> list[InjectedFault]:
    return [build_invented_head_fault(lead), build_shown_head_fault(chain, lead)]


@pytest.mark.parametrize("is_shown", [False, True], ids=["invented", "shown by number"])
@pytest.mark.parametrize("lead", [1, 10**6])
@pytest.mark.parametrize("liar", [0, 1, 2])
def test_inflated_head_of_one_endpoint_does_not_stop_indexing(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    liar: int,
    lead: int,
    *,
    is_shown: bool,
):
    add_provable_blocks(fake_chain, 12)
    count = 2 if liar < 2 else 3
    if count == 3:
        fake_chain.serve()
    urls = fake_chain.urls[:count]
    fault = build_head_faults(fake_chain, lead)[is_shown]
    add_fault(fake_chain, fault, liar)
    indexer = open_indexer(*urls, clock=clock)

    indexer.index()
    follow_chain(indexer, fake_chain, clock, 8)
    indexer.restart()
    follow_chain(indexer, fake_chain, clock, 8)
    # The endpoint is preferred again after a minute.
    clock.advance(600)
    follow_chain(indexer, fake_chain, clock, 4)

    assert fault.hit_count > 0
    fake_chain.providers[liar].faults.remove(fault)
    honest = open_indexer(*urls[:1], clock=clock)
    honest.index()
    assert set(list_report_periods(honest)) <= set(list_report_periods(indexer))
    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize("lag", [1, 30])
@pytest.mark.parametrize("is_stalled", [False, True])
def test_lagging_second_endpoint_does_not_delay_blocks(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    clock: VirtualClock,
    lag: int,
    *,
    is_stalled: bool,
):
    add_provable_blocks(fake_chain, 12)
    fake_chain.following = [fake_chain.provider]
    late = fake_chain.providers[1]
    blocks = [fake_chain.head]
    indexer = open_indexer(*fake_chain.urls[:2], clock=clock)
    indexer.index()
    assert indexer.cursor[0] == fake_chain.head.number

    for number in range(20):
        blocks.append(fake_chain.mine_empty(1))
        clock.advance(12)
        if not is_stalled:
            late.head = blocks[max(0, number - lag)]
        indexer.index()
        assert indexer.cursor[0] == fake_chain.head.number


def test_parent_missing_once_behind_a_load_balancer_does_not_refute_a_head(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """Two endpoints show the head; the first lacks its parent once, and the third one lags."""
    add_provable_blocks(fake_chain, 12)
    fake_chain.serve()
    lagging = fake_chain.providers[2]
    lagging.head = fake_chain.head
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    fake_chain.following = fake_chain.providers[:2]
    fake_chain.mine_empty(5)
    lagging.head = fake_chain.back(3)
    clock.advance(60)
    parent = hex(fake_chain.head.number - 1)
    missing = InjectedFault(
        "a missing parent",
        lambda _request, _result: None,
        limits={
            "methods": "eth_getBlockByNumber",
            "when": lambda request: request.params[0] == parent,
            "times": 1,
        },
    )
    for provider in fake_chain.providers[:2]:
        provider.faults.append(missing)

    indexer.step()

    assert missing.hit_count == 1
    assert indexer.ingest.heads is not None
    assert indexer.ingest.heads.latest.number == fake_chain.head.number


@pytest.fixture
def three_endpoints(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer of two endpoints at the head, and a third one a block behind."""
    add_provable_blocks(fake_chain, 12)
    lagging = fake_chain.serve()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    fake_chain.following = fake_chain.providers[:2]
    fake_chain.emit(encode_task_created_log(90_000))
    clock.advance(12)
    indexer.index()
    fake_chain.emit(encode_task_created_log(90_001))
    lagging.head = fake_chain.back(1)
    clock.advance(12)
    return indexer


def count_rejected_heads(indexer: Indexer) -> float:
    return sum(
        read_metric("oracle_endpoint_inconsistent_total", check="head", endpoint=name) or 0
        for name in indexer.source.list_endpoint_names()
    )


def build_missing_receipts_fault() -> InjectedFault:
    """Return a fault of an endpoint that does not have the receipts of its newest block yet."""
    return InjectedFault(
        "receipts are missing",
        lambda _request, _result: None,
        limits={"methods": ("eth_getBlockReceipts", "eth_getTransactionReceipt")},
    )


def build_truncated_receipts_fault() -> InjectedFault:
    """Return a fault of an endpoint that returns no receipts for its newest block."""
    return InjectedFault(
        "receipts are cut",
        lambda _request, _result: [],
        limits={"methods": ("eth_getBlockReceipts",)},
    )


def build_throttled_fault() -> InjectedFault:
    return transport_faults.build_http_status_fault(
        429, methods=log_faults.LOG_AND_RECEIPT_METHODS
    )


# The faults of the first endpoint, whose head is used, and of the second one.
READ_FAULTS = {
    "throttled": (build_throttled_fault, build_throttled_fault),
    "late receipts": (build_missing_receipts_fault, build_missing_receipts_fault),
    "second endpoint cuts": (build_throttled_fault, build_truncated_receipts_fault),
}


@pytest.mark.parametrize(("is_restarted", "pause"), [(False, 2), (True, 2), (False, 3_600)])
@pytest.mark.parametrize("build_faults", READ_FAULTS.values(), ids=READ_FAULTS)
def test_momentary_failure_at_the_head_refutes_no_head(
    fake_chain: FakeChain,
    three_endpoints: Indexer,
    clock: VirtualClock,
    build_faults: tuple[Callable[[], InjectedFault], Callable[[], InjectedFault]],
    pause: int,
    *,
    is_restarted: bool,
):
    indexer = three_endpoints
    if is_restarted:
        indexer.restart()
    rejected_before = count_rejected_heads(indexer)
    faults = [build_fault() for build_fault in build_faults]
    for provider, fault in zip(fake_chain.providers, faults, strict=False):
        provider.faults.append(fault)

    for _ in range(2):
        with suppress(TransientError):
            indexer.index()
        clock.advance(pause)

    assert faults[0].hit_count > 0
    assert count_rejected_heads(indexer) == rejected_before
    for provider, fault in zip(fake_chain.providers, faults, strict=False):
        provider.faults.remove(fault)
    clock.advance(60)
    indexer.index()
    assert indexer.cursor[0] == fake_chain.head.number
    assert count_rejected_heads(indexer) == rejected_before


def test_head_that_stays_unreadable_is_replaced_by_a_lower_one(
    fake_chain: FakeChain, three_endpoints: Indexer, clock: VirtualClock
):
    indexer = three_endpoints
    for provider in fake_chain.providers[:2]:
        provider.faults.append(build_missing_receipts_fault())
    for _ in range(20):
        with suppress(TransientError):
            indexer.index()
        clock.advance(4)

    heads = indexer.ingest.heads
    assert heads is not None
    assert heads.latest.number == indexer.cursor[0] == fake_chain.head.number - 1


def test_rejected_head_of_another_endpoint_is_no_evidence_after_a_momentary_failure(
    fake_chain: FakeChain, three_endpoints: Indexer, clock: VirtualClock
):
    indexer = three_endpoints
    first, second, lagging = fake_chain.providers
    second.head = lagging.head
    first.faults.append(build_missing_receipts_fault())
    rejected_before = count_rejected_heads(indexer)
    for _ in range(10):
        with suppress(TransientError):
            indexer.index()
        clock.advance(4)
    assert count_rejected_heads(indexer) == rejected_before + 1
    fault = build_throttled_fault()
    second.head = fake_chain.head
    second.faults.append(fault)

    with suppress(TransientError):
        indexer.index()

    assert fault.hit_count > 0
    assert count_rejected_heads(indexer) == rejected_before + 1
