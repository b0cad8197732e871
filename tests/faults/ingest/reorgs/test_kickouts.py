"""Cases 20, 75 and 76: no node is kicked out by mistake, on a real chain."""

from dataclasses import replace

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.source import ChainSource
from oracle.chain.verification.calibration import Calibration, HeaderFeature
from oracle.chain.verification.verification_policy import MINIMAL_POLICY, VerificationPolicy
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.rebuild import RebuildOptions, rebuild_up_to
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION, clear_stored_halt
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.kickouts.kickout_context import ACCUSE, CLEAR_KICK, EXECUTE_KICK
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.reporting.report_planner import plan_push
from oracle.rpc.pool import EndpointPool
from oracle.store.halts import HaltClearRecord
from oracle.telemetry import indexer_metrics
from tests.integration.evm.test_kicking import (
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
from tests.support.office import CHAIN_ID, FINALITY, Office, next_step
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]

pytestmark = pytest.mark.evm


def count_revoked_kickouts(when: str) -> float:
    return float(indexer_metrics.KICKOUTS_REVOKED.labels(when)._value.get())


def test_kickout_is_not_signed_until_its_evidence_blocks_are_verified(sqlite_office: Office):
    office = sqlite_office
    # The blocks of the evidence are read with no more than their links verified.
    office.source.set_verification(MINIMAL_POLICY)
    fill_bad_pool(office)
    office.index()
    proven_receipts = Calibration()
    proven_receipts.assume_proven(HeaderFeature.RECEIPTS)
    office.source.set_verification(VerificationPolicy(), proven_receipts)

    push_without_kickouts(office)
    assert get_stated_due_since(office) == 0
    verifier = office.reporting.verifier
    assert verifier is not None
    office.reporting = replace(office.reporting, verifier=replace(verifier, is_dry_run=True))
    office.period()
    office.index()
    assert [step.action for step in office.repeat(plan_push)] == ["report missed"]
    assert "not yet verified" in str(office.quorum.missing.evidence_reason)

    office.reporting = replace(office.reporting, verifier=verifier)
    actions = [step.action for step in office.repeat(plan_push)]
    assert actions == [*["kickout evidence verified"] * 2, "report signed", "push planned"]
    assert office.quorum.missing.evidence_reason is None
    office.repeat(next_step)
    office.mine()
    office.index()
    assert get_stated_due_since(office) > 0


def test_kickout_is_not_signed_before_samples_show_what_the_headers_prove(sqlite_office: Office):
    office = sqlite_office
    office.source.set_verification(MINIMAL_POLICY)
    fill_bad_pool(office)
    office.index()
    push_without_kickouts(office)
    office.period()
    office.index()
    office.source.set_verification(VerificationPolicy(), Calibration())
    assert office.source.get_max_allowed_level() is VerificationLevel.PINNED

    # This tick takes the samples; the next ticks verify the blocks.
    assert [step.action for step in office.repeat(plan_push)] == ["report missed"]
    assert "not yet verified to PROVEN" in str(office.quorum.missing.evidence_reason)
    assert office.source.get_max_allowed_level() is VerificationLevel.PROVEN
    actions = [step.action for step in office.repeat(plan_push)]
    assert actions == [*["kickout evidence verified"] * 2, "report signed", "push planned"]


