"""The tables record a nonce that is bumped, replaced, rebuilt or held."""

from dataclasses import replace

import pytest

from oracle.domain.ids import Address, Hash
from oracle.errors import FatalError
from oracle.store.database import Store
from oracle.store.outbox.records import (
    NOOP,
    REBUILT,
    AttemptReason,
    CallReceipt,
    IntentState,
    NonceState,
    Pause,
    PauseKind,
    SignedCall,
    Stamp,
)
from tests.unit.store.test_outbox import (
    COST,
    GAS,
    ME,
    NOW,
    RECEIPT,
    add_attempt,
    kick,
    load_intent,
    make_ready,
    plan_intent,
    request,
    send_intent,
    slot_of,
)

DEARER = SignedCall(Hash("0x" + 64 * "9"), b"raw", 2 * COST // GAS, 3, GAS)


def test_fee_bump_counts_towards_the_budget_and_records_its_send_block(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        slot, _ = send_intent(outbox)
        before = outbox.slots.sum_reserved_wei(ME)
        later = Stamp(NOW.at + 500, 1)
        outbox.slots.store_attempt(slot, DEARER, AttemptReason.BUMP, later)
        first, bump = outbox.slots.list_attempts(slot)
        outbox.slots.record_send(
            slot_of(outbox, slot.nonce), bump, 57, "underpriced: too low", later
        )
        again = slot_of(outbox, slot.nonce)
        bump = outbox.slots.list_attempts(again)[1]
        assert (before, outbox.slots.sum_reserved_wei(ME)) == (COST, GAS * (2 * COST // GAS))
        assert outbox.slots.sum_committed_wei(ME, NOW.at + 1) == outbox.slots.sum_reserved_wei(ME)
    assert (again.opened_block, again.last_bump_block) == (50, 57)
    assert (first.reason, bump.reason) == (AttemptReason.FIRST, AttemptReason.BUMP)
    assert (bump.first_sent_block, bump.last_error_class, bump.last_error_text) == (
        57,
        "underpriced",
        "too low",
    )


def test_mined_call_supersedes_the_older_call_of_its_nonce(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        slot, _ = send_intent(outbox)
        replacing_intent = make_ready(outbox, request("push:2"))
        outbox.slots.replace_call(slot, replacing_intent, 60, NOW)
        replaced_slot = slot_of(outbox, slot.nonce)
        attempt = add_attempt(outbox, replaced_slot, "e")
        outbox.slots.record_send(replaced_slot, attempt, 61, None, NOW)
        assert load_intent(outbox, replacing_intent.id).state is IntentState.LIVE
        assert load_intent(outbox, slot.intent_id).state is IntentState.LIVE
        outbox.slots.record_receipt(slot_of(outbox, slot.nonce), attempt, RECEIPT, NOW)
        old = load_intent(outbox, slot.intent_id)
        new = load_intent(outbox, replacing_intent.id)
        assert (old.state, old.superseded_by) == (IntentState.SUPERSEDED, new.id)
        assert (new.state, new.replaces, new.nonce) == (IntentState.MINED, old.id, slot.nonce)
        assert slot_of(outbox, slot.nonce).mined_at == NOW.at


def test_reorg_can_mine_another_call_with_the_same_nonce(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        slot, first = send_intent(outbox)
        replacing_intent = make_ready(outbox, request("push:2"))
        outbox.slots.replace_call(slot, replacing_intent, 60, NOW)
        second = add_attempt(outbox, slot_of(outbox, slot.nonce), "e")
        outbox.slots.record_receipt(slot_of(outbox, slot.nonce), second, RECEIPT, NOW)
        outbox.slots.mark_reorged(slot_of(outbox, slot.nonce), NOW)
        outbox.slots.record_receipt(slot_of(outbox, slot.nonce), first, RECEIPT, NOW)
        assert load_intent(outbox, slot.intent_id).state is IntentState.MINED
        assert load_intent(outbox, replacing_intent.id).state is IntentState.SUPERSEDED
        # Reverted again: the final winner has no rival.
        outbox.slots.mark_reorged(slot_of(outbox, slot.nonce), NOW)
        outbox.slots.record_receipt(slot_of(outbox, slot.nonce), second, RECEIPT, NOW)
        mined_intent = load_intent(outbox, replacing_intent.id)
        superseded_intent = load_intent(outbox, slot.intent_id)
    assert (mined_intent.state, mined_intent.superseded_by) == (IntentState.MINED, None)
    assert (superseded_intent.state, superseded_intent.superseded_by) == (
        IntentState.SUPERSEDED,
        replacing_intent.id,
    )


def test_kickout_replaced_by_noop_is_mined_after_reorg(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        slot, first = send_intent(outbox, kick("kick:1"))
        noop = make_ready(outbox, request("noop:5", kind=NOOP))
        outbox.slots.replace_call(slot, noop, 60, NOW)
        second = add_attempt(outbox, slot_of(outbox, slot.nonce), "e")
        outbox.slots.record_receipt(slot_of(outbox, slot.nonce), second, RECEIPT, NOW)
        send_intent(outbox, kick("kick:2"), "c")
        outbox.slots.mark_reorged(slot_of(outbox, slot.nonce), NOW)
        outbox.slots.record_receipt(slot_of(outbox, slot.nonce), first, RECEIPT, NOW)
        assert load_intent(outbox, first.intent_id).state is IntentState.MINED


def test_mined_nonce_accepts_no_other_call(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        slot, attempt = send_intent(outbox)
        outbox.slots.record_receipt(slot, attempt, RECEIPT, NOW)
        replacing_intent = make_ready(outbox, request("push:2"))
        with pytest.raises(FatalError, match="expected an open or live nonce"):
            outbox.slots.replace_call(slot_of(outbox, slot.nonce), replacing_intent, 60, NOW)


def test_new_account_is_not_blocked_by_calls_of_lost_account(store: Store):
    new_account = ME._replace(address=Address("0x" + 40 * "2"))
    with store.transaction() as uow:
        make_ready(uow.outbox)
        make_ready(uow.outbox, kick("k1"))
        uow.outbox.accounts.enroll_account(new_account, 0, NOW)
        make_ready(uow.outbox, request("push:2", account=new_account))
        make_ready(uow.outbox, replace(kick("k2"), account=new_account))


def test_released_intent_is_planned_again_and_live_intent_cannot_be_held(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        intent = plan_intent(outbox)
        outbox.intents.hold(intent, PauseKind.OPERATOR, "wait", NOW._replace(actor="somebody"))
        held = load_intent(outbox, intent.id)
        assert (held.state, held.error_class, held.error_text) == (
            IntentState.HELD,
            "operator",
            "wait",
        )
        outbox.intents.release(held, NOW)
        again = load_intent(outbox, intent.id)
        assert (again.state, again.error_class) == (IntentState.PLANNED, None)
        actors = [entry.actor for entry in outbox.journal.list_for_intent(intent.id)]
        assert actors == [None, "somebody", None]
        outbox.intents.cancel(again, "no", NOW)
        assert load_intent(outbox, intent.id).state is IntentState.CANCELLED
        slot, _ = send_intent(outbox, kick("k1"))
        with pytest.raises(FatalError, match="may still land"):
            outbox.intents.hold(
                load_intent(outbox, slot.intent_id), PauseKind.OPERATOR, "wait", NOW
            )


def test_sender_pause_has_kind_and_reason(store: Store):
    with store.transaction() as uow:
        senders = uow.outbox.accounts
        senders.enroll_account(ME, 0, NOW)
        senders.pause(ME, PauseKind.FUNDS, "no ether", NOW)
        assert senders.find_pause(ME) == Pause(PauseKind.FUNDS, "no ether")
        assert senders.get_pause_by_account() == {ME: (PauseKind.FUNDS, "no ether")}
        senders.resume(ME, NOW)
        assert senders.find_pause(ME) is None


def test_next_nonce_is_raised_but_never_lowered(store: Store):
    with store.transaction() as uow:
        senders = uow.outbox.accounts
        senders.raise_next_nonce(ME, 7, NOW)
        senders.raise_next_nonce(ME, 3, NOW)
        assert senders.find_next_nonce(ME) == 7
        senders.raise_next_nonce(ME, 9, NOW)
        assert senders.find_next_nonce(ME) == 9


def test_rebuilt_nonce_is_stored_as_final_with_its_cost(store: Store):
    mined = CallReceipt(
        30, Hash("0x" + 64 * "b"), succeeded=True, gas_used=10, gas_price_wei=3, time=77
    )
    with store.transaction() as uow:
        outbox = uow.outbox
        outbox.accounts.raise_next_nonce(ME, 7, NOW)
        outbox.slots.record_rebuilt_nonce(ME, 4, Hash("0x" + 64 * "a"), mined, NOW)
        outbox.slots.record_rebuilt_nonce(ME, 6, None, None, NOW)
        assert outbox.slots.list_missing_nonces(ME, 7) == [5]
        rebuilt_slot = outbox.slots.find_slot(ME, 4)
        assert rebuilt_slot is not None
        assert (rebuilt_slot.state, rebuilt_slot.block_number, rebuilt_slot.opened_at) == (
            NonceState.FINAL,
            30,
            77,
        )
        assert outbox.slots.sum_committed_wei(ME, 77) == 30
        assert (rebuilt_slot.gas_used, rebuilt_slot.gas_price_wei) == (10, 3)
        kinds = {intent.request.kind for intent in outbox.intents.list_newest(9)}
        assert kinds == {REBUILT}


def test_reopened_nonce_is_final_after_second_rebuild(store: Store):
    tx_hash = Hash("0x" + 64 * "a")
    with store.transaction() as uow:
        outbox = uow.outbox
        outbox.accounts.enroll_account(ME, 6, NOW)
        outbox.slots.record_rebuilt_nonce(ME, 6, None, None, NOW)
        (rebuilt,) = outbox.intents.list_newest(9)
        outbox.gaps.reopen_nonce(ME, 6, NOW)
        noop = request("noop:6", kind=NOOP, exclusive_key=None)
        slot, _ = send_intent(outbox, noop)
        assert slot.nonce == 6

        outbox.slots.record_rebuilt_nonce(ME, 6, tx_hash, RECEIPT, NOW)
        final_slot = outbox.slots.find_slot(ME, 6)
        assert final_slot is not None
        assert (final_slot.state, final_slot.intent_id) == (NonceState.FINAL, rebuilt.id)
        assert final_slot.block_number == RECEIPT.block_number
        states = {intent.request.kind: intent.state for intent in outbox.intents.list_newest(9)}
        assert states == {REBUILT: IntentState.FINAL, NOOP: IntentState.SUPERSEDED}
