"""Cases 27 to 29, 50 and 51: data that endpoints omit, lose, or cache too long."""

import pytest

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.faults import block_faults, log_faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import Calibration
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import list_endpoints, read_metric
from tests.support.ingest.event_encoding import ANYBODY, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY
from tests.support.ingest.reading import (
    add_busy_blocks,
    add_fault,
    build_log_matcher,
    count_missing_logs,
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    return add_busy_blocks(fake_chain)


# --- what is left out ---


def test_case_27_bloom_reveals_omitted_logs_of_a_block(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(busy_chain.urls[0])
    indexer.index()
    block = busy_chain.emit(encode_task_created_log(1))
    lie = add_fault(busy_chain, log_faults.build_omitted_logs_fault(times=1))

    indexer.index()

    assert (lie.hit_count, count_missing_logs(indexer)) == (1, 1)
    assert indexer.canonical_logs()[-1] == (block.hash, 0)


def test_case_27_second_endpoint_detects_omission_without_receipts(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*busy_chain.urls, clock=clock)
    indexer.source.configure_verification(VerificationPolicy(receipts=False), Calibration(clock))
    indexer.index()
    block = busy_chain.emit(encode_task_created_log(1))
    add_fault(busy_chain, log_faults.build_omitted_logs_fault())

    indexer.index()

    assert (count_missing_logs(indexer), count_missing_logs(indexer, 1)) == (1, 0)
    assert indexer.canonical_logs()[-1] == (block.hash, 0)


def test_case_27_second_provider_reveals_omission_by_both_urls(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    urls = [
        f"{busy_chain.urls[0]}/first-key",
        f"{busy_chain.urls[0]}/second-key",
        busy_chain.urls[1],
    ]
    indexer = open_indexer(*urls, clock=clock)
    indexer.source.configure_verification(VerificationPolicy(receipts=False), Calibration(clock))
    indexer.index()
    block = busy_chain.emit(encode_task_created_log(1))
    add_fault(busy_chain, log_faults.build_omitted_logs_fault())

    indexer.index()

    assert indexer.canonical_logs()[-1] == (block.hash, 0)


def test_case_28_receipts_recover_a_log_omitted_from_a_range(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    block = busy_chain.emit(
        encode_task_created_log(1), encode_task_created_log(2), encode_task_created_log(3)
    )
    busy_chain.mine_empty(FINALITY + 2)
    add_fault(busy_chain, log_faults.build_omitted_range_logs_fault(build_log_matcher(block, 1)))
    indexer = open_indexer(*busy_chain.urls, reports=False)

    indexer.index()

    label = list_endpoints(indexer)[0].name
    assert count_missing_logs(indexer) == 1
    assert read_metric("oracle_endpoint_inconsistent_total", endpoint=label, check="logs") == 1
    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_28_unfinalized_blocks_are_requested_by_hash(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    block = busy_chain.emit(encode_task_created_log(1))
    add_fault(busy_chain, log_faults.build_omitted_range_logs_fault())
    source = open_indexer(busy_chain.urls[0]).source
    source.configure_verification(VerificationPolicy(head=VerificationLevel.PINNED))

    window = source.fetch_window(BlockRange(block.number, block.number), with_headers=True)

    assert [log.block_hash for log in window.logs] == [block.hash]
    assert window.level == VerificationLevel.PINNED


def test_case_28_rereading_by_hash_finds_log_omitted_from_a_range(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    block = busy_chain.emit(encode_task_created_log(1))
    busy_chain.emit(encode_task_created_log(2))
    add_fault(busy_chain, log_faults.build_omitted_range_logs_fault(build_log_matcher(block)))
    source = open_indexer(busy_chain.urls[0]).source
    source.configure_verification(MINIMAL_POLICY)
    # Some windows are also read by hash; this one is, the next one is not.
    source.fetch_window(BlockRange(0, 5), with_headers=False)
    part = BlockRange(block.number - 20, block.number + 1)

    by_range = source.fetch_window(part, with_headers=False)
    again = source.fetch_verified_window(part, VerificationLevel.PINNED)

    assert (by_range.range, again.range) == (part, part)
    lost = [log for log in again.logs if log not in by_range.logs]
    assert [log.block_hash for log in lost] == [block.hash]


def test_case_29_omitted_log_is_restored_before_the_fold(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    block = busy_chain.emit(*(encode_task_created_log(number) for number in range(5)))
    busy_chain.mine_empty(FINALITY + 2)
    honest = open_indexer(busy_chain.urls[1], reports=False)
    honest.index()
    lie = add_fault(busy_chain, log_faults.build_omitted_logs_fault(build_log_matcher(block, 2)))
    indexer = open_indexer(busy_chain.urls[0], reports=False)

    indexer.index()

    assert lie.hit_count > 0
    assert count_missing_logs(indexer) == 1
    assert indexer.canonical_logs() == busy_chain.logs()
    assert indexer.digest() == honest.digest()


def test_case_29_reread_proves_a_block_whose_only_log_was_omitted(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    block = busy_chain.emit(encode_task_created_log(1))
    # Only foreign logs: no reason to fetch the block.
    busy_chain.show(busy_chain.tree.mine([Tx(ANYBODY, ANYBODY, logs=(FakeLog(ANYBODY, ()),))]))
    busy_chain.mine_empty(FINALITY + 2)
    add_fault(busy_chain, log_faults.build_omitted_logs_fault(build_log_matcher(block)))
    source = open_indexer(busy_chain.urls[0]).source

    window = source.fetch_verified_window(
        BlockRange(block.number, block.number + 4), VerificationLevel.PROVEN
    )

    assert window.level == VerificationLevel.PROVEN
    assert window.proven == tuple(range(block.number, block.number + 5))
    assert [log.block_hash for log in window.logs] == [block.hash]


# --- what is gone, and what is old ---


@pytest.mark.parametrize("silent", [True, False], ids=["in silence", "with an error"])
def test_case_50_history_pruned_by_one_endpoint_is_read_from_archive(
    busy_chain: FakeChain, open_indexer: OpenIndexer, *, silent: bool
):
    if silent:
        add_fault(busy_chain, log_faults.build_silent_pruning_fault(busy_chain.head.number - 2))
    else:
        busy_chain.provider.pruned_below = busy_chain.head.number - 2
    indexer = open_indexer(*busy_chain.urls, reports=False)

    indexer.index()

    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_50_stored_rows_remain_after_endpoints_prune_blocks(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(busy_chain.urls[0], reports=False)
    indexer.index()
    add_fault(busy_chain, log_faults.build_silent_pruning_fault(busy_chain.head.number - 2))

    with pytest.raises(TransientError, match="pruned or not available yet"):
        indexer.source.fetch_verified_window(BlockRange(0, 50), VerificationLevel.PROVEN)
    busy_chain.live(2)
    indexer.index()

    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_51_endpoint_outvotes_proxy_with_cached_orphan_block(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    add_fault(busy_chain, block_faults.build_stale_cache_fault())
    indexer = open_indexer(*busy_chain.urls)
    indexer.index()
    tip = indexer.cursor
    busy_chain.emit(encode_task_created_log(1), on=busy_chain.back(1))
    busy_chain.mine_empty(3)

    name = indexer.source.list_endpoint_names()[0]
    ((_, block, head),) = indexer.source.fetch_witnesses(tip[0], excluded_endpoint=name)
    assert block is not None
    assert (block.hash != tip[1], head.number) == (True, busy_chain.head.number)
