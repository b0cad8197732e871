"""Cases 20, 75 and 76: no node is kicked out by mistake, on a real chain."""

from dataclasses import replace

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.source import ChainSource
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.verification_policy import VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.rebuild import RebuildOptions, rebuild_state_up_to
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION, clear_stored_halt
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.report_planner import plan_push
from oracle.rpc.pool import EndpointPool
from oracle.store.halts import HaltClearRecord
from oracle.store.outbox.records import ACCUSE, CLEAR_KICK, EXECUTE_KICK
from oracle.telemetry import indexer_metrics
from tests.integration.evm.test_kickout_on_chain import (
    POOL,
    accuse_node_two,
    fill_bad_pool,
    get_stated_due_since,
    group,
    kick,
    kinds,
    pass_veto_delay,
    push_without_kickouts,
    run_until_due_is_stated,
    standing,
)
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Standing
from tests.support.harness import CHAIN_ID, FINALITY, Harness, run_next_step
from tests.support.ingest.indexer import MINIMAL_POLICY
from tests.support.txmgr.harness_fixtures import (
    fresh_chain,
    fresh_testbed,
    sqlite_harness,
    testbed,
)

__all__ = ["chain", "fresh_chain", "fresh_testbed", "sqlite_harness", "testbed"]

pytestmark = pytest.mark.evm


def count_revoked_kickouts(when: str) -> float:
    return float(indexer_metrics.KICKOUTS_REVOKED.labels(when)._value.get())


def test_kickout_is_not_signed_until_its_blocks_are_verified(sqlite_harness: Harness):
    harness = sqlite_harness
    # The blocks of the evidence are read with no more than their links verified.
    harness.source.configure_verification(MINIMAL_POLICY)
    fill_bad_pool(harness)
    harness.index()
    proven_receipts = Calibration()
    proven_receipts.assume_feature_proven(HeaderFeature.RECEIPTS)
    harness.source.configure_verification(VerificationPolicy(), proven_receipts)

    push_without_kickouts(harness)
    assert get_stated_due_since(harness) == 0
    verifier = harness.reporting.verifier
    assert verifier is not None
    harness.reporting = replace(harness.reporting, verifier=replace(verifier, is_dry_run=True))
    harness.period()
    harness.index()
    assert [step.action for step in harness.repeat(plan_push)] == ["report missed"]
    assert "not yet verified" in str(harness.quorum.missing.evidence_reason)

    harness.reporting = replace(harness.reporting, verifier=verifier)
    actions = [step.action for step in harness.repeat(plan_push)]
    assert actions == [*["kickout evidence verified"] * 2, "report signed", "push planned"]
    assert harness.quorum.missing.evidence_reason is None
    harness.repeat(run_next_step)
    harness.mine()
    harness.index()
    assert get_stated_due_since(harness) > 0


