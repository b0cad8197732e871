"""A statement whose transaction ran out of gas goes again, with a fresh estimate (case F24)."""

from dataclasses import replace

from oracle.chain.heads import Heads
from oracle.store.outbox.records import Intent, IntentKind, IntentState
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.context import StepResult, TxContext

# As `confirming` notes it.
OUT_OF_GAS = "out_of_gas"
# The other calls are planned anew by whoever wants them.
_STATEMENTS = frozenset({IntentKind.PUSH, IntentKind.PROPOSE_KICK})
_LOOKED_AT = 50
_AGAIN = ":again"
_TRIES = 3


def retry_next(context: TxContext, heads: Heads) -> StepResult | None:
    """Plan the same statement again where only the gas was too little; None: nothing to plan.

    Whether it is still wanted, and still works, is looked at when it is made ready.
    """
    with context.store.reading() as uow:
        failed = uow.outbox.intents.newest(_LOOKED_AT, IntentState.REVERTED)
    for intent in failed:
        if _may_go_again(context, intent, heads):
            wish = replace(intent.wish, dedup_key=intent.wish.dedup_key + _AGAIN, not_before=None)
            with context.writing() as uow:
                added = uow.outbox.intents.add(wish, context.stamp)
                if added is not None and wish.period is not None:
                    uow.reports.mark(wish.period, ReportState.DUE)
            if added is not None:
                return StepResult(
                    f"{wish.kind} again", added, f"intent {intent.id} ran out of gas"
                )
    return None


def _may_go_again(context: TxContext, intent: Intent, heads: Heads) -> bool:
    wish = intent.wish
    return (
        wish.account == context.account
        and wish.kind in _STATEMENTS
        and intent.error_class == OUT_OF_GAS
        and wish.dedup_key.count(_AGAIN) < _TRIES
        and (wish.deadline is None or heads.latest.time <= wish.deadline)
    )
