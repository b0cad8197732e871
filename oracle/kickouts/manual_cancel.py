"""Cancels kickouts for an operator: unsent calls, and kickouts that anyone may cancel."""

from oracle.bindings.contract_errors import decode_refusal
from oracle.bindings.qos_oracle import encode_cancel_kick_call
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.kicks import Kick
from oracle.kickouts.kick_calls import list_unsent_calls
from oracle.kickouts.kickout_context import CANCEL_KICK, KickoutContext
from oracle.kickouts.kickout_planner import plan_kick_call
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, Intent
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import StepResult

_CANCEL_REASON = "by operator"


def get_live_kick(uow: UnitOfWork, node: Address) -> Kick | None:
    """Return the live on-chain kickout of a node, or None."""
    return uow.rounds.load_for_nodes([node]).get_live_kick(node)


def find_unsent_calls(uow: UnitOfWork, account: Account, node: Address) -> list[Intent]:
    """Return the calls against a node that have no nonce yet."""
    unsent_intents = list_unsent_calls(uow, account)
    return [intent for intent in unsent_intents if intent.request.subject == node]


def preflight_cancellation(sender_account: SenderAccount, node: Address) -> PreflightResult:
    """Simulate the cancellation of a node's kickout by this account."""
    call = encode_cancel_kick_call(node, _CANCEL_REASON)
    sender = sender_account.sender if sender_account.has_payer else ZERO_ADDRESS
    simulated = SimulatedCall(sender, sender_account.domain.contract, call)
    return preflight(sender_account.pool_view, simulated, decode_refusal)


def cancel_kickout_manually(context: KickoutContext, node: Address) -> StepResult | None:
    """Cancel the unsent calls against a node, then plan the on-chain cancellation if allowed.

    Return None if there is nothing to cancel, or if only the vetoer may cancel.
    """
    with context.account_context.write_transaction() as uow:
        unsent_intents = find_unsent_calls(uow, context.account_context.account, node)
        for intent in unsent_intents:
            uow.outbox.intents.cancel(intent, _CANCEL_REASON, context.account_context.stamp)
        live_kick = get_live_kick(uow, node)
    result = (
        StepResult("not sent", unsent_intents[0].id, "cancelled by hand")
        if unsent_intents
        else None
    )
    if (
        live_kick is None
        or preflight_cancellation(context.account_context.sender_account, node).outcome
        is not PreflightOutcome.OK
    ):
        return result
    return plan_kick_call(
        context, live_kick, CANCEL_KICK, encode_cancel_kick_call(node, _CANCEL_REASON)
    )
