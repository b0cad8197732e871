"""An account that rested for want of ether goes on by itself once it has enough."""

from oracle.store.outbox.records import IntentState, PauseKind
from oracle.txmgr.budget import why_poor
from oracle.txmgr.context import StepResult, TxContext


def resume_funded(context: TxContext) -> StepResult | None:
    """End a pause for funds when the balance pays what is open and what is ready next.

    Raises:
        TransientError: no endpoint answers.
    """
    with context.store.reading() as uow:
        pause = uow.outbox.senders.paused_because(context.account)
    if pause is None or pause.kind is not PauseKind.FUNDS:
        return None
    balance = context.balance()
    with context.writing() as uow:
        ready = uow.outbox.intents.in_states(context.account, [IntentState.READY])
        cost = (ready[0].max_cost_wei or 0) if ready else 0
        if why_poor(uow, context, balance, cost) is not None:
            return None
        uow.outbox.senders.resume(context.account, context.stamp)
    return StepResult("resumed", None, f"{context.account.address} has {balance} wei")
