"""An operator has decided about a final hash that the only other provider contradicts."""

from types import SimpleNamespace
from typing import Any

import pytest

from devnet.fakechain.block_json import Block
from devnet.fakechain.faults import log_faults, transport_faults
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.daemon.config.chain_section import VerifySection
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.maintenance_jobs import (
    AUDIT_BACKOFF_SECONDS,
    MaintenanceJobs,
    find_unsound_block_reason,
)
from oracle.daemon.scheduler import JobLiveness
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from oracle.indexer.audit.unproven_history import accept_disputed_blocks
from tests.faults.ingest.conftest import OpenIndexer
from tests.faults.ingest.proofs.test_further_providers import (
    audit_due_windows,
    change_block_hash,
    configure_without_proof,
    count_blocks_without_audit,
    list_disputes,
)
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, Indexer
from tests.support.ingest.reading import add_fault


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def indexer(fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock) -> Indexer:
    """Return an indexer of two providers that has indexed a chain without any proof."""
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + 20)
    opened = open_indexer(*fake_chain.urls, reports=False, clock=clock)
    configure_without_proof(opened)
    opened.index()
    return opened


def get_disputed_block(chain: FakeChain, *, has_logs: bool) -> Block:
    """Return the newest final block with logs, or the final block, which is empty."""
    blocks = get_branch(chain.back(FINALITY))
    return [block for block in blocks if block.logs][-1] if has_logs else blocks[-1]


def find_audit_obstacle(indexer: Indexer) -> str:
    """Audit windows until a window is put off, and return the reason."""
    with pytest.raises(TransientError) as raised:
        audit_due_windows(indexer)
    return str(raised.value)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("has_logs", [False, True])
def test_audit_continues_after_the_indexed_hash_is_accepted(
    fake_chain: FakeChain, indexer: Indexer, *, has_logs: bool, is_restarted: bool
):
    block = get_disputed_block(fake_chain, has_logs=has_logs)
    change_block_hash(fake_chain, block, 1)
    giver, second = indexer.source.list_endpoint_names()
    obstacle = find_audit_obstacle(indexer)
    assert f"blocks {block.number} to {block.number} are unproven" in obstacle
    assert f"{giver} and {second} differ" in obstacle
    assert [dispute.message for dispute in list_disputes(indexer)] == [obstacle]

    with indexer.store.transaction() as uow:
        accept_disputed_blocks(uow, BlockRange(block.number, block.number), {giver})
    if is_restarted:
        indexer.restart()
        configure_without_proof(indexer)
    accepted = {
        number: audit.auditor
        for audit in audit_due_windows(indexer)
        for number in audit.accepted_blocks
    }

    assert accepted == {block.number: second}
    assert (list_disputes(indexer), count_blocks_without_audit(indexer)) == ([], 0)


def test_other_conflicts_of_an_accepted_window_are_disputed(
    fake_chain: FakeChain, indexer: Indexer
):
    blocks = [block for block in get_branch(fake_chain.back(FINALITY)) if block.logs][-3:-1]
    giver, second = indexer.source.list_endpoint_names()
    for block in blocks:
        change_block_hash(fake_chain, block, 1)
    find_audit_obstacle(indexer)
    number, other_number = (block.number for block in blocks)
    with indexer.store.transaction() as uow:
        accept_disputed_blocks(uow, BlockRange(number, number), {giver})

    obstacle = find_audit_obstacle(indexer)

    assert f"blocks {other_number} to {other_number} are unproven" in obstacle
    assert second in obstacle


def test_fork_of_a_lagging_second_provider_is_not_disputed(
    fake_chain: FakeChain, indexer: Indexer
):
    lagging, head = fake_chain.providers[1], fake_chain.head
    lagging.head = fake_chain.tree.mine_empty_blocks(4, fake_chain.back(FINALITY + 2))

    obstacle = find_audit_obstacle(indexer)
    assert (list_disputes(indexer), "not final there" in obstacle) == ([], True)

    lagging.head = head
    audit_due_windows(indexer)
    assert (list_disputes(indexer), count_blocks_without_audit(indexer)) == ([], 0)


