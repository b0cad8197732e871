"""Cases 28 and 29: logs that an endpoint omits, found later by another endpoint (L5)."""

import pytest

from devnet.fakechain.faults import log_faults
from devnet.fakechain.tree import get_branch
from oracle.chain.decode.abi import load_abi
from oracle.chain.verification.calibration import Calibration
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.reverify import reverify_blocks
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.rebuild import RebuildOptions
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.honest import index_honest_chain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.reading import reject_block_hash_filters

# Windows of the audit: short ones, for a short chain.
WINDOW = 10
MISSING = "oracle_verify_missing_logs_total"


def set_verification_policy(indexer: Indexer, policy: VerificationPolicy) -> None:
    indexer.source.configure_verification(policy, Calibration(indexer.clock))


def get_endpoint_name(indexer: Indexer, nth: int) -> str:
    return indexer.source.list_endpoint_names()[nth]


def audit_due_windows(indexer: Indexer, window: int = WINDOW) -> list[AuditResult]:
    """Audit windows until none is due, and return the results."""
    auditor = Auditor(window_blocks=window)
    done = []
    context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
    while (audit := audit_next_window(context, auditor)) is not None:
        done.append(audit)
    return done


def find_middle_log(fake_chain: FakeChain) -> tuple[int, int]:
    """Return block and index of a log in the middle of the history, on which much depends."""
    started = load_abi("TaskNetwork").get_event("TaskStarted").digest
    places = [
        (block.number, int(log["logIndex"], 16))
        for block in get_branch(fake_chain.head)
        for log in block.logs
        if log["topics"][0] == started
    ]
    return places[len(places) // 2]


def omit_one_log(fake_chain: FakeChain) -> int:
    """Let the first endpoint always omit one log; return the log's block."""
    number, index = find_middle_log(fake_chain)
    here = (hex(number), hex(index))
    fake_chain.provider.faults.append(
        log_faults.build_omitted_logs_fault(
            lambda log: (log["blockNumber"], log["logIndex"]) == here
        )
    )
    return number


@pytest.fixture
def indexer_with_omitted_log(
    fake_chain: FakeChain, open_indexer: OpenIndexer
) -> tuple[Indexer, int]:
    """Return an indexer that proved nothing and lacks a log, and the number of the log's block."""
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + WINDOW)
    block = omit_one_log(fake_chain)
    indexer = open_indexer(*fake_chain.urls, reports=False)
    set_verification_policy(indexer, MINIMAL_POLICY)
    indexer.index()
    assert len(indexer.canonical_logs()) == len(fake_chain.logs()) - 1
    return indexer, block


@pytest.mark.parametrize("policy", [MINIMAL_POLICY, VerificationPolicy()])
def test_case_29_audit_repairs_an_omitted_log_by_refolding(
    fake_chain: FakeChain,
    open_indexer: OpenIndexer,
    indexer_with_omitted_log: tuple[Indexer, int],
    policy: VerificationPolicy,
):
    indexer, block = indexer_with_omitted_log
    set_verification_policy(indexer, policy)
    giver = get_endpoint_name(indexer, 0)
    before = read_metric(MISSING, endpoint=giver)
    expected_digest = index_honest_chain(fake_chain, open_indexer).digest()
    assert indexer.digest() != expected_digest

    audits = audit_due_windows(indexer)

    (repaired,) = [audit for audit in audits if audit.outcome == "repaired"]
    assert [log.block for log in repaired.difference.missing_logs] == [block]
    assert (repaired.source_endpoint, repaired.at_fault) == (giver, giver)
    assert read_metric(MISSING, endpoint=giver) == before + 1
    assert indexer.canonical_logs() == fake_chain.logs()
    assert indexer.digest() == expected_digest