def test_kickout_based_on_blocks_of_endpoint_proven_wrong_is_not_signed(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    office.index()
    with office.store.transaction() as uow:
        scope = uow.coverage.get_current_scope()
        assert scope is not None
        (giver,) = {span.endpoint for span in uow.coverage.list_spans(scope.id)}
        uow.facts.quarantine.add(giver, "a lie")
    for _ in range(3):
        push_without_kickouts(office)
    assert get_stated_due_since(office) == 0
    reason = office.quorum.missing.evidence_reason
    assert "came only from an endpoint that was proven wrong" in str(reason)

    # Another endpoint returned the same for all blocks.
    with office.store.transaction() as uow:
        uow.coverage.record_audit(scope.id, BlockRange(0, 2**40), "another", 1)
    run_until_due_is_stated(office)


def test_case_20_no_kickout_is_planned_while_chain_is_stalled(sqlite_office: Office):
    office = sqlite_office
    fill_bad_pool(office)
    run_until_due_is_stated(office)
    clock = VirtualClock()
    endpoints = EndpointPool.from_urls([office.premises.chain.url], CHAIN_ID, clock)
    source = ChainSource(endpoints, office.folder.reader, FINALITY, clock=clock)
    heads = source.fetch_heads()
    assert not heads.stalled
    for _ in range(400):
        clock.advance(10.0)
        heads = source.fetch_heads()
    source.close()

    assert heads.stalled
    assert plan_kickout_call(office.kickouts, heads) is None
    assert ACCUSE not in kinds(office)

    # A call that was planned before the stall is not signed or sent during it.
    assert [step.action for step in office.repeat(plan_kickout_call)] == ["accuse planned"]
    while next_step(office.context, heads) is not None:
        pass
    assert office.states(ACCUSE) == ["planned"]
    office.mine()
    office.index()
    office.repeat(next_step)
    assert office.states(ACCUSE) == ["live"]


def test_case_75_push_removed_by_reorg_is_resent_once(sqlite_office: Office):
    office = sqlite_office
    office.period()
    office.tick()
    office.mine()
    office.tick()
    assert office.states() == ["mined"]
    nonce = office.premises.nonce

    office.premises.chain.rpc("anvil_reorg", 1, [])
    office.tick()
    assert office.states() == ["live"]
    assert office.premises.nonce == nonce - 1
    office.mine(2)
    office.tick()
    office.mine()
    office.until_final()

    assert office.states() == ["final"]
    assert office.premises.nonce == nonce
    assert office.premises.round == 1
    assert [state for state, _ in office.reports()].count("landed") == 1


def forget_the_evidence(office: Office, snapshot: str) -> None:
    """Let the chain continue from the snapshot; an operator rewinds the database below it."""
    chain = office.premises.chain
    height = chain.block
    chain.rpc("evm_revert", snapshot)
    below = chain.block
    # A history in which node 2 is not the last node.
    group(office, 77, (2, 0, 1))
    office.mine(height - chain.block + 2)
    office.index()
    with office.store.read_transaction() as uow:
        assert uow.halts.get_open_halt(FINALITY_VIOLATION) is not None
    rewind_to_block(office.source, office.store, office.folder, below, RebuildOptions())
    with office.store.transaction() as uow:
        clear_stored_halt(
            uow, FINALITY_VIOLATION, HaltClearRecord(0, "operator", "rewound below it")
        )
    office.index()


def test_case_76_queued_kickout_with_reorged_evidence_expires(
    sqlite_office: Office,
):
    office = sqlite_office
    for number in range(1, POOL):
        group(office, number, (0, 1, 2))
    office.index()
    snapshot = office.premises.chain.rpc("evm_snapshot")
    group(office, POOL, (0, 1, 2))
    run_until_due_is_stated(office)
    office.repeat(plan_kickout_call)
    (queued,) = office.intents(ACCUSE)
    before = count_revoked_kickouts("before")

    forget_the_evidence(office, snapshot)
    office.tick()

    with office.store.read_transaction() as uow:
        ended = uow.outbox.intents.get(queued.id)
    assert ended is not None
    assert (ended.state.value, ended.error_class) == ("expired", "as_of_reorged")
    assert ended.nonce is None
    assert count_revoked_kickouts("before") == before + 1
    assert standing(office) is Standing.ACTIVE


def test_case_76_accusation_with_removed_evidence_is_cleared_and_not_executed(
    sqlite_office: Office,
):
    """A repair removes a score that the accusation rests on."""
    office = sqlite_office
    accuse_node_two(office)
    pass_veto_delay(office)
    office.index()
    with office.store.read_transaction() as uow:
        (interval,) = uow.kickouts.list_open()
        last = list(uow.logs.iterate_between(interval.opened_at.block, interval.opened_at.block))
    with office.store.transaction() as uow:
        uow.logs.orphan(last)
    with office.folder.resume_from(None), office.store.transaction() as uow:
        cursor = uow.cursor.get()
        assert cursor is not None
        rebuild_up_to(uow, office.folder, cursor.number, RebuildOptions())
    office.folder.discard_cached_rows()
    # The last round still states the interval, so the accusation can only wait.
    office.tick()
    assert not {EXECUTE_KICK, CLEAR_KICK} & {*kinds(office)}
    office.pushed()
    office.until_final()

    assert office.states(CLEAR_KICK) == ["final"]
    assert EXECUTE_KICK not in kinds(office)
    assert not kick(office)["live"]
    assert standing(office) is Standing.ACTIVE
