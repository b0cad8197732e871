"""A block is audited by another provider than the one that served it, if there is one.

Two URLs of the first provider omit the same log; the second provider's endpoint is honest.
"""

import pytest

from devnet.fakechain.faults import transport_faults
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import Calibration
from oracle.errors import TransientError
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.rebuild import RebuildOptions
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.honest import index_honest_chain
from tests.support.ingest.indexer import MINIMAL_POLICY, Indexer
from tests.support.ingest.lying import omit_log
from tests.support.ingest.reading import add_busy_blocks, add_fault

POSSIBLE = "oracle_audit_possible"
# Blocks of one audit: few, for a short chain.
WINDOW = 10


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def busy_chain(fake_chain: FakeChain) -> FakeChain:
    return add_busy_blocks(fake_chain)


def build_two_urls(chain: FakeChain) -> list[str]:
    return [f"{chain.urls[0]}/first-key", f"{chain.urls[0]}/second-key"]


def index_without_proof(indexer: Indexer) -> None:
    """Index without proofs, as on a chain whose headers prove nothing."""
    indexer.source.configure_verification(MINIMAL_POLICY, Calibration(indexer.clock))
    indexer.index()


def audit_due_windows(indexer: Indexer) -> list[AuditResult]:
    auditor = Auditor(window_blocks=WINDOW)
    audits = []
    context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
    while (audited := audit_next_window(context, auditor)) is not None:
        audits.append(audited)
    return audits


def audited_blocks(indexer: Indexer) -> int:
    with indexer.store.read_transaction() as uow:
        return uow.coverage.count_audited_blocks(indexer.folder.scope.id)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["one process", "restarted"])
def test_second_provider_detects_an_omission_by_both_urls_of_the_first(
    busy_chain: FakeChain, open_indexer: OpenIndexer, *, is_restarted: bool
):
    omit_log(busy_chain)
    indexer = open_indexer(*build_two_urls(busy_chain), busy_chain.urls[1], reports=False)
    index_without_proof(indexer)
    assert len(indexer.canonical_logs()) == len(busy_chain.logs()) - 1
    if is_restarted:
        indexer.restart()
        indexer.source.configure_verification(MINIMAL_POLICY, Calibration(indexer.clock))

    audits = audit_due_windows(indexer)

    honest = indexer.source.list_endpoint_names()[2]
    assert {audited.auditor for audited in audits} == {honest}
    assert "repaired" in {audited.outcome for audited in audits}
    assert indexer.canonical_logs() == busy_chain.logs()
    assert indexer.digest() == index_honest_chain(busy_chain, open_indexer).digest()


def test_no_block_is_audited_while_the_other_provider_is_silent(
    busy_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    omit_log(busy_chain)
    indexer = open_indexer(
        *build_two_urls(busy_chain), busy_chain.urls[1], reports=False, clock=clock
    )
    index_without_proof(indexer)
    silent = add_fault(busy_chain, transport_faults.build_http_status_fault(503), 1)

    for _ in range(2):
        with pytest.raises(TransientError):
            audit_due_windows(indexer)
        indexer.restart()
        indexer.source.configure_verification(MINIMAL_POLICY, Calibration(indexer.clock))
    assert audited_blocks(indexer) == 0

    busy_chain.providers[1].faults.remove(silent)
    clock.advance(60)
    audit_due_windows(indexer)
    assert indexer.canonical_logs() == busy_chain.logs()


def test_no_block_is_audited_if_other_provider_is_proven_wrong(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    indexer = open_indexer(*build_two_urls(busy_chain), busy_chain.urls[1], reports=False)
    index_without_proof(indexer)
    indexer.source.mark_proven_wrong(
        indexer.source.list_endpoint_names()[2], "gave logs that do not exist"
    )

    assert audit_due_windows(indexer) == []
    assert (audited_blocks(indexer), read_metric(POSSIBLE)) == (0, 0)


def test_second_endpoint_of_the_only_provider_audits_the_first(
    busy_chain: FakeChain, open_indexer: OpenIndexer
):
    omit_log(busy_chain)
    indexer = open_indexer(*build_two_urls(busy_chain), reports=False)
    index_without_proof(indexer)

    audits = audit_due_windows(indexer)

    second = indexer.source.list_endpoint_names()[1]
    assert {(audited.auditor, audited.outcome) for audited in audits} == {(second, "equal")}
    assert audited_blocks(indexer) > 0
    assert read_metric(POSSIBLE) == 1
