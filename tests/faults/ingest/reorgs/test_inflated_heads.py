"""One endpoint shows a newest block far above the chain's, which nobody can read.

The index follows the chain, and counts as being at its head, as without the endpoint.
"""

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.virtual_clock import VirtualClock
from tests.faults.ingest.conftest import OpenIndexer
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
