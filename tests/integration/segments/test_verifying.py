"""`resync verify` with workers: the same result and the same bytes as without."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from devnet.fakechain.fault import InjectedFault
from devnet.fakechain.faults.block_faults import build_omitted_receipt_fault
from devnet.fakechain.faults.log_faults import build_omitted_logs_fault
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.audit.reverify import VerifyResult, reverify_blocks
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import RebuildOptions
from tests.integration.segments.conftest import HISTORY, OpenPrepared, outcomes
from tests.support.ingest.dumping import dump_database_rows
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer

LAST = HISTORY - FINALITY


def verify_history(
    indexer: Indexer, level: VerificationLevel, endpoint: str | None = None
) -> VerifyResult:
    context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
    return reverify_blocks(context, BlockRange(0, LAST), level, endpoint)


@pytest.mark.parametrize(
    "level",
    [
        VerificationLevel.CHECKED,
        VerificationLevel.SEAMED,
        VerificationLevel.PINNED,
        VerificationLevel.PROVEN,
    ],
)
def test_workers_verify_the_same_blocks_as_the_writer(
    open_prepared: OpenPrepared, level: VerificationLevel
):
    alone = open_prepared(0)
    together = open_prepared(2)
    for indexer in (alone, together):
        indexer.index()
    before = outcomes("taken")

    verify_results = [verify_history(indexer, level) for indexer in (alone, together)]

    assert outcomes("taken") > before
    assert verify_results[0] == verify_results[1]
    assert verify_results[0].reached_level >= level
    assert dump_database_rows(alone.url) == dump_database_rows(together.url)


@pytest.mark.parametrize(
    "fault",
    [lambda: build_omitted_receipt_fault(0, times=2), lambda: build_omitted_logs_fault(times=2)],
)
def test_workers_verify_the_same_blocks_with_a_faulty_endpoint(
    fake_chain: FakeChain, open_prepared: OpenPrepared, fault: Callable[[], InjectedFault]
):
    fake_chain.serve().head = fake_chain.head
    alone = open_prepared(0)
    together = open_prepared(2)
    for indexer in (alone, together):
        indexer.index()
    expected = verify_history(alone, VerificationLevel.PROVEN)
    fake_chain.provider.faults.append(fault())

    verify_result = verify_history(together, VerificationLevel.PROVEN)

    # The message also names the endpoint that is used instead.
    assert replace(verify_result, endpoints=()) == replace(expected, endpoints=())
    assert together.digest() == alone.digest()


def test_workers_use_the_requested_endpoint(fake_chain: FakeChain, open_prepared: OpenPrepared):
    fake_chain.serve().head = fake_chain.head
    indexer = open_prepared(1)
    indexer.index()
    second = indexer.source.list_endpoint_names()[1]

    assert verify_history(indexer, VerificationLevel.PROVEN, second).endpoints == (second,)
