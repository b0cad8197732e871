"""Defers a call that cannot be sent now, with a visible reason, or ends it."""

import re
from collections.abc import Sequence

from oracle.chain.heads import Heads
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, Intent, IntentState, PauseKind
from oracle.telemetry.txmgr_metrics import TOO_BIG
from oracle.txmgr.budget import gas_of_block
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.client.preflight import PreflightOutcome, PreflightResult
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.inclusion_time import why_too_late

# The error class of a call that succeeded without its expected event.
WITHOUT_EFFECT_CLASS = "missing_effect"
# Error classes of held calls that stop new ones for the same subject: an operator stopped the
# call, or another would only cost gas again.
_STOPS = frozenset({PauseKind.OPERATOR.value, WITHOUT_EFFECT_CLASS})
# How clients report a call that takes more gas than a block has.
_TOO_MUCH_GAS = re.compile(
    r"out ?of ?gas|gas required exceeds|exceeds block gas|gas too high", re.IGNORECASE
)


def decisions(
    uow: UnitOfWork,
    context: TxContext,
    calls: Sequence[Intent],
    heads: Heads,
    stage: CallStage,
) -> list[Decision]:
    """Return the decision about each call, with one review for each kind."""
    by_kind: dict[str, list[Intent]] = {}
    for call in calls:
        by_kind.setdefault(call.request.kind, []).append(call)
    found: dict[int, Decision] = {}
    for alike in by_kind.values():
        kind = context.registry.kind_of(alike[0])
        answers = kind.still_wanted_all(uow, alike, heads, stage)
        found.update({call.id: said for call, said in zip(alike, answers, strict=True)})
    return [found[call.id] for call in calls]


def why_late(context: TxContext, uow: UnitOfWork, intent: Intent, heads: Heads) -> Decision | None:
    """Return the decision to end a call that cannot meet its deadline, or None if it still may."""
    late = why_too_late(context, uow, intent.request.deadline, heads.latest.time)
    return None if late is None else Decision.end(IntentState.EXPIRED, late)


def refused(
    context: TxContext, intent: Intent, result: PreflightResult, heads: Heads
) -> StepResult | None:
    """Apply the decision of its kind to a call whose simulation failed.

    The result is None if the call already waits for the same reason.

    Raises:
        TransientError: no endpoint answers the kind's queries.
    """
    if result.outcome is PreflightOutcome.UNKNOWN and _TOO_MUCH_GAS.search(result.reason):
        TOO_BIG.labels(context.role).set(1)
        text = f"a block has {gas_of_block(context)} gas: {result.reason}"
        return wait(context, intent, heads, ("over_block_gas", text))
    kind = context.registry.kind_of(intent)
    return follow(context, intent, kind.on_refused(intent, result, heads))


def follow(context: TxContext, intent: Intent, decision: Decision) -> StepResult | None:
    """Apply a decision to a call; return None if it already waits for the same reason."""
    with context.writing() as uow:
        return followed(context, uow, intent, decision)


def followed(
    context: TxContext, uow: UnitOfWork, intent: Intent, decision: Decision
) -> StepResult | None:
    """Apply a decision as part of an open write transaction."""
    error_class, text = decision.why
    intents, kind = uow.outbox.intents, intent.request.kind
    if decision.instead is not None:
        intents.end(intent, IntentState.SUPERSEDED, text, context.stamp)
        added = intents.add(decision.instead, context.stamp)
        return StepResult(f"{kind} {error_class}", added, f"instead of intent {intent.id}: {text}")
    if decision.state is not None:
        intents.end(intent, decision.state, text, context.stamp)
        context.registry.kind_of(intent).on_closed(uow, intent, text)
        return StepResult(f"{kind} {decision.state}", intent.id, text)
    is_news = intents.postpone(intent, decision.until or 0, decision.why, context.stamp)
    return StepResult(f"{kind} waits", intent.id, f"{error_class}: {text}") if is_news else None


def wait(
    context: TxContext, intent: Intent, heads: Heads, why: tuple[str, str]
) -> StepResult | None:
    """Defer a call to the next block; return None if it already waits for that (class, text)."""
    return follow(context, intent, Decision.wait_a_block(heads, why))


def end(context: TxContext, intent: Intent, state: IntentState, reason: str) -> StepResult | None:
    """End a call that was never sent."""
    return follow(context, intent, Decision.end(state, reason))


def held_back(uow: UnitOfWork, account: Account) -> set[tuple[str, str]]:
    """Return the (kind, subject) pairs that are not planned until an operator releases them."""
    held = uow.outbox.intents.in_states(account, [IntentState.HELD])
    return {(one.request.kind, one.request.subject) for one in held if one.error_class in _STOPS}
