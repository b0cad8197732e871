"""Cases 20, 75 and 76: nobody is kicked out by mistake, on a real chain."""

from dataclasses import replace
from typing import Any

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.chain.source import ChainSource
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.indexer.rebuild import RebuildOptions, rebuild_up_to
from oracle.indexer.reorgs.finality_halt import FINALITY_VIOLATION, clear_stored_halt
from oracle.indexer.reorgs.reorg import rewind_to_block
from oracle.kickouts.kickout_context import CANCEL_KICK, PROPOSE_KICK
from oracle.kickouts.kickout_eligibility import load_evidence_verification
from oracle.kickouts.kickout_planner import plan_kickout_call
from oracle.rpc.pool import EndpointPool
from oracle.store.halts import HaltClearRecord
from oracle.telemetry import indexer_metrics
from tests.integration.evm.test_kicking import (
    POOL,
    bad_pool,
    group,
    kick,
    kinds,
    proposed,
    shown_low,
    standing,
)
from tests.support.evm.fixtures import chain
from tests.support.evm.network import Standing
from tests.support.office import CHAIN_ID, FINALITY, RULES, Office, next_step
from tests.support.txmgr.office_fixtures import (
    fresh_chain,
    fresh_premises,
    premises,
    sqlite_office,
)

__all__ = ["chain", "fresh_chain", "fresh_premises", "premises", "sqlite_office"]

pytestmark = pytest.mark.evm


def withdrawn(when: str) -> float:
    return float(indexer_metrics.KICKOUTS_REVOKED.labels(when)._value.get())


def due(office: Office) -> None:
    """Make node 2 due on final evidence, and report its score; no call is planned yet."""
    bad_pool(office)
    shown_low(office)


class Forbidden:
    """A prover that must not be called, because every endpoint is silent."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def get_level(self) -> VerificationLevel:
        return VerificationLevel(self._real.get_level())

    def verify_next_blocks(self, _proof: object) -> int:
        return 0


def test_kickout_waits_until_its_evidence_blocks_are_verified(sqlite_office: Office):
    office = sqlite_office
    due(office)
    with office.store.transaction() as uow:
        scope = uow.coverage.get_current_scope()
        assert scope is not None
        # As an older program would have left it.
        for span in uow.coverage.list_spans(scope.id):
            uow.coverage.store_span(scope.id, replace(span, level=VerificationLevel.NOTHING))
            uow.verified_blocks.delete_above(-1)
    verifier = office.kickouts.verifier
    assert verifier is not None
    forbidden = Forbidden(verifier)
    office.kickouts = replace(office.kickouts, verifier=forbidden)  # type: ignore[arg-type]
    assert office.repeat(plan_kickout_call) == []
    assert "propose_kick" not in kinds(office)

    office.kickouts = replace(office.kickouts, verifier=verifier)
    actions = [step.action for step in office.repeat(plan_kickout_call)]

    assert actions[-1] == "kickout proposal planned"
    assert set(actions[:-1]) == {"kickout evidence verified", "kickout signed"}
    with office.store.read_transaction() as uow:
        (interval,) = uow.kickouts.list_open()
        proof = load_evidence_verification(uow, RULES, interval, verifier.get_level())
    assert (proof.unproven, proof.reason) == ((), None)


def test_kickout_based_on_blocks_of_endpoint_proven_wrong_is_not_planned(sqlite_office: Office):
    office = sqlite_office
    due(office)
    with office.store.transaction() as uow:
        scope = uow.coverage.get_current_scope()
        assert scope is not None
        (giver,) = {span.endpoint for span in uow.coverage.list_spans(scope.id)}
        uow.facts.quarantine.add(giver, "a lie")
    assert office.repeat(plan_kickout_call) == []
    with office.store.transaction() as uow:
        (interval,) = uow.kickouts.list_open()
        reason = load_evidence_verification(uow, RULES, interval, VerificationLevel.PROVEN).reason
        assert "came only from an endpoint that was proven wrong" in str(reason)
        # Another one said the same of all of them.
        uow.coverage.record_audit(scope.id, BlockRange(0, 2**40), "another", 1)

    actions = [step.action for step in office.repeat(plan_kickout_call)]

    assert actions[-1] == "kickout proposal planned"


def test_case_20_no_kickout_is_planned_while_chain_is_stalled(sqlite_office: Office):
    office = sqlite_office
    due(office)
    clock = VirtualClock()
    endpoints = EndpointPool.from_urls([office.premises.chain.url], CHAIN_ID, clock)
    source = ChainSource(endpoints, office.folder.reader, FINALITY, clock=clock)  # type: ignore[arg-type]
    heads = source.fetch_heads()
    assert not heads.stalled
    for _ in range(400):
        clock.advance(10.0)
        heads = source.fetch_heads()
    source.close()

    assert heads.stalled
    assert plan_kickout_call(office.kickouts, heads) is None
    assert kinds(office).count("propose_kick") == 0

    # What was planned before it stood still is not signed or sent meanwhile.
    planned = office.repeat(plan_kickout_call)
    assert [step.action for step in planned] == ["kickout signed", "kickout proposal planned"]
    while next_step(office.context, heads) is not None:
        pass
    assert office.intents(PROPOSE_KICK)[0].state.value == "planned"
    office.mine()
    office.index()
    office.repeat(next_step)
    assert office.intents(PROPOSE_KICK)[0].state.value == "live"


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
    # In which node 2 is not the last one.
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
    shown_low(office)
    office.repeat(plan_kickout_call)
    (queued,) = office.intents(PROPOSE_KICK)
    before = withdrawn("before")

    forget_the_evidence(office, snapshot)
    office.tick()

    with office.store.read_transaction() as uow:
        ended = uow.outbox.intents.get(queued.id)
    assert ended is not None
    assert (ended.state.value, ended.error_class) == ("expired", "as_of_reorged")
    assert ended.nonce is None
    assert withdrawn("before") == before + 1
    assert standing(office) is Standing.ACTIVE


def test_case_76_onchain_kickout_with_removed_evidence_is_cancelled(
    sqlite_office: Office,
):
    """A repair removed a score that the proposal rests on, so the proposal is cancelled."""
    office = sqlite_office
    proposed(office)
    before = withdrawn("after")
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
    office.tick()

    # The contract lets nobody but its vetoer cancel while the lane is low: ours waits for that.
    assert withdrawn("after") == before + 1
    (cancel,) = office.intents(CANCEL_KICK)
    assert (cancel.state.value, cancel.error_class) == ("planned", "NotAllowed")
    group(office, 99, (2, 0, 1))
    office.pushed()
    office.until_final()

    assert office.intents(CANCEL_KICK)[0].state.value == "final"
    assert "execute_kick" not in kinds(office)
    assert not kick(office)["live"]
    assert withdrawn("after") == before + 1
    assert standing(office) is Standing.ACTIVE
