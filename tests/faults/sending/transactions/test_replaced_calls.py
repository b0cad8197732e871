"""Another call replaces a pending one: at most one lands, and the database shows which."""

from dataclasses import replace

import pytest

from oracle.errors import InputError
from oracle.reporting.report_planner import plan_push
from oracle.signing.signer import Fees
from oracle.store.outbox.records import NOOP, PUSH, AttemptReason, CallRequest, IntentState
from oracle.txmgr.broadcaster import broadcast_unsent_attempts
from oracle.txmgr.signing_queue import sign_call
from tests.support.harness import FINALITY, SETTINGS, Harness, run_next_step
from tests.support.sending.background_calls import send_background_call
from tests.support.sending.in_flight import (
    GWEI,
    get_only_intent,
    is_accepted_replacement,
    list_attempt_fees,
    list_attempts,
    list_slots,
    mine_expensive_blocks,
    send_unmined_push,
)
from tests.support.txmgr.operator_actions import cancel_intent


def test_expired_push_passes_its_nonce_to_the_next_push(harness: Harness):
    send_unmined_push(harness)
    _let_call_expire(harness)
    harness.tick()

    dead, fresh = harness.intents()
    assert (dead.state.value, fresh.state.value) == ("live", "live")
    assert (fresh.nonce, fresh.replaces) == (dead.nonce, dead.id)
    assert list_attempts(harness)[-1].reason is AttemptReason.REPLACEMENT
    assert is_accepted_replacement(list_attempt_fees(harness)[-2], list_attempt_fees(harness)[-1])

    harness.mine()
    harness.until_final()
    assert harness.states() == ["superseded", "final"]
    assert harness.testbed.round == 1
    assert len(list_slots(harness)) == 1
    assert ("missed", f"replacement of nonce {dead.nonce}") in harness.reports()
    assert ("landed", None) in harness.reports()


def test_freed_nonce_below_a_sent_call_is_assigned_to_the_next_call(sqlite_harness: Harness):
    """Until the nonce is used, no transaction with a higher nonce can be mined."""
    harness = sqlite_harness
    context = harness.context
    account, fees = context.account, Fees(10 * GWEI, GWEI)
    with context.write_transaction() as uow:
        intents = []
        for name in ("cancelled", "sent"):
            request = CallRequest(account, account.address, NOOP, name, "0x")
            intent = uow.outbox.intents.get(uow.outbox.intents.add(request, context.stamp) or 0)
            assert intent is not None
            uow.outbox.intents.mark_ready(intent, 21_000, 210_000 * GWEI, context.stamp)
            ready_intent = replace(intent, state=IntentState.READY)
            nonce = uow.outbox.accounts.allocate_nonce(account)
            uow.outbox.slots.assign_nonce(ready_intent, nonce, 1, context.stamp)
            intents.append(uow.outbox.intents.get(intent.id))
    cancelled_intent, sent_intent = intents
    assert cancelled_intent is not None
    assert sent_intent is not None
    signed_call = sign_call(context, sent_intent, sent_intent.nonce or 0, fees)
    (_, sent_slot) = list_slots(harness)
    with context.write_transaction() as uow:
        uow.outbox.slots.store_attempt(sent_slot, signed_call, AttemptReason.FIRST, context.stamp)
    broadcast_unsent_attempts(context, harness.source.fetch_heads())
    with context.write_transaction() as uow:
        uow.outbox.intents.cancel(cancelled_intent, "cancelled by an operator", context.stamp)
    harness.restart()
    harness.index()
    send_background_call(harness, "next")
    harness.mine()
    harness.tick()

    assert harness.states() == ["cancelled", "mined", "mined"]
    assert harness.intents()[2].nonce == cancelled_intent.nonce


