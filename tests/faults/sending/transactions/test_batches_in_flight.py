"""Many pending calls of the dispatcher: only the lowest nonce is bumped, the others wait."""

from dataclasses import replace

from oracle.store.outbox.records import Attempt, PauseKind
from oracle.txmgr.context import SendSettings
from tests.support.evm.fixtures import chain
from tests.support.sending.in_flight import GWEI, is_accepted_replacement
from tests.support.txmgr.dispatch_harness import DispatchHarness, fresh_stage, harness, testbed
from tests.support.txmgr.harness_fixtures import fresh_chain

__all__ = ["chain", "fresh_chain", "fresh_stage", "harness", "testbed"]


def test_only_the_lowest_nonce_of_a_batch_gets_a_fee_bump(harness: DispatchHarness):
    network = harness.testbed.network
    for _ in range(2):
        network.create()
    _mine_expensive_blocks(harness, GWEI)
    harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.turn()
    harness.starts = replace(harness.starts, send_settings=SendSettings(bump_seconds=0))
    assert [len(slot_attempts) for slot_attempts in _list_attempts_by_slot(harness)] == [1, 1]

    _mine_expensive_blocks(harness, 5 * GWEI, 3)
    harness.turn()
    lower, higher = _list_attempts_by_slot(harness)
    assert (len(lower), len(higher)) == (2, 1)
    old, new = (attempt.signed for attempt in lower)
    assert is_accepted_replacement((old.max_fee_wei, old.tip_wei), (new.max_fee_wei, new.tip_wei))


def test_dispatcher_paused_for_missing_funds_resumes_by_itself(harness: DispatchHarness):
    with harness.starts.write_transaction() as uow:
        uow.outbox.accounts.pause(
            harness.starts.account, PauseKind.FUNDS, "for a test", harness.starts.stamp
        )
    assert [step.action for step in harness.turn()] == ["resumed"]


def _mine_expensive_blocks(harness: DispatchHarness, base_fee: int, blocks: int = 1) -> None:
    for _ in range(blocks):
        harness.testbed.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(base_fee))
        harness.mine()


def _list_attempts_by_slot(harness: DispatchHarness) -> list[list[Attempt]]:
    with harness.store.read_transaction() as uow:
        slots = uow.outbox.slots.list_unfinished(harness.starts.account)
        return [uow.outbox.slots.list_attempts(slot) for slot in slots]
