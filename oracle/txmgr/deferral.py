"""What becomes of a call that cannot go now: it waits with a visible reason, or it ends."""

from oracle.bindings.contract_errors import OF_REST, Action
from oracle.chain.heads import Heads
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, Intent, IntentKind, IntentState, PauseKind
from oracle.store.reports.report_repository import ReportState
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import StepResult, TxContext

_ENDS = {
    Action.RENEW: IntentState.EXPIRED,
    Action.DROP: IntentState.SUPERSEDED,
    Action.HOLD: IntentState.HELD,
}

_AGAINST = frozenset({IntentKind.PROPOSE_KICK, IntentKind.EXECUTE_KICK})
# The class of a call that succeeded and did not do what it was sent for.
WITHOUT_EFFECT_CLASS = "without_effect"
# Nothing is planned beside what a person stopped, nor beside what would only cost gas once more.
_STOPS = frozenset({PauseKind.OPERATOR.value, WITHOUT_EFFECT_CLASS})


def not_now(
    context: TxContext, intent: Intent, verdict: PreflightResult, heads: Heads
) -> StepResult | None:
    """Follow the table of refusals: wait, or end."""
    refusal = verdict.refusal
    if refusal is None:
        return wait(context, intent, heads, ("unknown", verdict.reason))
    # Whoever cancels a kickout may do so when its node has recovered.
    is_early = refusal.name == "NotAllowed" and intent.wish.kind is IntentKind.CANCEL_KICK
    if refusal.action is Action.WAIT or is_early:
        # Nobody is in a hurry to kick out: without a time from the contract, once a period
        # (tests/sending/cases.toml#f58).
        now, period = heads.latest.time, context.settings.period_seconds
        until = refusal.not_before or now + (period if intent.wish.kind in _AGAINST else 1)
        if refusal.name in OF_REST:
            # A pause of days may be over in a minute, and what it kept back has a deadline.
            until = min(until, now + period)
        return wait_until(context, intent, until, (refusal.name, verdict.reason))
    return end(context, intent, _ENDS[refusal.action], verdict.reason)


def wait(
    context: TxContext, intent: Intent, heads: Heads, why: tuple[str, str]
) -> StepResult | None:
    """Look again at the next block; None: it waits already, for the same (class, text)."""
    return wait_until(context, intent, heads.latest.time + 1, why)


def wait_until(
    context: TxContext, intent: Intent, until: int, why: tuple[str, str]
) -> StepResult | None:
    """Look again from a chain time on; None: it waits already, for the same (class, text)."""
    with context.writing() as uow:
        is_news = uow.outbox.intents.postpone(intent, until, why, context.stamp)
    kind, text = why
    return (
        StepResult(f"{intent.wish.kind} waits", intent.id, f"{kind}: {text}") if is_news else None
    )


def end(context: TxContext, intent: Intent, state: IntentState, reason: str) -> StepResult:
    """End a call that was never sent, and say what that means for its report."""
    with context.writing() as uow:
        uow.outbox.intents.end(intent, state, reason, context.stamp)
        close_report(uow, intent, reason)
    return StepResult(f"{intent.wish.kind} {state}", intent.id, reason)


def close_report(uow: UnitOfWork, intent: Intent, reason: str | None) -> None:
    """Mark the report of a push that has ended; `reason` None: it landed.

    Another transmitter may have brought the same report: what the chain accepted counts, once
    that is final (`quorum.landing`). Until then a fork may take it back, and it is due again.
    """
    period, wanted = intent.wish.period, intent.wish.round
    if period is None or wanted is None:
        return
    stored = uow.reports.at(period)
    if stored is None or stored.state is not ReportState.DUE:
        return
    if stored.digest != intent.wish.digest:
        # Cut again since, on the chain that stayed: this push spoke of another block.
        return
    accepted = uow.rounds.accepted_round(wanted)
    if reason is None:
        uow.reports.mark(period, ReportState.LANDED)
    elif accepted is None or accepted.digest != intent.wish.digest:
        uow.reports.mark(period, ReportState.MISSED, reason)


def held_back(uow: UnitOfWork, account: Account) -> set[tuple[IntentKind, str]]:
    """Return what, as (kind, subject), is not planned anew before a person says so."""
    held = uow.outbox.intents.in_states(account, [IntentState.HELD])
    return {(one.wish.kind, one.wish.subject) for one in held if one.error_class in _STOPS}
