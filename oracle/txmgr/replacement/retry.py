"""Plans a call again that failed for a reason that does not last, as its kind says."""

from oracle.chain.heads import Heads
from oracle.store.outbox.records import IntentState
from oracle.txmgr.context import StepResult, TxContext

_LOOKED_AT = 50


def retry_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Plan what a kind wants in the place of a call that reverted; None: nothing to plan.

    Whether it is still wanted, and still works, is looked at when it is made ready.
    """
    with context.store.reading() as uow:
        failed = uow.outbox.intents.newest(_LOOKED_AT, IntentState.REVERTED)
    for intent in failed:
        if intent.request.account != context.account:
            continue
        kind = context.registry.kind_of(intent)
        again = kind.retry(intent, heads)
        if again is None:
            continue
        with context.writing() as uow:
            added = uow.outbox.intents.add(again, context.stamp)
            if added is not None:
                kind.on_retried(uow, again)
        if added is not None:
            why = intent.error_class or "reverted"
            return StepResult(
                f"{again.kind} again", added, f"instead of intent {intent.id}: {why}"
            )
    return None
