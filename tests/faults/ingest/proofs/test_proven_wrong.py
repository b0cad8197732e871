"""An endpoint that was proven wrong gets no requests, and its unconfirmed blocks are audited."""

from collections.abc import Iterator
from typing import Any

import pytest

from devnet.fakechain.faults import block_faults, log_faults
from oracle.chain.verification.calibration import Calibration
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.judgement import record_endpoints_proven_wrong
from oracle.indexer.audit.reverify import reverify_blocks
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import RebuildOptions
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import count_requests, list_labels, read_metric
from tests.support.ingest.event_encoding import encode_task_created_log
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.honest import index_honest_chain
from tests.support.ingest.indexer import MINIMAL_POLICY, Indexer
from tests.support.ingest.lying import alter_log, find_block_with_log, omit_log
from tests.support.ingest.reading import add_busy_blocks, add_fault, build_log_matcher


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    return add_busy_blocks(fake_chain)


def calibrate_source(indexer: Indexer, place: int = 1) -> Indexer:
    """Let the source learn the chain's header features from one endpoint."""
    indexer.source.configure_verification(VerificationPolicy(), Calibration(indexer.clock))
    newest = indexer.source.fetch_heads().latest.number
    name = indexer.source.list_endpoint_names()[place]
    indexer.source.fetch_verified_window(
        BlockRange(newest - 40, newest), VerificationLevel.PROVEN, name
    )
    assert indexer.source.are_receipts_provable()
    return indexer


@pytest.fixture
def indexer_with_omitted_log(busy_chain: FakeChain, open_indexer: OpenIndexer) -> Indexer:
    """Return an indexer that read everything from the first endpoint and lacks one log."""
    omit_log(busy_chain)
    indexer = open_indexer(*busy_chain.urls, reports=False)
    indexer.source.configure_verification(MINIMAL_POLICY, Calibration(indexer.clock))
    indexer.index()
    assert len(indexer.canonical_logs()) == len(busy_chain.logs()) - 1
    return calibrate_source(indexer)


def audit_all_windows(indexer: Indexer, auditor: Auditor) -> Iterator[AuditResult]:
    context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
    while (audit := audit_next_window(context, auditor)) is not None:
        yield audit


def list_proven_wrong_endpoints(indexer: Indexer) -> set[str]:
    with indexer.store.read_transaction() as uow:
        return set(uow.facts.quarantine.get_reason_by_endpoint())


def suspect_blocks(indexer: Indexer) -> int:
    with indexer.store.read_transaction() as uow:
        return uow.facts.quarantine.count_suspect_blocks(indexer.folder.scope.id)


# --- what proves an endpoint wrong ---


def test_endpoint_proven_to_omit_logs_is_no_longer_queried(
    busy_chain: FakeChain, indexer_with_omitted_log: Indexer, open_indexer: OpenIndexer
):
    liar, honest = indexer_with_omitted_log.source.list_endpoint_names()
    at = find_block_with_log(busy_chain).number

    audits = list(audit_all_windows(indexer_with_omitted_log, Auditor(window_blocks=at + 1)))

    assert [audit.proven_wrong for audit in audits if audit.difference] == [
        f"had other logs or calls than the receipts of block {at}"
    ]
    assert (
        list_proven_wrong_endpoints(indexer_with_omitted_log),
        set(indexer_with_omitted_log.source.get_proven_wrong_endpoints()),
    ) == ({liar}, {liar})
    # Incomplete windows up to the newest block are audited at once, too, oldest first.
    assert [audit.blocks.first for audit in audits] == sorted(
        audit.blocks.first for audit in audits
    )
    assert audits[-1].blocks.last == busy_chain.head.number
    assert {audit.auditor for audit in audits} == {honest}
    assert suspect_blocks(indexer_with_omitted_log) == 0
    assert (
        indexer_with_omitted_log.digest() == index_honest_chain(busy_chain, open_indexer).digest()
    )
    busy_chain.live(3)
    assert count_requests(busy_chain.providers[0], indexer_with_omitted_log.index) == 0
    assert (
        read_metric(
            "oracle_endpoint_proven_wrong", endpoint=list_labels(indexer_with_omitted_log)[0]
        )
        == 1
    )


def test_endpoint_that_fabricates_logs_is_detected_while_reading(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = calibrate_source(open_indexer(*busy_chain.urls, reports=False))
    alter_log(busy_chain)

    indexer.index()

    liar = indexer.source.list_endpoint_names()[0]
    assert set(indexer.source.get_proven_wrong_endpoints()) == {liar}
    assert record_endpoints_proven_wrong(indexer.source, indexer.store, RebuildOptions()) == [liar]
    assert list_proven_wrong_endpoints(indexer) == {liar}
    assert indexer.digest() == index_honest_chain(busy_chain, open_indexer).digest()


def add_changed_receipts_fault(busy_chain: FakeChain, times: int) -> None:
    def more(receipts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**receipt, "cumulativeGasUsed": "0x1"} for receipt in receipts]

    add_fault(
        busy_chain, block_faults.build_changed_receipts_fault("other receipts", more, times=times)
    )


