"""Cases 1 to 3 and 6 to 12: stored blocks leave the chain."""

import pytest

from devnet.fakechain.faults.transport_faults import build_callback_fault
from oracle.errors import TransientError
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.telemetry import metrics
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.event_encoding import build_transaction, encode_network_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.forked import (
    NEWCOMER,
    Counting,
    assert_index_equals_chain,
    encode_unknown_join_log,
    index_with_retries,
    read_counter,
    record_header_batch_sizes,
)
from tests.support.ingest.indexer import Indexer
from tests.support.traffic import make_address


def test_case_01_single_block_reorg_is_rolled_back_once(indexer: Indexer, fake_chain: FakeChain):
    fake_chain.emit(encode_unknown_join_log())
    indexer.index()
    before = read_counter(metrics.REORGS)
    fake_chain.live(1, on=fake_chain.back(1))

    done = indexer.index()

    assert [step.depth for step in done if isinstance(step, RewindResult)] == [1]
    assert read_counter(metrics.REORGS) == before + 1
    assert_index_equals_chain(indexer, fake_chain)


@pytest.mark.parametrize(("depth", "finality"), [(64, 80)])
def test_case_02_64_block_reorg_is_rolled_back_in_one_transaction(
    fake_chain: FakeChain, open_indexer: OpenIndexer, depth: int, finality: int
):
    for provider in fake_chain.providers:
        provider.tag_targets = {"safe": 2, "finalized": finality}
    indexer = open_indexer(*fake_chain.urls, finality=finality)
    fake_chain.live(90)
    indexer.index()
    fake_chain.live(depth, on=fake_chain.back(depth))
    sizes = record_header_batch_sizes(fake_chain.provider)
    counting = Counting(indexer.store)

    rewound = indexer.step(counting)  # type: ignore[arg-type]  # as much of a store as is used

    assert isinstance(rewound, RewindResult)
    assert rewound.depth == depth
    assert [size for size in sizes if size >= depth] == [finality + 1]
    assert counting.writes == 1
    indexer.index()
    assert_index_equals_chain(indexer, fake_chain)


