"""Cases 48 and 49: how far the blooms and roots of a chain are trusted."""

from collections.abc import Callable

import pytest

from devnet.fakechain.block_json import FakeLog, Json, Tx
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, transport_faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.proofs.receipts import compute_bloom_mask
from oracle.chain.verification.calibration import RETRY_SECONDS
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.chain.network_logs import NETWORK
from tests.support.ingest.endpoints import follow_until_idle
from tests.support.ingest.event_encoding import ANYBODY, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.reading import (
    add_busy_blocks,
    add_fault,
    count_failures,
    read_feature_metric,
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    return add_busy_blocks(fake_chain)


# --- which headers prove something ---


@pytest.mark.parametrize(
    "bloom",
    [
        block_faults.build_zero_bloom_fault,
        block_faults.build_saturated_bloom_fault,
        lambda: block_faults.build_wrong_bloom_fault(
            compute_bloom_mask(NETWORK) | compute_bloom_mask(encode_task_created_log(0).topics[0])
        ),
    ],
    ids=["zero", "saturated", "of unknown logs"],
)
def test_case_48_invalid_blooms_are_distrusted_and_no_block_is_skipped(
    busy_chain: FakeChain, open_indexer: OpenIndexer, bloom: Callable[[], InjectedFault]
):
    add_fault(busy_chain, bloom())
    indexer = open_indexer(busy_chain.urls[0])

    indexer.index()

    assert (read_feature_metric("bloom"), read_feature_metric("receipts_root")) == (-1, 1)
    assert indexer.canonical_logs() == busy_chain.logs()
    assert indexer.cursor[1] == busy_chain.head.hash


def test_case_48_valid_bloom_is_trusted_and_raises_the_level(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(busy_chain.urls[0])
    indexer.index()
    foreign_block = busy_chain.tree.mine([Tx(ANYBODY, ANYBODY, logs=(FakeLog(ANYBODY, ()),))])
    busy_chain.show(foreign_block)

    window = indexer.source.fetch_window(
        BlockRange(foreign_block.number, foreign_block.number), with_headers=True
    )

    assert read_feature_metric("bloom") == 1
    assert (window.level, window.logs, window.proven) == (VerificationLevel.BLOOMED, [], ())


def build_system_receipt_fault(fake_chain: FakeChain) -> InjectedFault:
    """Return a fault that adds the receipt of something that is no transaction of the block."""
    extra = fake_chain.head.receipts
    some = fake_chain.emit(encode_task_created_log(9_999)).receipts[0] if not extra else extra[0]

    def with_one(receipts: list[Json]) -> list[Json]:
        more = {**some, "transactionIndex": hex(len(receipts)), "logs": []}
        return [*receipts, more]

    return block_faults.build_changed_receipts_fault("a system receipt", with_one)


@pytest.mark.parametrize("fault", ["dummy root", "system receipts"])
def test_case_49_dummy_roots_are_distrusted_and_chain_is_indexed(
    busy_chain: FakeChain, open_indexer: OpenIndexer, fault: str
):
    receipts_fault = (
        block_faults.build_wrong_receipts_root_fault()
        if fault == "dummy root"
        else build_system_receipt_fault(busy_chain)
    )
    for place in (0, 1):
        add_fault(busy_chain, receipts_fault, place)
    indexer = open_indexer(*busy_chain.urls)

    indexer.index()
    head = busy_chain.head.number
    window = indexer.source.fetch_verified_window(
        BlockRange(head - 5, head), VerificationLevel.PROVEN
    )

    assert (read_feature_metric("receipts_root"), count_failures(indexer, "receipts_root")) == (
        -1,
        0,
    )
    assert VerificationLevel.PINNED <= window.level < VerificationLevel.PROVEN
    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_49_receipts_contradicting_root_are_rejected(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """Every endpoint returns the same; this is no proof, and an operator has to decide."""
    indexer = open_indexer(*busy_chain.urls, clock=clock)
    indexer.index()
    receipts_fault = build_system_receipt_fault(busy_chain)
    for place in (0, 1):
        add_fault(busy_chain, receipts_fault, place)
    busy_chain.emit(encode_task_created_log(1))

    with pytest.raises(TransientError, match="no endpoint can prove the block"):
        indexer.step()

    assert read_feature_metric("receipts_root") == 1
    assert indexer.source.get_max_allowed_level() == VerificationLevel.PROVEN


def test_case_49_false_receipts_of_one_endpoint_do_not_lower_the_level(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    indexer = open_indexer(*busy_chain.urls, clock=clock)
    indexer.index()
    add_fault(busy_chain, build_system_receipt_fault(busy_chain))
    for number in range(5):
        busy_chain.emit(encode_task_created_log(number))
        indexer.index()

    assert (
        read_feature_metric("receipts_root"),
        count_failures(indexer, "receipts_root") > 0,
    ) == (1, True)
    assert indexer.source.get_max_allowed_level() == VerificationLevel.PROVEN
    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_49_one_responding_endpoint_does_not_lower_the_level(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    """The other endpoint is silent while this one contradicts itself."""
    indexer = open_indexer(*busy_chain.urls, clock=clock)
    indexer.index()
    add_fault(busy_chain, build_system_receipt_fault(busy_chain))
    silent = add_fault(busy_chain, transport_faults.build_http_status_fault(500), 1)
    block = busy_chain.emit(encode_task_created_log(1))

    with pytest.raises(TransientError):
        indexer.source.fetch_window(BlockRange(block.number, block.number), with_headers=True)
    still = read_feature_metric("receipts_root")
    busy_chain.providers[1].faults.remove(silent)
    follow_until_idle(indexer, clock)

    assert (still, read_feature_metric("receipts_root")) == (1, 1)
    assert indexer.canonical_logs() == busy_chain.logs()


def test_case_49_higher_level_is_retried_after_one_hour(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    wrong_root = add_fault(busy_chain, block_faults.build_wrong_receipts_root_fault())
    indexer = open_indexer(busy_chain.urls[0], clock=clock)
    indexer.index()
    busy_chain.provider.faults.remove(wrong_root)

    clock.advance(RETRY_SECONDS + 1)
    busy_chain.emit(encode_task_created_log(1))
    indexer.index()

    assert read_feature_metric("receipts_root") == 1