def test_next_push_gets_a_new_nonce_if_the_expired_one_is_mined(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    send_unmined_push(harness)
    _let_call_expire(harness)
    harness.tick()
    _restore_first_transaction(harness)
    harness.mine()
    harness.tick()
    assert harness.states()[:2] == ["mined", "superseded"]

    harness.mine()
    harness.until_final()
    assert harness.states() == ["reverted", "superseded", "final"]
    assert harness.intents()[0].error_class == "Expired"
    assert harness.intents()[2].request.digest == harness.intents()[1].request.digest
    assert (harness.testbed.round, len(list_slots(harness))) == (1, 2)


def test_expired_push_keeps_its_nonce_if_it_was_mined_unnoticed(
    sqlite_harness: Harness,
):
    harness = sqlite_harness
    send_unmined_push(harness)
    _let_call_expire(harness)
    _restore_first_transaction(harness)
    harness.mine()
    harness.index()
    harness.repeat(plan_push)
    harness.repeat(run_next_step)

    assert harness.states() == ["live", "ready"]
    assert len(list_attempts(harness)) == 1
    harness.tick()
    assert harness.states() == ["mined", "live"]
    assert len(list_slots(harness)) == 2


def test_push_that_can_still_be_accepted_is_never_replaced(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    mine_expensive_blocks(harness, 5 * GWEI, 5)
    harness.period()
    harness.testbed.chain.rpc("anvil_dropAllTransactions")
    harness.tick()

    assert len(harness.intents()) == 1
    assert {attempt.reason for attempt in list_attempts(harness)} <= {
        AttemptReason.FIRST,
        AttemptReason.BUMP,
    }


def test_operator_cancels_a_call_with_a_noop_on_its_nonce(harness: Harness):
    send_unmined_push(harness)
    mine_expensive_blocks(harness, 5 * GWEI)
    step = cancel_intent(
        harness.context, harness.source.fetch_heads(), get_only_intent(harness).id
    )
    assert step.action == "sent"
    assert is_accepted_replacement(list_attempt_fees(harness)[0], list_attempt_fees(harness)[1])
    no_op = list_attempts(harness)[1]
    assert (no_op.reason, no_op.signed.gas_limit) == (AttemptReason.NOOP, 21_000)

    harness.mine()
    harness.until_final()
    assert harness.states(NOOP) == ["final"]
    assert harness.states(PUSH) == ["cancelled"]
    assert ("missed", f"noop of nonce {list_slots(harness)[0].nonce}") in harness.reports()
    assert harness.testbed.round == 0


def test_mined_call_cannot_be_cancelled(sqlite_harness: Harness):
    harness = sqlite_harness
    send_unmined_push(harness)
    mine_expensive_blocks(harness, GWEI)
    harness.tick()
    with pytest.raises(InputError, match="it is mined and has no pending transaction"):
        cancel_intent(harness.context, harness.source.fetch_heads(), get_only_intent(harness).id)


def test_call_without_a_nonce_is_cancelled_without_a_transaction(sqlite_harness: Harness):
    harness = sqlite_harness
    chain, sender = harness.testbed.chain, harness.context.account.address
    chain.rpc("anvil_setBalance", sender, "0x0")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    harness.period()
    harness.tick()
    step = cancel_intent(
        harness.context, harness.source.fetch_heads(), get_only_intent(harness).id
    )

    assert step.action == "push cancelled"
    assert get_only_intent(harness).state.value == "cancelled"


def _let_call_expire(harness: Harness) -> None:
    """Let the deadline of the sent call pass in a final block, and the next period end."""
    chain = harness.testbed.chain
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(5 * GWEI))
    chain.later(SETTINGS.ttl_seconds)
    chain.mine()
    mine_expensive_blocks(harness, 5 * GWEI, FINALITY)
    harness.index()
    length = SETTINGS.period_seconds
    chain.at(chain.time // length * length + 2 * length - 1)
    dear = hex(5 * GWEI)
    chain.rpc("anvil_setNextBlockBaseFeePerGas", dear)
    chain.mine()
    mine_expensive_blocks(harness, 5 * GWEI, 2)


def _restore_first_transaction(harness: Harness) -> None:
    """Put only the first signed transaction into the pool, with a sufficient fee."""
    first = "0x" + list_attempts(harness)[0].signed.raw.hex()
    chain = harness.testbed.chain
    chain.rpc("anvil_dropAllTransactions")
    chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
    chain.rpc("eth_sendRawTransaction", first)