def test_case_28_audit_detects_a_log_omitted_from_ranges(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + WINDOW)
    number, index = find_middle_log(fake_chain)
    here = (hex(number), hex(index))
    fake_chain.provider.faults.append(
        log_faults.build_omitted_range_logs_fault(
            lambda log: (log["blockNumber"], log["logIndex"]) == here
        )
    )
    # Otherwise the omission would be detected without an audit.
    fake_chain.provider.faults.append(reject_block_hash_filters())
    indexer = open_indexer(*fake_chain.urls, reports=False)
    set_verification_policy(indexer, MINIMAL_POLICY)
    indexer.index()
    assert len(indexer.canonical_logs()) == len(fake_chain.logs()) - 1

    audits = audit_due_windows(indexer)

    assert [audit.at_fault for audit in audits if audit.difference] == [
        get_endpoint_name(indexer, 0)
    ]
    assert indexer.canonical_logs() == fake_chain.logs()
    # It is no longer preferred: the other endpoint serves the next window.
    fake_chain.live(1)
    before = fake_chain.provider.count_requests("eth_getLogs")
    assert [step for step in indexer.index() if isinstance(step, CommittedWindow)]
    assert fake_chain.provider.count_requests("eth_getLogs") == before


def test_case_29_audit_is_rejected_if_the_auditor_omits_logs(
    fake_chain: FakeChain, open_indexer: OpenIndexer
):
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + WINDOW)
    indexer = open_indexer(*fake_chain.urls, reports=False)
    indexer.index()
    before = indexer.digest()
    fake_chain.providers[1].faults.append(log_faults.build_omitted_log_fault(0))

    audits = audit_due_windows(indexer)

    denied = [audit for audit in audits if audit.outcome == "denied"]
    assert denied
    assert {audit.at_fault for audit in denied} == {get_endpoint_name(indexer, 1)}
    assert indexer.digest() == before


def test_case_29_verify_reports_and_repairs_a_missing_log(
    fake_chain: FakeChain, open_indexer: OpenIndexer, indexer_with_omitted_log: tuple[Indexer, int]
):
    indexer, block = indexer_with_omitted_log
    set_verification_policy(indexer, VerificationPolicy())
    blocks = BlockRange(0, indexer.cursor[0])
    places = (indexer.source, indexer.store, indexer.folder)
    wanted = (blocks, VerificationLevel.PROVEN, get_endpoint_name(indexer, 1))

    verification = reverify_blocks(RepairContext(*places, RebuildOptions(dry_run=True)), *wanted)

    assert [log.block for log in verification.difference.missing_logs] == [block]
    assert len(indexer.canonical_logs()) == len(fake_chain.logs()) - 1
    again = reverify_blocks(RepairContext(*places, RebuildOptions()), *wanted, repair=True)
    assert again.reached_level == VerificationLevel.PROVEN
    assert indexer.digest() == index_honest_chain(fake_chain, open_indexer).digest()
    with indexer.store.read_transaction() as uow:
        scope = indexer.folder.scope.id
        spans = uow.coverage.list_intervals(scope, blocks.first, blocks.last)
        assert {span.level for span in spans} == {VerificationLevel.PROVEN}


def test_verify_reports_the_number_of_unrepaired_logs(
    fake_chain: FakeChain, indexer_with_omitted_log: tuple[Indexer, int]
):
    indexer, block = indexer_with_omitted_log
    omitted_hash = next(at for at, index in fake_chain.logs() if index == 0)
    fake_chain.providers[1].faults.append(
        log_faults.build_omitted_logs_fault(lambda log: log["blockHash"] == omitted_hash)
    )
    blocks = BlockRange(0, indexer.cursor[0])
    context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())

    verification = reverify_blocks(
        context, blocks, VerificationLevel.SEAMED, get_endpoint_name(indexer, 1), repair=True
    )

    assert verification.repaired is not None
    assert [log.block for log in verification.difference.missing_logs] == [block]
    assert verification.unrepaired_count == len(verification.difference.extra_logs) > 0