@pytest.mark.parametrize(("times", "is_out"), [(1, False), (100, True)])
def test_endpoint_is_proven_wrong_only_by_repeated_contradictions(
    busy_chain: FakeChain, open_indexer: OpenIndexer, times: int, *, is_out: bool
):
    indexer = calibrate_source(open_indexer(*busy_chain.urls, reports=False))
    indexer.index()
    add_changed_receipts_fault(busy_chain, times)
    busy_chain.emit(encode_task_created_log(1))

    indexer.index()

    assert bool(indexer.source.get_proven_wrong_endpoints()) is is_out
    assert indexer.canonical_logs() == busy_chain.logs()


@pytest.mark.parametrize(("times", "is_out"), [(1, False), (100, True)])
def test_auditor_is_proven_wrong_only_after_repeated_omissions(
    busy_chain: FakeChain, open_indexer: OpenIndexer, times: int, *, is_out: bool
):
    indexer = calibrate_source(open_indexer(*busy_chain.urls, reports=False))
    indexer.index()
    at = find_block_with_log(busy_chain)
    add_fault(
        busy_chain, log_faults.build_omitted_logs_fault(build_log_matcher(at), times=times), 1
    )

    audits = list(audit_all_windows(indexer, Auditor(window_blocks=at.number + 1)))

    # Logs that were omitted once may be returned by the second kind of range query.
    assert {audit.outcome for audit in audits if audit.difference} <= {"denied"}
    auditor = indexer.source.list_endpoint_names()[1]
    assert set(indexer.source.get_proven_wrong_endpoints()) == ({auditor} if is_out else set())


def test_audit_without_proofs_quarantines_no_endpoint(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    for place in (0, 1):
        add_fault(busy_chain, block_faults.build_wrong_receipts_root_fault(), place)
        add_fault(busy_chain, block_faults.build_zero_bloom_fault(), place)
    alter_log(busy_chain)
    indexer = open_indexer(*busy_chain.urls, reports=False)
    indexer.index()

    audits = list(
        audit_all_windows(
            indexer, Auditor(window_blocks=find_block_with_log(busy_chain).number + 1)
        )
    )

    assert [audit.outcome for audit in audits if audit.difference] == ["unproven"]
    assert indexer.source.get_proven_wrong_endpoints() == {}


# --- consequences ---


def test_verify_skips_endpoints_proven_wrong_by_default(
    busy_chain: FakeChain, indexer_with_omitted_log: Indexer
):
    list(
        audit_all_windows(
            indexer_with_omitted_log,
            Auditor(window_blocks=find_block_with_log(busy_chain).number + 1),
        )
    )
    options = RebuildOptions(dry_run=True)
    context = RepairContext(
        indexer_with_omitted_log.source,
        indexer_with_omitted_log.store,
        indexer_with_omitted_log.folder,
        options,
    )

    def verified() -> None:
        blocks = BlockRange(0, indexer_with_omitted_log.cursor[0])
        verification = reverify_blocks(context, blocks, VerificationLevel.SEAMED)
        assert not verification.difference

    assert count_requests(busy_chain.providers[0], verified) == 0


def test_verify_with_repair_records_endpoints_proven_wrong(
    indexer_with_omitted_log: Indexer,
):
    liar, honest = indexer_with_omitted_log.source.list_endpoint_names()
    blocks = BlockRange(0, indexer_with_omitted_log.cursor[0] - 8)
    context = RepairContext(
        indexer_with_omitted_log.source,
        indexer_with_omitted_log.store,
        indexer_with_omitted_log.folder,
        RebuildOptions(),
    )

    reverify_blocks(context, blocks, VerificationLevel.PROVEN, honest, repair=True)

    assert list_proven_wrong_endpoints(indexer_with_omitted_log) == {liar}


def test_blocks_audited_by_a_quarantined_endpoint_are_unaudited(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = calibrate_source(open_indexer(*busy_chain.urls, reports=False))
    indexer.index()
    list(audit_all_windows(indexer, Auditor(window_blocks=20)))
    with indexer.store.transaction() as uow:
        scope = indexer.folder.scope.id
        before = uow.coverage.count_audited_blocks(scope)
        uow.facts.quarantine.add(indexer.source.list_endpoint_names()[1], "a lie")
        assert (before > 0, uow.coverage.count_audited_blocks(scope)) == (True, 0)
