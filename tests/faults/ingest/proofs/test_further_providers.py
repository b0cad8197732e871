"""A third provider audits blocks of a chain whose headers prove nothing."""

import math
from typing import Any

import pytest

from devnet.fakechain.block_json import Block
from devnet.fakechain.faults import block_faults, log_faults, transport_faults
from devnet.fakechain.tree import get_branch
from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.verification.calibration import Calibration
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from oracle.indexer.audit.auditor import Auditor, AuditResult, audit_next_window
from oracle.indexer.audit.row_diff import RepairContext
from oracle.indexer.audit.unproven_history import (
    Dispute,
    accept_disputed_blocks,
    load_disputes,
)
from oracle.indexer.rebuild import RebuildOptions
from oracle.indexer.reorgs.reorg import rewind_to_block
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import FINALITY, MINIMAL_POLICY, Indexer
from tests.support.ingest.reading import add_fault

# Blocks of one audit: few, for a short chain.
WINDOW = 10
OTHER_HASH = "0x" + "ab" * 32


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def indexer(fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock) -> Indexer:
    """Return an indexer of three providers that has indexed a chain without any proof."""
    fake_chain.serve()
    fake_chain.live(40)
    fake_chain.mine_empty(FINALITY + 2)
    opened = open_indexer(*fake_chain.urls, reports=False, clock=clock)
    configure_without_proof(opened)
    opened.index()
    return opened


def configure_without_proof(indexer: Indexer) -> None:
    """Verify nothing, as on a chain whose headers prove nothing."""
    indexer.source.configure_verification(MINIMAL_POLICY, Calibration(indexer.clock))


def audit_one_window(indexer: Indexer, auditor: Auditor) -> AuditResult | None:
    context = RepairContext(indexer.source, indexer.store, indexer.folder, RebuildOptions())
    return audit_next_window(context, auditor)


def audit_due_windows(indexer: Indexer) -> list[AuditResult]:
    """Audit windows until none is due, and return the results."""
    auditor = Auditor(window_blocks=WINDOW, min_blocks=1)
    audits = []
    while (audit := audit_one_window(indexer, auditor)) is not None:
        audits.append(audit)
        assert len(audits) < 100
    return audits


def list_disputes(indexer: Indexer) -> list[Dispute]:
    with indexer.store.read_transaction() as uow:
        return load_disputes(uow)


def count_blocks_without_audit(indexer: Indexer) -> int:
    """Return the number of final blocks that were not audited."""
    with indexer.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        assert cursor.final_number is not None
        audited = uow.coverage.count_audited_blocks(indexer.folder.scope.id)
    return cursor.final_number + 1 - audited


def change_block_hash(chain: FakeChain, block: Block, place: int) -> None:
    """Let an endpoint show another hash of this block, in its header and in its logs."""
    number = hex(block.number)
    add_fault(
        chain,
        block_faults.build_changed_header_fault(
            {"hash": OTHER_HASH}, for_blocks=(block.number, block.number)
        ),
        place,
    )

    def change_log(log: dict[str, Any]) -> None:
        if log["blockNumber"] == number:
            log["blockHash"] = OTHER_HASH

    add_fault(chain, log_faults.build_every_log_changed_fault("other hash", change_log), place)


@pytest.mark.parametrize("place", [0, -1], ids=["first block", "last block"])
@pytest.mark.parametrize("is_slow", [False, True])
def test_different_hash_of_a_final_block_is_recorded_as_a_dispute(
    fake_chain: FakeChain, indexer: Indexer, place: int, *, is_slow: bool
):
    block = [block for block in get_branch(fake_chain.head) if block.logs][place]
    change_block_hash(fake_chain, block, 2)
    giver, _, third = indexer.source.list_endpoint_names()
    if is_slow:
        # Routine comparisons leave out a slow endpoint, but an audit must not.
        indexer.source.endpoints.endpoint_list.get(third).status.slow_until = math.inf

    outcomes = {audit.outcome for audit in audit_due_windows(indexer)}

    (dispute,) = list_disputes(indexer)
    assert (dispute.giver, dispute.auditor, list(dispute.blocks)) == (giver, third, [block.number])
    assert dispute.blocks[block.number].rows == 2 * len(block.logs)
    assert outcomes == {"equal", "unproven"}
    assert count_blocks_without_audit(indexer) == 0
    # The dispute stays, and no window is audited for ever.
    indexer.restart()
    configure_without_proof(indexer)
    assert audit_due_windows(indexer) == []
    assert list_disputes(indexer) == [dispute]


def test_different_hash_of_an_empty_block_is_disputed_until_accepted(
    fake_chain: FakeChain, indexer: Indexer
):
    with indexer.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.final_number is not None
    block = fake_chain.back(fake_chain.head.number - cursor.final_number)
    assert not block.logs
    change_block_hash(fake_chain, block, 2)
    giver, second, third = indexer.source.list_endpoint_names()
    audit_due_windows(indexer)
    (dispute,) = list_disputes(indexer)
    assert f"{giver} and {third} differ about the block hash" in dispute.message

    with indexer.store.transaction() as uow:
        accept_disputed_blocks(uow, BlockRange(0, block.number), {giver, second})
    # The blocks are audited again.
    rewind_to_block(indexer.source, indexer.store, indexer.folder, 20, RebuildOptions())
    indexer.index()
    outcomes = {audit.outcome for audit in audit_due_windows(indexer)}

    assert (outcomes, list_disputes(indexer)) == ({"equal", "accepted"}, [])