def test_agreeing_third_provider_audits_a_window_that_the_second_disputes(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.serve()
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + 20)
    indexer = open_indexer(*fake_chain.urls, reports=False, clock=clock)
    configure_without_proof(indexer)
    indexer.index()
    block = get_disputed_block(fake_chain, has_logs=True)
    change_block_hash(fake_chain, block, 1)
    find_audit_obstacle(indexer)
    clock.advance(AUDIT_BACKOFF_SECONDS)

    audit_due_windows(indexer)

    assert count_blocks_without_audit(indexer) == 0
    assert [(dispute.auditor, list(dispute.blocks)) for dispute in list_disputes(indexer)] == [
        (indexer.urls[1], [block.number])
    ]


def test_agreeing_third_provider_audits_a_window_while_the_second_is_on_a_short_fork(
    fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock
):
    fake_chain.serve()
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + 20)
    indexer = open_indexer(*fake_chain.urls, reports=False, clock=clock)
    configure_without_proof(indexer)
    indexer.index()
    fork_base = fake_chain.back(FINALITY + 2)
    fake_chain.providers[1].head = fake_chain.tree.mine_empty_blocks(4, fork_base)
    assert "not final there" in find_audit_obstacle(indexer)
    clock.advance(AUDIT_BACKOFF_SECONDS)

    audit_due_windows(indexer)

    assert (list_disputes(indexer), count_blocks_without_audit(indexer)) == ([], 0)


@pytest.fixture
def jobs(indexer: Indexer) -> MaintenanceJobs:
    """Return the jobs of a daemon on a chain whose headers are known to prove nothing."""
    calibration = Calibration(indexer.clock)
    for feature in HeaderFeature:
        calibration.mark_unsupported(feature, "a test")
    indexer.source.configure_verification(VerificationPolicy(), calibration)
    index: Any = SimpleNamespace(
        chain=indexer.source,
        store=indexer.store,
        folder=indexer.folder,
        config=SimpleNamespace(verify=VerifySection()),
    )
    with indexer.store.transaction() as uow:
        epoch = uow.lease.acquire("a test", 3_600)
    assert epoch is not None
    jobs = MaintenanceJobs(
        index, epoch, indexer.ingest, DaemonHealth(JobLiveness(indexer.clock)), None
    )
    jobs.scope_backfill.is_complete = True
    return jobs


def fail_audit(chain: FakeChain, jobs: MaintenanceJobs) -> None:
    """Let the second provider refuse the request of one audit."""
    refusal = add_fault(
        chain, transport_faults.build_http_status_fault(503, methods=log_faults.LOG_METHODS), 1
    )
    jobs.audit_blocks()
    chain.providers[1].faults.remove(refusal)
    assert jobs.audit_obstacle


def test_unaudited_blocks_are_reported_with_the_reason_of_the_last_audit(
    fake_chain: FakeChain, indexer: Indexer, jobs: MaintenanceJobs, clock: VirtualClock
):
    fail_audit(fake_chain, jobs)
    reason = find_unsound_block_reason(jobs.index, audit_obstacle=jobs.audit_obstacle)

    assert f"the last audit failed: {indexer.urls[1]}" in (reason or "")
    clock.advance(120)
    while jobs.audit_blocks() is not None:
        assert not jobs.audit_obstacle
    assert find_unsound_block_reason(jobs.index, audit_obstacle=jobs.audit_obstacle) is None


def test_reason_of_a_failed_audit_ends_when_no_block_is_due(
    fake_chain: FakeChain, indexer: Indexer, jobs: MaintenanceJobs, clock: VirtualClock
):
    fail_audit(fake_chain, jobs)
    clock.advance(120)
    audit_due_windows(indexer)

    assert jobs.audit_blocks() is None

    assert not jobs.audit_obstacle