def test_kickout_is_not_signed_before_header_calibration(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.source.configure_verification(MINIMAL_POLICY)
    fill_bad_pool(harness)
    harness.index()
    push_without_kickouts(harness)
    harness.period()
    harness.index()
    harness.source.configure_verification(VerificationPolicy(), Calibration())
    assert harness.source.get_max_allowed_level() is VerificationLevel.PINNED

    # This tick takes the samples; the next ticks verify the blocks.
    assert [step.action for step in harness.repeat(plan_push)] == ["report missed"]
    assert "not yet verified to PROVEN" in str(harness.quorum.missing.evidence_reason)
    assert harness.source.get_max_allowed_level() is VerificationLevel.PROVEN
    actions = [step.action for step in harness.repeat(plan_push)]
    assert actions == [*["kickout evidence verified"] * 2, "report signed", "push planned"]


def test_kickout_based_on_a_discredited_endpoint_is_not_signed(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    harness.index()
    with harness.store.transaction() as uow:
        scope = uow.coverage.get_current_scope()
        assert scope is not None
        (giver,) = {span.endpoint for span in uow.coverage.list_intervals(scope.id)}
        uow.facts.quarantine.add(giver, "a lie")
    for _ in range(3):
        push_without_kickouts(harness)
    assert get_stated_due_since(harness) == 0
    reason = harness.quorum.missing.evidence_reason
    assert "came only from an endpoint that was proven wrong" in str(reason)

    # Another endpoint returned the same for all blocks.
    with harness.store.transaction() as uow:
        uow.coverage.record_audit(scope.id, BlockRange(0, 2**40), "another", 1)
    run_until_due_is_stated(harness)


def test_case_20_no_kickout_is_planned_while_chain_is_stalled(sqlite_harness: Harness):
    harness = sqlite_harness
    fill_bad_pool(harness)
    run_until_due_is_stated(harness)
    clock = VirtualClock()
    endpoints = EndpointPool.from_urls([harness.testbed.chain.url], CHAIN_ID, clock)
    source = ChainSource(endpoints, harness.folder.reader, FINALITY, clock=clock)
    heads = source.fetch_heads()
    assert not heads.stalled
    for _ in range(400):
        clock.advance(10.0)
        heads = source.fetch_heads()
    source.close()

    assert heads.stalled
    assert plan_kickout_call(harness.kickouts, heads) is None
    assert ACCUSE not in kinds(harness)

    # A call that was planned before the stall is not signed or sent during it.
    assert [step.action for step in harness.repeat(plan_kickout_call)] == ["accuse planned"]
    while run_next_step(harness.context, heads) is not None:
        pass
    assert harness.states(ACCUSE) == ["planned"]
    harness.mine()
    harness.index()
    harness.repeat(run_next_step)
    assert harness.states(ACCUSE) == ["live"]


def test_case_75_push_removed_by_a_reorg_is_resent_once(sqlite_harness: Harness):
    harness = sqlite_harness
    harness.period()
    harness.tick()
    harness.mine()
    harness.tick()
    assert harness.states() == ["mined"]
    nonce = harness.testbed.nonce

    harness.testbed.chain.rpc("anvil_reorg", 1, [])
    harness.tick()
    assert harness.states() == ["live"]
    assert harness.testbed.nonce == nonce - 1
    harness.mine(2)
    harness.tick()
    harness.mine()
    harness.until_final()

    assert harness.states() == ["final"]
    assert harness.testbed.nonce == nonce
    assert harness.testbed.round == 1
    assert [state for state, _ in harness.reports()].count("landed") == 1


def revert_chain_and_rewind_index(harness: Harness, snapshot: str) -> None:
    """Let the chain continue from the snapshot; an operator rewinds the database below it."""
    chain = harness.testbed.chain
    height = chain.block
    chain.rpc("evm_revert", snapshot)
    below = chain.block
    # A history in which node 2 is not the last node.
    group(harness, 77, (2, 0, 1))
    harness.mine(height - chain.block + 2)
    harness.index()
    with harness.store.read_transaction() as uow:
        assert uow.halts.find_open_halt(FINALITY_VIOLATION) is not None
    rewind_to_block(harness.source, harness.store, harness.folder, below, RebuildOptions())
    with harness.store.transaction() as uow:
        clear_stored_halt(
            uow, FINALITY_VIOLATION, HaltClearRecord(0, "operator", "rewound below it")
        )
    harness.index()


def test_case_76_queued_kickout_with_reorged_evidence_expires(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    for number in range(1, POOL):
        group(harness, number, (0, 1, 2))
    harness.index()
    snapshot = harness.testbed.chain.rpc("evm_snapshot")
    group(harness, POOL, (0, 1, 2))
    run_until_due_is_stated(harness)
    harness.repeat(plan_kickout_call)
    (queued,) = harness.intents(ACCUSE)
    before = count_revoked_kickouts("before")

    revert_chain_and_rewind_index(harness, snapshot)
    harness.tick()

    with harness.store.read_transaction() as uow:
        ended = uow.outbox.intents.get(queued.id)
    assert ended is not None
    assert (ended.state.value, ended.error_class) == ("expired", "as_of_reorged")
    assert ended.nonce is None
    assert count_revoked_kickouts("before") == before + 1
    assert standing(harness) is Standing.ACTIVE


def test_case_76_accusation_with_repaired_evidence_is_cleared(
    sqlite_harness: Harness,
):
    """A repair removes a score that the accusation rests on."""
    harness = sqlite_harness
    accuse_node_two(harness)
    pass_veto_delay(harness)
    harness.index()
    with harness.store.read_transaction() as uow:
        (interval,) = uow.kickouts.list_open()
        last = list(uow.logs.iterate_between(interval.opened_at.block, interval.opened_at.block))
    with harness.store.transaction() as uow:
        uow.logs.orphan(last)
    with harness.folder.keep_cached_rows_if_current(None), harness.store.transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        rebuild_state_up_to(uow, harness.folder, cursor.number, RebuildOptions())
    harness.folder.discard_cached_rows()
    # The last round still states the interval, so the accusation can only wait.
    harness.tick()
    assert not {EXECUTE_KICK, CLEAR_KICK} & {*kinds(harness)}
    harness.pushed()
    harness.until_final()

    assert harness.states(CLEAR_KICK) == ["final"]
    assert EXECUTE_KICK not in kinds(harness)
    assert not kick(harness)["live"]
    assert standing(harness) is Standing.ACTIVE