def test_hash_that_is_not_final_at_a_lagging_provider_is_not_disputed(
    fake_chain: FakeChain, indexer: Indexer
):
    with indexer.store.read_transaction() as uow:
        cursor = uow.cursor.get()
    assert cursor is not None
    assert cursor.final_number is not None
    lagging = fake_chain.providers[2]
    fork_base = fake_chain.back(fake_chain.head.number - cursor.final_number + 2)
    lagging.head = fake_chain.tree.mine_empty_blocks(4, fork_base)

    outcomes = {audit.outcome for audit in audit_due_windows(indexer)}

    assert (outcomes, list_disputes(indexer)) == ({"equal"}, [])
    assert count_blocks_without_audit(indexer) == 0


def test_only_final_blocks_of_a_fork_are_disputed(fake_chain: FakeChain, indexer: Indexer):
    forked = fake_chain.providers[2]
    fork_base = fake_chain.back(FINALITY + 12)
    fake_chain.following = [forked]
    fake_chain.live(FINALITY + 4, on=fork_base)
    auditor = Auditor(window_blocks=1_000, min_blocks=1)

    while audit_one_window(indexer, auditor) is not None:
        pass

    (dispute,) = list_disputes(indexer)
    assert fork_base.number < min(dispute.blocks)
    assert max(dispute.blocks) <= forked.head.number - FINALITY


def test_blocks_that_were_rewound_before_a_response_are_audited_later(indexer: Indexer):
    auditor = Auditor(window_blocks=1_000, min_blocks=1)
    # The second provider has responded, and the third one has been requested.
    assert audit_one_window(indexer, auditor) is not None
    assert auditor.has_pending_request
    rewind_to_block(indexer.source, indexer.store, indexer.folder, 20, RebuildOptions())

    with pytest.raises(TransientError, match="audited later"):
        audit_one_window(indexer, auditor)

    assert list_disputes(indexer) == []
    indexer.index()
    audit_due_windows(indexer)
    assert (list_disputes(indexer), count_blocks_without_audit(indexer)) == ([], 0)


def test_reorg_above_the_audited_blocks_keeps_the_response(
    fake_chain: FakeChain, indexer: Indexer
):
    auditor = Auditor(window_blocks=1_000, min_blocks=1)
    assert audit_one_window(indexer, auditor) is not None
    assert auditor.has_pending_request
    fork_base = fake_chain.back(2)
    fake_chain.live(4, on=fork_base)
    indexer.index()
    assert indexer.cursor[0] == fake_chain.head.number

    audit = audit_one_window(indexer, auditor)

    assert audit is not None
    assert audit.auditor == indexer.urls[2]


def test_third_provider_is_not_queried_again_soon_after_a_failure(
    fake_chain: FakeChain, indexer: Indexer, clock: VirtualClock
):
    third = fake_chain.providers[2]
    fault = add_fault(
        fake_chain,
        transport_faults.build_http_status_fault(503, methods=log_faults.LOG_METHODS),
        2,
    )
    auditor = Auditor(window_blocks=WINDOW, min_blocks=1)
    for _ in range(2):
        audit_one_window(indexer, auditor)
    requests_of_one_window = third.count_requests("eth_getLogs")
    assert requests_of_one_window > 0

    audit_due_windows(indexer)

    assert third.count_requests("eth_getLogs") == requests_of_one_window
    assert count_blocks_without_audit(indexer) == 0

    third.faults.remove(fault)
    clock.advance(60)
    fake_chain.mine_empty(WINDOW)
    indexer.index()
    audit_due_windows(indexer)
    assert third.count_requests("eth_getLogs") > requests_of_one_window


def test_blocks_audited_during_a_backoff_are_compared_later(
    fake_chain: FakeChain, indexer: Indexer, clock: VirtualClock
):
    block = next(block for block in get_branch(fake_chain.head) if block.logs)
    change_block_hash(fake_chain, block, 2)
    fault = add_fault(
        fake_chain,
        transport_faults.build_http_status_fault(503, methods=log_faults.LOG_METHODS),
        2,
    )
    auditor = Auditor(window_blocks=WINDOW, min_blocks=1)
    while audit_one_window(indexer, auditor) is not None:
        pass
    assert (list_disputes(indexer), count_blocks_without_audit(indexer)) == ([], 0)
    postponed_count = len(auditor.postponed_targets)
    clock.advance(600)
    # The endpoint still fails, and is requested only once for each backoff.
    assert audit_one_window(indexer, auditor) is not None
    assert audit_one_window(indexer, auditor) is None
    assert len(auditor.postponed_targets) == postponed_count

    fake_chain.providers[2].faults.remove(fault)
    clock.advance(600)
    while audit_one_window(indexer, auditor) is not None:
        pass

    (dispute,) = list_disputes(indexer)
    assert (dispute.auditor, list(dispute.blocks)) == (indexer.urls[2], [block.number])
    assert not auditor.postponed_targets
