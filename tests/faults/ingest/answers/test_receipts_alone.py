"""History for which all receipts are read: its logs are not requested, and none is missing."""

from collections.abc import Callable

import pytest

from devnet.fakechain.block_json import FakeLog, Tx
from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults import block_faults, log_faults
from devnet.fakechain.faults.block_faults import build_changed_receipts_fault
from oracle.chain.source import ChainSource
from oracle.chain.verification import verifier
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.logs import Log
from oracle.errors import TransientError
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.event_encoding import ANYBODY, encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY
from tests.support.ingest.reading import (
    add_fault,
    build_log_matcher,
    count_missing_logs,
    list_log_ranges,
)

FULL, EMPTY = 90, 10
LEAST = verifier.MIN_NONEMPTY_BLOCKS


@pytest.fixture
def dense_chain(fake_chain: FakeChain) -> FakeChain:
    """Return a chain of blocks with two of our logs each, and a few empty blocks."""
    for number in range(LEAST + FULL):
        fake_chain.emit(
            encode_task_created_log(2 * number), encode_task_created_log(2 * number + 1)
        )
    fake_chain.mine_empty(EMPTY)
    fake_chain.emit(encode_task_created_log(10_000))
    fake_chain.mine_empty(FINALITY + 2)
    return fake_chain


def get_last_blocks(chain: FakeChain) -> BlockRange:
    """Return the last final blocks, the last of which has a log."""
    last = chain.head.number - FINALITY - 2
    return BlockRange(last - EMPTY - LEAST, last)


def calibrate_source(source: ChainSource) -> ChainSource:
    """Fetch a window, so that the source knows the headers' level and that receipts are served."""
    source.fetch_window(BlockRange(0, 20), with_headers=False)
    return source


def list_log_positions(logs: list[Log]) -> list[tuple[str, int]]:
    return [(log.block_hash, log.index) for log in logs]


def list_last_logs(chain: FakeChain) -> list[tuple[str, int]]:
    """Return the two logs of each full block, and the last log."""
    return chain.logs()[-2 * LEAST - 1 :]


def has_requested_logs(chain: FakeChain, blocks: BlockRange) -> bool:
    return any(
        first <= blocks.last and blocks.first <= last
        for first, last in list_log_ranges(chain.provider)
    )


def test_window_from_receipts_equals_window_from_logs(
    dense_chain: FakeChain, open_indexer: OpenIndexer, monkeypatch: pytest.MonkeyPatch
):
    source = calibrate_source(open_indexer(dense_chain.urls[0]).source)
    blocks = get_last_blocks(dense_chain)

    alone = source.fetch_window(blocks, with_headers=False)
    is_asked_alone = has_requested_logs(dense_chain, blocks)
    monkeypatch.setattr(verifier, "MIN_NONEMPTY_BLOCKS", 10**6)
    compared = source.fetch_window(blocks, with_headers=False)

    assert (is_asked_alone, has_requested_logs(dense_chain, blocks)) == (False, True)
    assert list_log_positions(list(alone.logs)) == list_last_logs(dense_chain)
    assert alone == compared
    assert alone.proven == tuple(range(blocks.first, blocks.last + 1))


