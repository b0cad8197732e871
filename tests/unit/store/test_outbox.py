"""Intents, nonces and transactions: the guarantees of the tables, on both databases."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.errors import FatalError
from oracle.store.database import Store
from oracle.store.outbox.outbox import Outbox
from oracle.store.outbox.records import (
    ACCUSE,
    PUSH,
    START_TASK,
    Account,
    Attempt,
    AttemptReason,
    CallReceipt,
    CallRequest,
    Intent,
    IntentState,
    NonceSlot,
    NonceState,
    SignedCall,
    Stamp,
)
from oracle.telemetry.outbox_counts import OutboxStatistics

ME = Account(1, Address("0x" + 40 * "1"))
CONTRACT = Address("0x" + 40 * "c")
NOW = Stamp(1000, 1)
COST = 2**200 + 1
GAS = 100_000
FEE = COST // GAS


def request(key: str = "push:1", **changes: Any) -> CallRequest:
    push = CallRequest(ME, CONTRACT, PUSH, key, "0xabcd", round=1, deadline=5000)
    return replace(push, **{"exclusive_key": PUSH, **changes})


def kick(key: str, subject: str = "ix=7") -> CallRequest:
    about = f"{ACCUSE}:{subject}"
    return request(key, kind=ACCUSE, subject=subject, exclusive_key=about)


def enroll_account(outbox: Outbox) -> None:
    if outbox.accounts.find_next_nonce(ME) is None:
        outbox.accounts.enroll_account(ME, 5, NOW)


def plan_intent(outbox: Outbox, call_request: CallRequest | None = None) -> Intent:
    enroll_account(outbox)
    number = outbox.intents.add(call_request or request(), NOW)
    assert number is not None
    return load_intent(outbox, number)


def load_intent(outbox: Outbox, number: int) -> Intent:
    intent = outbox.intents.get(number)
    assert intent is not None
    return intent


def make_ready(outbox: Outbox, call_request: CallRequest | None = None) -> Intent:
    intent = plan_intent(outbox, call_request)
    outbox.intents.mark_ready(intent, 100_000, COST, NOW)
    return load_intent(outbox, intent.id)


def assign_nonce(outbox: Outbox, call_request: CallRequest | None = None) -> NonceSlot:
    intent = make_ready(outbox, call_request)
    vacant = outbox.slots.find_vacant_slot(ME)
    nonce = outbox.accounts.allocate_nonce(ME) if vacant is None else vacant.nonce
    outbox.slots.assign_nonce(intent, nonce, 50, NOW)
    return slot_of(outbox, nonce)


def slot_of(outbox: Outbox, nonce: int) -> NonceSlot:
    return next(slot for slot in outbox.slots.list_unfinished(ME) if slot.nonce == nonce)


def add_attempt(outbox: Outbox, slot: NonceSlot, mark: str = "a") -> Attempt:
    call = SignedCall(Hash("0x" + 64 * mark), b"raw", FEE, 3, GAS)
    outbox.slots.store_attempt(slot, call, AttemptReason.FIRST, NOW)
    return outbox.slots.list_attempts(slot)[-1]


def send_intent(
    outbox: Outbox, call_request: CallRequest | None = None, mark: str = "a"
) -> tuple[NonceSlot, Attempt]:
    slot = assign_nonce(outbox, call_request)
    attempt = add_attempt(outbox, slot, mark)
    outbox.slots.record_send(slot, attempt, 50, None, NOW)
    return slot_of(outbox, slot.nonce), outbox.slots.list_attempts(slot)[-1]


RECEIPT = CallReceipt(60, Hash("0x" + 64 * "b"), succeeded=True, gas_used=70_000, gas_price_wei=9)


def test_call_request_round_trips(store: Store):
    call_request = request(
        period=9,
        as_of_block=40,
        as_of_hash=ZERO_HASH,
        digest=Hash("0x" + 64 * "d"),
        subject="ix=1",
        not_before=77,
    )
    with store.transaction() as uow:
        intent = plan_intent(uow.outbox, call_request)
        assert intent.request == call_request
        uow.outbox.intents.mark_ready(intent, 9, COST, NOW)
        assert load_intent(uow.outbox, intent.id).max_cost_wei == COST


def test_duplicate_call_request_is_not_added(store: Store):
    with store.transaction() as uow:
        first = plan_intent(uow.outbox)
        assert uow.outbox.intents.add(request(), NOW) is None
    with store.read_transaction() as uow:
        assert uow.outbox.intents.list_newest(9) == [first]


def test_second_ready_push_is_rejected(store: Store):
    with store.transaction() as uow:
        make_ready(uow.outbox)
    with pytest.raises(IntegrityError), store.transaction() as uow:
        make_ready(uow.outbox, request("push:2"))


def test_second_ready_kickout_call_for_same_node_is_rejected(store: Store):
    with store.transaction() as uow:
        make_ready(uow.outbox, kick("kick:1"))
        make_ready(uow.outbox, kick("kick:2", "ix=8"))
    with pytest.raises(IntegrityError), store.transaction() as uow:
        make_ready(uow.outbox, kick("kick:3"))


def test_second_ready_start_for_same_draw_is_rejected(store: Store):
    def start(key: str, subject: str) -> CallRequest:
        about = f"{START_TASK}:{subject}"
        return request(key, kind=START_TASK, subject=subject, exclusive_key=about)

    with store.transaction() as uow:
        make_ready(uow.outbox, start("start:1", "task=1"))
        make_ready(uow.outbox, start("start:2", "task=2"))
    with pytest.raises(IntegrityError), store.transaction() as uow:
        make_ready(uow.outbox, start("start:3", "task=1"))


def test_nonces_are_assigned_in_order_from_chain_nonce(store: Store):
    with store.transaction() as uow:
        nonces = [
            send_intent(uow.outbox, kick(f"k{n}", f"ix={n}"), mark)[0].nonce
            for n, mark in enumerate("abc")
        ]
    assert nonces == [5, 6, 7]
    with store.read_transaction() as uow:
        assert uow.outbox.accounts.find_next_nonce(ME) == 8


def test_state_change_of_a_stale_intent_is_rejected(store: Store):
    with store.transaction() as uow:
        stale = plan_intent(uow.outbox)
        uow.outbox.intents.mark_ready(stale, 1, 1, NOW)
    with pytest.raises(FatalError, match="is no longer planned"), store.transaction() as uow:
        uow.outbox.intents.mark_ready(stale, 1, 1, NOW)


def test_signed_bytes_are_stored_unchanged(store: Store):
    with store.transaction() as uow:
        slot, attempt = send_intent(uow.outbox)
    assert attempt.signed == SignedCall(Hash("0x" + 64 * "a"), b"raw", FEE, 3, GAS)
    assert (attempt.sends, attempt.last_sent_block, slot.state) == (1, 50, NonceState.LIVE)


def test_final_receipt_ends_the_intent_and_its_nonce(store: Store):
    with store.transaction() as uow:
        slot, attempt = send_intent(uow.outbox)
        uow.outbox.slots.record_receipt(slot, attempt, RECEIPT, NOW)
        mined = slot_of(uow.outbox, slot.nonce)
        uow.outbox.slots.finalize(mined, NOW)
        assert load_intent(uow.outbox, slot.intent_id).state is IntentState.FINAL
        assert uow.outbox.slots.list_unfinished(ME) == []
        stats = OutboxStatistics()
        uow.outbox.counts.add_finished_nonces(stats, ME, 0, 99)
        assert (stats.gas.total(), stats.wei.total()) == (70_000, 630_000)


def test_failed_call_ends_as_reverted_with_its_reason(store: Store):
    with store.transaction() as uow:
        slot, attempt = send_intent(uow.outbox)
        uow.outbox.slots.record_receipt(slot, attempt, replace(RECEIPT, succeeded=False), NOW)
        uow.outbox.slots.finalize(slot_of(uow.outbox, slot.nonce), NOW, "Reorged(5)")
        intent = load_intent(uow.outbox, slot.intent_id)
    assert (intent.state, intent.error_class) == (IntentState.REVERTED, "Reorged")
    assert intent.error_text == "Reorged(5)"


def test_mined_call_is_live_again_after_a_reorg(store: Store):
    with store.transaction() as uow:
        slot, attempt = send_intent(uow.outbox)
        uow.outbox.slots.record_receipt(slot, attempt, RECEIPT, NOW)
        send_intent(uow.outbox, request("push:2"), "e")
        uow.outbox.slots.mark_reorged(slot_of(uow.outbox, slot.nonce), NOW)
        again = slot_of(uow.outbox, slot.nonce)
        assert (again.state, again.block_number, again.gas_used) == (NonceState.LIVE, None, None)
        assert load_intent(uow.outbox, slot.intent_id).state is IntentState.LIVE


def test_nonce_of_an_ended_unsigned_call_is_reused(store: Store):
    with store.transaction() as uow:
        slot = assign_nonce(uow.outbox)
        uow.outbox.intents.end_unsent_intent(
            load_intent(uow.outbox, slot.intent_id), IntentState.EXPIRED, "too late", NOW
        )
        next_slot = assign_nonce(uow.outbox, request("push:2"))
        assert (next_slot.nonce, next_slot.intent_id != slot.intent_id) == (slot.nonce, True)
        assert uow.outbox.accounts.find_next_nonce(ME) == slot.nonce + 1


def test_signed_nonce_is_never_vacant(store: Store):
    with store.transaction() as uow:
        slot = assign_nonce(uow.outbox)
        add_attempt(uow.outbox, slot)
        assert uow.outbox.slots.find_vacant_slot(ME) is None


def test_call_that_lost_its_nonce_is_superseded(store: Store):
    with store.transaction() as uow:
        slot, first = send_intent(uow.outbox, kick("k1"))
        replacing_intent = make_ready(uow.outbox, kick("k2", "ix=8"))
        uow.outbox.slots.replace_call(slot, replacing_intent, 51, NOW)
        add_attempt(uow.outbox, slot_of(uow.outbox, slot.nonce), "e")
        uow.outbox.slots.record_receipt(slot_of(uow.outbox, slot.nonce), first, RECEIPT, NOW)
        superseded_intent = load_intent(uow.outbox, replacing_intent.id)
    assert (superseded_intent.state, superseded_intent.superseded_by) == (
        IntentState.SUPERSEDED,
        slot.intent_id,
    )


def test_intent_with_foreign_nonce_is_held(store: Store):
    with store.transaction() as uow:
        slot, _ = send_intent(uow.outbox)
        uow.outbox.slots.mark_nonce_foreign(slot, NOW)
        held = load_intent(uow.outbox, slot.intent_id)
    assert (held.state, held.error_class) == (IntentState.HELD, "foreign")


def test_repeated_wait_reason_is_journaled_once(store: Store):
    with store.transaction() as uow:
        intent = plan_intent(uow.outbox)
        assert uow.outbox.intents.postpone_intent(intent, 10, ("funds", "none"), NOW)
        again = load_intent(uow.outbox, intent.id)
        assert not uow.outbox.intents.postpone_intent(again, 20, ("funds", "less"), NOW)
        waiting = load_intent(uow.outbox, intent.id)
        events = [entry.event for entry in uow.outbox.journal.list_for_intent(intent.id)]
    assert (waiting.request.not_before, waiting.error_text) == (20, "less")
    assert events == ["planned", "planned"]


def test_daily_cost_includes_paid_and_reserved_amounts(store: Store):
    with store.transaction() as uow:
        slot, attempt = send_intent(uow.outbox)
        uow.outbox.slots.record_receipt(slot, attempt, RECEIPT, NOW)
        send_intent(uow.outbox, kick("k1"), "e")
        assert uow.outbox.slots.sum_committed_wei(ME, NOW.at) == 630_000 + COST
        # Pending transactions may still cost ether at any time.
        assert uow.outbox.slots.sum_committed_wei(ME, NOW.at + 1) == COST
        assert uow.outbox.slots.sum_reserved_wei(ME) == COST


def test_vacant_nonce_reserves_no_cost_until_it_is_reused(store: Store):
    with store.transaction() as uow:
        slot = assign_nonce(uow.outbox)
        uow.outbox.intents.end_unsent_intent(
            load_intent(uow.outbox, slot.intent_id), IntentState.EXPIRED, "late", NOW
        )
        assert uow.outbox.slots.sum_reserved_wei(ME) == 0
        assert uow.outbox.slots.sum_committed_wei(ME, NOW.at) == 0
        later = Stamp(NOW.at + 90_000, NOW.epoch)
        uow.outbox.slots.assign_nonce(
            make_ready(uow.outbox, request("push:2")), slot.nonce, 41, later
        )
        assert uow.outbox.slots.sum_committed_wei(ME, later.at) == COST


def test_rewind_expires_only_calls_without_a_nonce(store: Store):
    with store.transaction() as uow:
        slot, _ = send_intent(uow.outbox, request(as_of_block=90))
        expiring_intent = plan_intent(uow.outbox, request("push:2", as_of_block=90))
        surviving_intent = plan_intent(uow.outbox, request("push:3", as_of_block=80))
        assert uow.outbox.intents.expire_intents_above(80, NOW) == 1
        states = [
            load_intent(uow.outbox, n).state
            for n in (slot.intent_id, expiring_intent.id, surviving_intent.id)
        ]
    assert states == [IntentState.LIVE, IntentState.EXPIRED, IntentState.PLANNED]
