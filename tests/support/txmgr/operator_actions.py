"""What `outbox bump` and `outbox cancel` do with an intent, without the command line."""

from oracle.chain.heads import Heads
from oracle.store.outbox.records import IntentState
from oracle.txmgr.call_replacement import prepare_noop_replacement, replace_with_noop
from oracle.txmgr.context import AccountContext, StepResult
from oracle.txmgr.fee_bump import prepare_fee_bump, send_fee_bump
from oracle.txmgr.unconfirmed import load_requested_intent

_STATES_WITHOUT_NONCE = {IntentState.PLANNED, IntentState.READY, IntentState.HELD}


def bump_fee_now(context: AccountContext, heads: Heads, intent_id: int) -> StepResult:
    """Sign and send a fee bump at once."""
    return send_fee_bump(context, prepare_fee_bump(context, heads, intent_id), heads)


def cancel_intent(context: AccountContext, heads: Heads, intent_id: int) -> StepResult:
    """Cancel a call, with a no-op at its nonce if it has one."""
    with context.store.read_transaction() as uow:
        intent = load_requested_intent(uow, intent_id)
    if intent.nonce is not None or intent.state not in _STATES_WITHOUT_NONCE:
        return replace_with_noop(context, prepare_noop_replacement(context, intent_id), heads)
    with context.write_transaction() as uow:
        uow.outbox.intents.cancel(intent, "cancelled by an operator", context.stamp)
    return StepResult(f"{intent.request.kind} cancelled", intent.id)