def test_case_03_deep_reorg_is_rolled_back_by_stored_headers(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    for provider in fake_chain.providers:
        provider.tag_targets = {"safe": 2, "finalized": 240}
    indexer = open_indexer(*fake_chain.urls, finality=240)
    fake_chain.live(60)
    fake_chain.mine_empty(160)
    fake_chain.live(20)
    indexer.index()
    fake_chain.live(210, on=fake_chain.back(205))

    done = indexer.index()

    assert [step.depth for step in done if isinstance(step, RewindResult)] == [205]
    assert_index_equals_chain(indexer, fake_chain)


@pytest.mark.parametrize("question", range(1, 9))
def test_case_06_rollback_is_atomic_despite_a_second_reorg(
    indexer: Indexer, fake_chain: FakeChain, question: int
):
    """The chain changes again after each request of a rollback."""
    indexer.index()
    old_head = fake_chain.head
    first = fake_chain.live(4, on=fake_chain.back(3, old_head))
    second = fake_chain.tree.mine_empty_blocks(6, parent_block=fake_chain.back(5, old_head))
    fake_chain.show(first)
    request_count = [0]

    def count_down(_request: object) -> None:
        request_count[0] += 1
        if request_count[0] == question:
            fake_chain.show(second)

    for provider in fake_chain.providers:
        provider.faults.append(build_callback_fault(count_down, methods="eth_getBlockByNumber"))
    for _ in range(40):
        before = dump_database_rows(indexer.url)
        try:
            if indexer.step() is None and indexer.cursor[1] == second.hash:
                break
        except TransientError:
            assert dump_database_rows(indexer.url) == before

    assert_index_equals_chain(indexer, fake_chain, second)


def test_case_07_window_read_across_a_reorg_is_discarded(indexer: Indexer, fake_chain: FakeChain):
    indexer.index()
    old_cursor = indexer.cursor
    other_head = fake_chain.tree.mine_empty_blocks(6, parent_block=fake_chain.back(2))
    fake_chain.live(3, on=fake_chain.tree.blocks.block_by_hash[old_cursor[1]])
    flips = build_callback_fault(
        lambda _request: fake_chain.show(other_head), methods="eth_getBlockByNumber", times=1
    )
    fake_chain.provider.faults.append(flips)

    done = index_with_retries(indexer)

    assert isinstance(next(step for step in done if not isinstance(step, Exception)), RewindResult)
    assert_index_equals_chain(indexer, fake_chain, other_head)


def test_case_08_head_hash_reveals_a_shortened_chain(indexer: Indexer, fake_chain: FakeChain):
    indexer.index()
    fake_chain.live(2, on=fake_chain.back(5))

    (rewound, *_) = indexer.index()

    assert isinstance(rewound, RewindResult)
    assert rewound.depth == 5
    assert_index_equals_chain(indexer, fake_chain)


def test_case_09_parent_hash_reveals_a_reorg_seen_late(indexer: Indexer, fake_chain: FakeChain):
    indexer.index()
    fake_chain.live(2, on=fake_chain.back(1))

    (rewound, *_) = indexer.index()

    assert isinstance(rewound, RewindResult)
    assert rewound.depth == 1
    assert_index_equals_chain(indexer, fake_chain)


def test_case_10_event_that_a_reorg_adds_to_empty_block_is_applied(
    indexer: Indexer, fake_chain: FakeChain
):
    fake_chain.mine_empty(3)
    indexer.index()
    fake_chain.emit(encode_unknown_join_log(), on=fake_chain.back(3))
    fake_chain.mine_empty(2)

    indexer.index()

    with indexer.store.read_transaction() as uow:
        assert NEWCOMER in uow.nodes.get_many([NEWCOMER])
    assert_index_equals_chain(indexer, fake_chain)


def test_case_11_reorg_removes_the_only_event_of_a_block(
    indexer: Indexer, fake_chain: FakeChain, open_indexer: OpenIndexer
):
    without = open_indexer(*fake_chain.urls)
    without.index()
    gone = fake_chain.emit(encode_unknown_join_log())
    indexer.index()
    with indexer.store.read_transaction() as uow:
        assert NEWCOMER in uow.nodes.get_many([NEWCOMER])
    fake_chain.mine_empty(1, on=fake_chain.back(1))

    indexer.index()
    without.index()

    with indexer.store.read_transaction() as uow:
        assert uow.nodes.get_many([NEWCOMER]) == {}
        orphans = list(uow.logs.iterate_between(gone.number, gone.number, canonical=False))
    assert [log.block_hash for log in orphans] == [gone.hash]
    assert indexer.digest() == without.digest()
    assert_index_equals_chain(indexer, fake_chain)


def test_case_12_transaction_reincluded_by_a_reorg_counts_once(
    indexer: Indexer, fake_chain: FakeChain
):
    first = fake_chain.emit(encode_unknown_join_log())
    indexer.index()
    # The same transaction, one block later and after another transaction.
    between = fake_chain.mine_empty(1, on=fake_chain.back(1))
    paused = build_transaction(encode_network_log("NodePaused", node=make_address(0xF00)))
    again = fake_chain.tree.mine([paused, *first.txs], between)
    fake_chain.show(again)

    indexer.index()

    tx_hash = first.transactions[0]["hash"]
    with indexer.store.read_transaction() as uow:
        counted = [log for log in uow.logs.iterate_between(0, 10**6) if log.tx_hash == tx_hash]
        orphans = list(uow.logs.iterate_between(first.number, first.number, canonical=False))
    assert [(log.block_hash, log.index) for log in counted] == [(again.hash, 1)]
    assert [(log.tx_hash, log.index) for log in orphans] == [(tx_hash, 0)]
    assert_index_equals_chain(indexer, fake_chain)
