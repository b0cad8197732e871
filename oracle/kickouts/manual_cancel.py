"""Cancels kickouts by hand: unsent calls, and what the contract lets anybody cancel."""

from oracle.bindings.contract_errors import refusal_of
from oracle.bindings.qos_oracle import cancel_call
from oracle.domain.ids import ZERO_ADDRESS, Address
from oracle.domain.reports.kicks import Kick
from oracle.kickouts.kickout_context import AGAINST, CANCEL_KICK, KickoutContext
from oracle.kickouts.kickout_planner import plan_call
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, Intent, IntentState
from oracle.txmgr.accounts_and_limits import SenderAccount
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult, preflight
from oracle.txmgr.client.receipts import SimulatedCall
from oracle.txmgr.context import StepResult

_NOT_SENT = (IntentState.PLANNED, IntentState.READY)
_WHY = "by operator"


def kick_of(uow: UnitOfWork, node: Address) -> Kick | None:
    """Return the live on-chain kickout of a node, or None."""
    return uow.rounds.about([node]).live_kick_of(node)


def unsent(uow: UnitOfWork, account: Account, node: Address) -> list[Intent]:
    """Return the calls against a node that have no nonce yet."""
    waiting = uow.outbox.intents.in_states(account, _NOT_SENT)
    return [one for one in waiting if one.request.kind in AGAINST and one.request.subject == node]


def verdict_on(publisher: SenderAccount, node: Address) -> PreflightResult:
    """Simulate our cancellation of a node's kickout."""
    call = cancel_call(node, _WHY)
    sender = publisher.sender if publisher.has_payer else ZERO_ADDRESS
    simulated = SimulatedCall(sender, publisher.domain.contract, call)
    return preflight(publisher.lines, simulated, refusal_of)


def cancel_by_hand(context: KickoutContext, node: Address) -> StepResult | None:
    """Cancel what was not sent about a node; then plan its cancellation on chain, if it may be.

    None: there is nothing to cancel, or only the vetoer may.
    """
    with context.tx.writing() as uow:
        waiting = unsent(uow, context.tx.account, node)
        for intent in waiting:
            uow.outbox.intents.cancel(intent, _WHY, context.tx.stamp)
        live = kick_of(uow, node)
    done = StepResult("not sent", waiting[0].id, "called off by hand") if waiting else None
    if live is None or verdict_on(context.tx.publisher, node).outcome is not PreflightOutcome.OK:
        return done
    return plan_call(context, live, CANCEL_KICK, cancel_call(node, _WHY))
