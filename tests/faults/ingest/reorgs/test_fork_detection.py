"""Cases 13 to 15, 21 and 51: how forks are detected, and which endpoints are believed."""

import pytest

from devnet.fakechain.faults.block_faults import build_stale_cache_fault
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.telemetry import indexer_metrics, metrics
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.event_encoding import build_transaction
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.forked import (
    assert_index_equals_chain,
    drop_local_rows,
    encode_unknown_join_log,
    index_with_retries,
    read_counter,
)
from tests.support.ingest.indexer import Indexer


def test_case_13_return_to_the_first_fork_restores_all_rows(
    indexer: Indexer, fake_chain: FakeChain
):
    indexer.index()
    first = fake_chain.head
    first_dump = dump_database_rows(indexer.url, orphans=False)
    second = fake_chain.live(4, on=fake_chain.back(4))
    for _ in range(3):
        indexer.index()
        assert indexer.cursor == (second.number, second.hash)
        fake_chain.show(first)
        indexer.index()
        assert drop_local_rows(dump_database_rows(indexer.url, orphans=False)) == drop_local_rows(
            first_dump
        )
        fake_chain.show(second)
    fake_chain.show(first)
    indexer.index()

    assert_index_equals_chain(indexer, fake_chain, first)


def test_case_14_fork_during_downtime_is_detected_before_any_log(
    indexer: Indexer, fake_chain: FakeChain
):
    indexer.index()
    fake_chain.live(12, on=fake_chain.back(6))
    indexer.restart()
    request_count = fake_chain.provider.count_requests("eth_getLogs")

    rewound = indexer.step()

    assert isinstance(rewound, RewindResult)
    assert rewound.depth == 6
    assert [provider.count_requests("eth_getLogs") for provider in fake_chain.providers] == [
        request_count,
        0,
    ]
    indexer.index()
    assert_index_equals_chain(indexer, fake_chain)


def test_case_15_skipped_heights_do_not_stall_indexing(indexer: Indexer, fake_chain: FakeChain):
    indexer.index()
    for skipped in (1, 3):
        last = fake_chain.head
        joined = fake_chain.tree.mine(
            [build_transaction(encode_unknown_join_log())], number=last.number + 1 + skipped
        )
        fake_chain.show(joined)
        fake_chain.live(3)
        indexer.index()

    assert_index_equals_chain(indexer, fake_chain)
    # And a fork across them is undone.
    fake_chain.live(6, on=fake_chain.back(2))
    (rewound, *_) = indexer.index()
    assert isinstance(rewound, RewindResult)
    assert_index_equals_chain(indexer, fake_chain)


@pytest.mark.parametrize("seconds", [0, -5])
def test_case_21_nonincreasing_timestamps_do_not_change_order(
    indexer: Indexer, fake_chain: FakeChain, open_indexer: OpenIndexer, seconds: int
):
    indexer.index()
    for _ in range(3):
        fake_chain.live(5, seconds=seconds)
        fake_chain.live(1)
        indexer.index()
    at_once = open_indexer(*fake_chain.urls)
    at_once.index()

    assert indexer.digest() == at_once.digest()
    assert_index_equals_chain(indexer, fake_chain)


def test_case_51_proxy_with_a_cached_orphan_block_is_outvoted(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    """It has our orphaned block in its cache, and the chain's blocks after the orphaned one."""
    clock = VirtualClock()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    by_number = build_stale_cache_fault(
        methods="eth_getBlockByNumber",
        when=lambda request: str(request.params[0]).startswith("0x"),
    )
    fake_chain.provider.faults.append(by_number)
    indexer.index()
    # The endpoint caches every response.
    indexer.source.fetch_witnesses(fake_chain.head.number)
    fake_chain.live(3, on=fake_chain.back(1))

    for _ in range(10):
        index_with_retries(indexer)
        clock.advance(5.0)

    assert by_number.hit_count
    assert indexer.cursor == (fake_chain.head.number, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_51_fork_shown_by_only_one_proxy_is_rejected(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    reorgs = read_counter(metrics.REORGS)
    rejected = read_counter(indexer_metrics.REJECTED.labels("outvoted"))
    fake_chain.provider.head = fake_chain.tree.mine_empty_blocks(
        2, parent_block=fake_chain.back(1)
    )
    fake_chain.following = fake_chain.providers[1:]

    with pytest.raises(TransientError, match="the report was rejected, nothing was rewound"):
        indexer.step()
    fake_chain.live(2, on=fake_chain.back(1, fake_chain.providers[1].head))
    fake_chain.show(fake_chain.providers[1].head)
    clock.advance(1.0)

    assert read_counter(indexer_metrics.REJECTED.labels("outvoted")) == rejected + 1
    assert read_counter(metrics.REORGS) == reorgs


def test_case_51_another_endpoint_is_used_after_a_rejected_fork(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    clock = VirtualClock()
    indexer = open_indexer(*fake_chain.urls, clock=clock)
    indexer.index()
    honest_head = fake_chain.head
    fake_chain.provider.head = fake_chain.tree.mine_empty_blocks(
        2, parent_block=fake_chain.back(1)
    )
    fake_chain.following = fake_chain.providers[1:]
    index_with_retries(indexer)
    fake_chain.live(4, on=honest_head)

    done = index_with_retries(indexer)

    assert not [step for step in done if isinstance(step, RewindResult)]
    assert any(isinstance(step, CommittedWindow) for step in done)
    assert_index_equals_chain(indexer, fake_chain)
