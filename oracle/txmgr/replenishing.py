"""An account that rested for want of ether goes on by itself once it has enough."""

from oracle.store.outbox.records import IntentState, PauseKind
from oracle.txmgr.budget import why_poor
from oracle.txmgr.context import StepResult, TxContext


def resume_funded(desk: TxContext) -> StepResult | None:
    """End a pause for funds when the balance pays what is open and what is ready next.

    Raises:
        TransientError: no endpoint answers.
    """
    with desk.store.reading() as unit:
        pause = unit.outbox.senders.paused_because(desk.account)
    if pause is None or pause.kind is not PauseKind.FUNDS:
        return None
    balance = desk.balance()
    with desk.writing() as unit:
        ready = unit.outbox.intents.in_states(desk.account, [IntentState.READY])
        cost = (ready[0].max_cost_wei or 0) if ready else 0
        if why_poor(unit, desk, balance, cost) is not None:
            return None
        unit.outbox.senders.resume(desk.account, desk.stamp)
    return StepResult("resumed", None, f"{desk.account.address} has {balance} wei")
