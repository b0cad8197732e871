"""Cases 22, 24 to 26 and 45 to 47: responses of other nodes, other forks and other requests."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from devnet.fakechain.fault import FaultLimits, InjectedFault
from devnet.fakechain.faults import block_faults, log_faults
from devnet.fakechain.provider import Provider
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from oracle.indexer.commit import CommittedWindow
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import make_node_address
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.ingest.reading import (
    list_log_ranges,
    reject_block_hash_filters,
    reject_receipts,
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def fresh_indexer(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
) -> Indexer:
    """Return an indexer that has read nothing; its chain is final except for the end."""
    fake_chain.mine_empty(FINALITY)
    return open_indexer(fake_chain.urls[0], clock=clock, reports=False)


# --- another node, another fork ---


def test_case_22_ten_new_blocks_are_read_in_order(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(fake_chain.urls[0])
    indexer.index()
    before = len(fake_chain.provider.received_requests)
    cursor = indexer.cursor[0]
    fake_chain.live(10)

    (window,) = [step for step in indexer.index() if isinstance(step, CommittedWindow)]

    assert (window.blocks, indexer.cursor[1]) == (
        BlockRange(cursor + 1, cursor + 10),
        fake_chain.head.hash,
    )
    method_counts = Counter(
        request.method for request in list(fake_chain.provider.received_requests)[before:]
    )
    assert method_counts["eth_getLogs"] == 10
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_22_long_gap_is_read_in_bounded_windows(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.mine_empty(350)
    fake_chain.provider.tag_targets = {}
    indexer = open_indexer(fake_chain.urls[0], finality=1_000)

    ranges = [step.blocks for step in indexer.index() if isinstance(step, CommittedWindow)]

    assert max(map(len, ranges)) <= 100
    assert [block_range.first for block_range in ranges[1:]] == [
        block_range.last + 1 for block_range in ranges[:-1]
    ]
    assert indexer.cursor[1] == fake_chain.head.hash


def test_case_24_logs_missing_at_lagging_node_are_not_read_as_empty(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """One URL leads to two nodes: the head comes from one, and the logs from one that lags."""
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    lagging = Provider(fake_chain.tree, fake_chain.head)
    block = fake_chain.emit(encode_task_created_log(1))
    # The number of immediate retries for a block that does not exist yet.
    other_node = log_faults.build_foreign_logs_fault(lagging, times=3)
    fake_chain.provider.faults.append(other_node)

    with pytest.raises(TransientError, match="not there yet: unknown block"):
        indexer.step()
    indexer.index()

    assert other_node.hit_count == 3
    assert indexer.canonical_logs()[-1] == (block.hash, 0)


def test_case_24_empty_logs_are_checked_against_a_later_header(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """The node without the logs does not have the block, and neither has the URL afterwards."""
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    lagging = Provider(fake_chain.tree, fake_chain.head)
    block = fake_chain.emit(encode_task_created_log(1))
    later = FaultLimits(
        methods=block_faults.HEADER_METHODS, times=1, when=match_after_log_request(fake_chain)
    )
    fake_chain.provider.faults += [
        log_faults.build_foreign_logs_fault(
            lagging, times=1, when=lambda request: not request.is_by_block_hash
        ),
        reject_block_hash_filters(),
        block_faults.build_forwarding_fault(lagging, **later),
    ]

    with pytest.raises(TransientError, match="changed while its logs were read"):
        indexer.step()
    indexer.index()

    assert indexer.canonical_logs()[-1] == (block.hash, 0)


def match_after_log_request(fake_chain: FakeChain) -> Callable[[Any], bool]:
    """Return a fault limit that matches once logs have been requested by range."""
    before = len(list_log_ranges(fake_chain.provider))
    return lambda _: len(list_log_ranges(fake_chain.provider)) > before


def test_case_25_blocks_above_endpoint_head_are_not_requested(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(fake_chain.urls[0])
    fake_chain.provider.head = fake_chain.back(10)
    beyond = BlockRange(fake_chain.head.number - 5, fake_chain.head.number)

    for with_headers in (True, False):
        with pytest.raises(
            TransientError, match=f"is at block {fake_chain.head.number - 10}, below"
        ):
            indexer.source.fetch_window(beyond, with_headers=with_headers)

    assert fake_chain.provider.count_requests("eth_getLogs") == 0


def test_case_25_empty_logs_for_an_unknown_block_are_detected(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """The endpoint loses the newest block between the request for the head and the logs."""
    source = open_indexer(fake_chain.urls[0], clock=clock).source
    block = fake_chain.emit(encode_task_created_log(1))
    fake_chain.provider.faults.append(log_faults.build_empty_logs_for_unknown_block_fault())
    fake_chain.provider.keeps_orphans = False
    source.fetch_heads()
    fake_chain.provider.head = fake_chain.tree.mine(parent_block=fake_chain.back(1))

    with pytest.raises(TransientError, match="changed while its logs were read"):
        source.fetch_window(BlockRange(block.number, block.number), with_headers=True)


def test_case_26_headers_and_logs_of_different_forks_never_mix(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    block = fake_chain.emit(encode_task_created_log(1))
    fork = Provider(
        fake_chain.tree, fake_chain.tree.mine(block.txs, parent_block=block.parent, seconds=13)
    )
    fake_chain.show(block)
    forked_logs = log_faults.build_foreign_logs_fault(
        fork, when=lambda request: not request.is_by_block_hash
    )
    # Receipts would put the logs right.
    fake_chain.provider.faults += [forked_logs, reject_block_hash_filters(), reject_receipts()]
    source = open_indexer(fake_chain.urls[0], clock=clock).source
    last = BlockRange(block.number, block.number)

    with pytest.raises(TransientError, match=f"block {block.number} have different hashes"):
        source.fetch_window(last, with_headers=True)
    fake_chain.provider.faults.remove(forked_logs)
    again = source.fetch_window(last, with_headers=True)

    assert [log.block_hash for log in again.logs] == [block.hash]


# --- answers to no question ---


def test_case_45_duplicate_log_is_counted_once_and_exported(
    fresh_indexer: Indexer, fake_chain: FakeChain
):
    (name,) = fresh_indexer.source.list_endpoint_names()
    before = read_metric("oracle_duplicate_logs_total", endpoint=name)
    twice = log_faults.build_duplicated_log_fault()
    fake_chain.provider.faults.append(twice)

    fresh_indexer.index()

    assert fresh_indexer.canonical_logs() == fake_chain.logs()
    assert read_metric("oracle_duplicate_logs_total", endpoint=name) - before > 0


def assert_window_rejected(
    fresh_indexer: Indexer, fake_chain: FakeChain, make: Callable[[], InjectedFault]
) -> None:
    """Assert that the window is rejected under this fault, and that nothing is stored."""
    wrong = make()
    fake_chain.provider.faults.append(wrong)
    with pytest.raises(TransientError, match=r"invalid answer: (logs|eth_getLogs): "):
        fresh_indexer.index()
    assert wrong.hit_count > 0
    assert fresh_indexer.canonical_logs() == []


def test_case_45_window_with_conflicting_logs_is_rejected(
    fresh_indexer: Indexer, fake_chain: FakeChain
):
    assert_window_rejected(fresh_indexer, fake_chain, log_faults.build_conflicting_log_fault)


MALFORMED_LOGS: dict[str, Callable[[], InjectedFault]] = {
    "removed": log_faults.build_removed_logs_fault,
    "pending": log_faults.build_pending_logs_fault,
    "zero transaction hash": log_faults.build_zero_tx_hashes_fault,
    "odd number of hex digits": log_faults.build_odd_hex_length_fault,
    "not hex": lambda: log_faults.build_changed_log_field_fault("data", "0xzz"),
    "no block hash": lambda: log_faults.build_missing_log_field_fault("blockHash"),
    "no index": lambda: log_faults.build_missing_log_field_fault("logIndex"),
    "no topics": lambda: log_faults.build_changed_log_field_fault("topics", []),
}


@pytest.mark.parametrize("name", MALFORMED_LOGS)
def test_case_46_window_with_malformed_log_is_rejected(
    fresh_indexer: Indexer, fake_chain: FakeChain, name: str
):
    assert_window_rejected(fresh_indexer, fake_chain, MALFORMED_LOGS[name])


@pytest.mark.parametrize("name", MALFORMED_LOGS)
def test_case_46_malformed_log_is_read_from_another_endpoint(
    fake_chain: FakeChain, open_indexer: OpenIndexer, name: str
):
    fake_chain.provider.faults.append(MALFORMED_LOGS[name]())
    indexer = open_indexer(*fake_chain.urls)

    indexer.index()

    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize(
    "fault", [log_faults.build_uppercase_hex_fault, log_faults.build_reversed_logs_fault]
)
def test_case_46_alternative_encoding_is_decoded_identically(
    fresh_indexer: Indexer,
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    fault: Callable[[], InjectedFault],
):
    honest = open_indexer(fake_chain.urls[1], reports=False)
    honest.index()
    fake_chain.provider.faults.append(fault())

    fresh_indexer.index()

    assert fresh_indexer.canonical_logs() == fake_chain.logs()
    assert fresh_indexer.digest() == honest.digest()


UNREQUESTED_LOGS: dict[str, Callable[[], InjectedFault]] = {
    "outside of the range": lambda: log_faults.build_shifted_block_numbers_fault(1_000),
    "another address": lambda: log_faults.build_wrong_log_address_fault(make_node_address(0xBAD)),
    "another event": lambda: log_faults.build_changed_log_field_fault(
        "topics", ["0x" + "ab" * 32]
    ),
}


@pytest.mark.parametrize("name", UNREQUESTED_LOGS)
def test_case_47_window_with_unrequested_log_is_rejected(
    fresh_indexer: Indexer, fake_chain: FakeChain, name: str
):
    assert_window_rejected(fresh_indexer, fake_chain, UNREQUESTED_LOGS[name])