def test_window_from_receipts_is_complete_despite_omitted_logs(
    dense_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(dense_chain.urls[0], reports=False)
    blocks = get_last_blocks(dense_chain)
    calibrate_source(indexer.source)
    lie = add_fault(
        dense_chain, log_faults.build_omitted_logs_fault(build_log_matcher(dense_chain.head))
    )

    window = indexer.source.fetch_window(blocks, with_headers=False)

    assert (lie.hit_count, count_missing_logs(indexer)) == (0, 0)
    assert list_log_positions(list(window.logs)) == list_last_logs(dense_chain)


def test_logs_are_requested_if_a_bloom_excludes_a_block(
    dense_chain: FakeChain, open_indexer: OpenIndexer
):
    """The block's receipts would not be read, because a request for logs costs less."""
    dense_chain.show(dense_chain.tree.mine([Tx(ANYBODY, ANYBODY, logs=(FakeLog(ANYBODY, ()),))]))
    dense_chain.emit(encode_task_created_log(20_000))
    dense_chain.mine_empty(FINALITY + 2)
    blocks = get_last_blocks(dense_chain)
    source = calibrate_source(open_indexer(dense_chain.urls[0]).source)

    source.fetch_window(blocks, with_headers=False)

    assert has_requested_logs(dense_chain, blocks)


@pytest.mark.parametrize("count", [LEAST - 1, 1])
def test_logs_are_requested_if_range_has_few_blocks(
    dense_chain: FakeChain, open_indexer: OpenIndexer, count: int
):
    last = dense_chain.head.number - FINALITY - 2 - EMPTY - 1
    blocks = BlockRange(last - count + 1, last)
    source = calibrate_source(open_indexer(dense_chain.urls[0]).source)

    source.fetch_window(blocks, with_headers=False)

    assert has_requested_logs(dense_chain, blocks)


def test_logs_are_requested_if_a_block_was_accepted_without_proof(
    dense_chain: FakeChain, open_indexer: OpenIndexer
):
    source = open_indexer(dense_chain.urls[0]).source
    blocks = get_last_blocks(dense_chain)
    calibration = Calibration()
    source.configure_verification(VerificationPolicy(), calibration)
    calibrate_source(source)
    block_hash, _ = list_last_logs(dense_chain)[0]
    calibration.accept_block(HeaderFeature.RECEIPTS, block_hash)

    window = source.fetch_window(blocks, with_headers=False)

    assert has_requested_logs(dense_chain, blocks)
    assert list_log_positions(list(window.logs)) == list_last_logs(dense_chain)


def test_logs_are_requested_when_receipts_are_disabled(
    dense_chain: FakeChain, open_indexer: OpenIndexer
):
    source = open_indexer(dense_chain.urls[0]).source
    blocks = get_last_blocks(dense_chain)
    source.configure_verification(VerificationPolicy(receipts=False))
    calibrate_source(source).fetch_window(blocks, with_headers=False)
    assert has_requested_logs(dense_chain, blocks)


def remove_receipt_logs(receipt: dict[str, object]) -> dict[str, object]:
    return {**receipt, "logs": []}


def change_receipt_hash(receipt: dict[str, object]) -> dict[str, object]:
    return {**receipt, "transactionHash": "0x" + "77" * 32}


def change_log_block_hashes(receipt: dict[str, object]) -> dict[str, object]:
    logs: list[dict[str, object]] = receipt["logs"]  # type: ignore[assignment]
    return {**receipt, "logs": [{**log, "blockHash": "0x" + "77" * 32} for log in logs]}


SPOILED = {
    "missing receipt": lambda: block_faults.build_omitted_receipt_fault(0),
    "status": block_faults.build_inverted_status_fault,
    "none": lambda: build_changed_receipts_fault("none", lambda _: []),
    "no logs": lambda: build_changed_receipts_fault(
        "no logs", lambda all_: list(map(remove_receipt_logs, all_))
    ),
    "other names": lambda: build_changed_receipts_fault(
        "names", lambda all_: list(map(change_receipt_hash, all_))
    ),
    "other block": lambda: build_changed_receipts_fault(
        "block", lambda all_: list(map(change_log_block_hashes, all_))
    ),
    "gone": lambda: block_faults.build_fixed_result_fault(None, methods=("eth_getBlockReceipts",)),
}


@pytest.mark.parametrize("lie", SPOILED.values(), ids=SPOILED)
def test_window_with_false_receipts_is_rejected_without_requesting_logs(
    dense_chain: FakeChain, open_indexer: OpenIndexer, lie: Callable[[], InjectedFault]
):
    source = calibrate_source(open_indexer(dense_chain.urls[0]).source)
    blocks = get_last_blocks(dense_chain)
    fault = add_fault(dense_chain, lie())

    with pytest.raises(TransientError):
        source.fetch_window(blocks, with_headers=False)

    assert fault.hit_count > 0
    assert not has_requested_logs(dense_chain, blocks)


@pytest.mark.parametrize("lie", SPOILED.values(), ids=SPOILED)
def test_history_is_complete_despite_false_receipts(
    dense_chain: FakeChain, open_indexer: OpenIndexer, lie: Callable[[], InjectedFault]
):
    add_fault(dense_chain, lie())
    indexer = open_indexer(*dense_chain.urls, reports=False)

    indexer.index()

    assert indexer.canonical_logs() == dense_chain.logs()
