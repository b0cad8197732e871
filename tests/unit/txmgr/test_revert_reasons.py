"""Why a mined call failed: one of a few classes, with the details in the text."""

from dataclasses import replace
from typing import cast

import pytest

from oracle.bindings.contract_errors import decode_refusal
from oracle.domain.ids import Address, Hash
from oracle.errors import TransientError
from oracle.rpc.fanout import PoolView
from oracle.store.database import Store
from oracle.store.outbox.records import IntentState
from oracle.txmgr.client.receipts import Receipt, SimulatedCall, fetch_revert_reason
from tests.unit.store.test_outbox import (
    GAS,
    NOW,
    RECEIPT as MINED,
    load_intent,
    plan_intent,
    request,
    send_intent,
    slot_of,
)

CALL = SimulatedCall(Address("0x" + "1" * 40), Address("0x" + "2" * 40), "0x")
RECEIPT = Receipt(
    Hash("0x" + 64 * "a"),
    60,
    Hash("0x" + 64 * "b"),
    succeeded=False,
    gas_used=10,
    gas_price=9,
    contract=None,
)


class ScriptedView:
    """A view whose simulations succeed, or fail with `error`."""

    def __init__(self, error: TransientError | None) -> None:
        self.error = error

    def request(self, *_: object) -> str:
        if self.error is not None:
            raise self.error
        return "0x"


def revert_reason(error: TransientError | None) -> str:
    pool_view = cast("PoolView", ScriptedView(error))
    return fetch_revert_reason(
        pool_view, RECEIPT, CALL, gas_limit=GAS, decode_refusal=decode_refusal
    )


@pytest.mark.parametrize(
    "error", [None, TransientError("a.example: HTTP 503 after 12 s"), TransientError("at 4711")]
)
def test_reverted_call_without_contract_error_is_counted_as_reverted(
    store: Store, error: TransientError | None
):
    reason = revert_reason(error)
    assert str(error or "works") in reason
    with store.transaction() as uow:
        outbox = uow.outbox
        slot, attempt = send_intent(outbox)
        receipt = replace(MINED, succeeded=False)
        outbox.slots.record_receipt(slot, attempt, receipt, NOW)
        outbox.slots.finalize(slot_of(outbox, slot.nonce), NOW, reason)
        assert load_intent(outbox, attempt.intent_id).error_text == reason
        assert outbox.intents.count_failures_by_reason([request().kind]) == {"reverted": 1}


def test_unsent_call_is_counted_by_its_error_class(store: Store):
    with store.transaction() as uow:
        outbox = uow.outbox
        for seconds in (1, 2):
            reason = f"its deadline is in {seconds} s"
            intent = plan_intent(outbox, request(f"push:{seconds}", exclusive_key=None))
            outbox.intents.end_unsent_intent(intent, IntentState.EXPIRED, reason, NOW, "deadline")
            assert load_intent(outbox, intent.id).error_text == reason
        assert outbox.intents.count_failures_by_reason([request().kind]) == {"deadline": 2}
