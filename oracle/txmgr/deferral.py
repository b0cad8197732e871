"""Defers a call that cannot be sent now, with a visible reason, or ends it.

A call that would land after its deadline is ended and not signed, because it reverts and costs its
gas. How long landing takes is estimated from the last landed transactions.
"""

from collections.abc import Sequence
from itertools import pairwise

from oracle.chain.heads import Heads
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Account, Intent, IntentState, PauseKind
from oracle.telemetry.txmgr_metrics import TOO_BIG
from oracle.txmgr.budget import fetch_block_gas_limit
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import AccountContext, StepResult

# How many of the last mined transactions and of the newest blocks are measured.
_LANDED_SAMPLE, _BLOCK_SAMPLE = 20, 64
# No transaction is expected in the very next block.
_MIN_BLOCKS = 2


def find_deadline_obstacle(
    context: AccountContext, uow: UnitOfWork, deadline: int | None, now: int
) -> str | None:
    """Return why a call can no longer land by its deadline (chain time), or None if it may."""
    if deadline is None:
        return None
    if now > deadline:
        return "its deadline passed"
    margin_s = compute_deadline_margin_seconds(context, uow)
    if now + margin_s <= deadline:
        return None
    return f"its deadline is in {deadline - now} s, but landing may take {margin_s} s"


def compute_deadline_margin_seconds(context: AccountContext, uow: UnitOfWork) -> int:
    """Return for how many seconds of chain time before its deadline a call is no longer signed.

    The margin is the time of as many blocks as a slow transaction takes from its first broadcast
    to inclusion, but at least two: the 95th percentile of the last landed transactions is used.
    The margin is at most `max_margin_seconds`. Otherwise, after a week of high fees, every call
    with a deadline would end, and nothing would be measured.
    """
    inclusion_blocks = sorted(
        uow.outbox.slots.list_inclusion_delays(context.account, _LANDED_SAMPLE)
    )
    slow_blocks = (
        inclusion_blocks[(len(inclusion_blocks) - 1) * 19 // 20] if inclusion_blocks else 0
    )
    seconds = _estimate_seconds_for_blocks(uow, max(_MIN_BLOCKS, slow_blocks))
    return min(seconds, context.send_settings.max_margin_seconds)


def _estimate_seconds_for_blocks(uow: UnitOfWork, blocks: int) -> int:
    """Return how many seconds `blocks` blocks take, at the 75th percentile of recent times."""
    newest = uow.blocks.find_newest()
    recent_blocks = (
        []
        if newest is None
        else uow.blocks.list_canonical(newest.number - _BLOCK_SAMPLE, newest.number)
    )
    gaps = sorted(
        -(-(new.time - old.time) // (new.number - old.number))
        for old, new in pairwise(recent_blocks)
    )
    slow_gap = gaps[(len(gaps) - 1) * 3 // 4] if gaps else 1
    # Block times are in whole seconds, even if blocks come more often.
    return blocks * max(1, slow_gap)


# The error class of a call that succeeded without its expected event.
WITHOUT_EFFECT_CLASS = "missing_effect"
# The error class of a call that could not land by its deadline.
_DEADLINE_CLASS = "deadline"
# The error classes of held calls that stop new calls for the same subject: an operator stopped the
# call, or another call would only cost gas again.
_HOLDING_CLASSES = frozenset({PauseKind.OPERATOR.value, WITHOUT_EFFECT_CLASS})


def decide_calls(
    uow: UnitOfWork,
    context: AccountContext,
    calls: Sequence[Intent],
    heads: Heads,
    stage: CallStage,
) -> list[Decision]:
    """Return the decision about each call, with one review for each kind."""
    calls_by_kind: dict[str, list[Intent]] = {}
    for call in calls:
        calls_by_kind.setdefault(call.request.kind, []).append(call)
    decision_by_call: dict[int, Decision] = {}
    for same_kind in calls_by_kind.values():
        kind = context.registry.get_kind(same_kind[0])
        kind_decisions = kind.review_calls(uow, same_kind, heads, stage)
        decision_by_call.update(
            {call.id: decision for call, decision in zip(same_kind, kind_decisions, strict=True)}
        )
    return [decision_by_call[call.id] for call in calls]


def decide_on_deadline(
    context: AccountContext, uow: UnitOfWork, intent: Intent, heads: Heads
) -> Decision | None:
    """Return the decision to end a call that cannot meet its deadline, or None if it may."""
    reason = find_deadline_obstacle(context, uow, intent.request.deadline, heads.latest.time)
    return None if reason is None else Decision.end(IntentState.EXPIRED, reason, _DEADLINE_CLASS)


def handle_refused_call(
    context: AccountContext, intent: Intent, result: PreflightResult, heads: Heads
) -> StepResult | None:
    """Let the kind decide about a call whose simulation failed, and apply the decision.

    The result is None if the call already waits for the same reason.

    Raises:
        TransientError: no endpoint answers the kind's queries.
    """
    if result.is_out_of_gas:
        TOO_BIG.labels(context.role).set(1)
        text = f"a block has only {fetch_block_gas_limit(context)} gas: {result.reason}"
        return defer_call(context, intent, heads, ("over_block_gas", text))
    kind = context.registry.get_kind(intent)
    return apply_decision(context, intent, kind.on_refused(intent, result, heads))


def apply_decision(
    context: AccountContext, intent: Intent, decision: Decision
) -> StepResult | None:
    """Apply a decision to a call; return None if it already waits for the same reason."""
    with context.write_transaction() as uow:
        return store_decision(context, uow, intent, decision)


def store_decision(
    context: AccountContext, uow: UnitOfWork, intent: Intent, decision: Decision
) -> StepResult | None:
    """Apply a decision as part of an open write transaction."""
    error_class, text = decision.reason
    intents, kind = uow.outbox.intents, intent.request.kind
    if decision.replacement is not None:
        intents.end_unsent_intent(intent, IntentState.SUPERSEDED, text, context.stamp)
        added_id = intents.add(decision.replacement, context.stamp)
        return StepResult(
            f"{kind} {error_class}", added_id, f"instead of intent {intent.id}: {text}"
        )
    if decision.state is not None:
        intents.end_unsent_intent(intent, decision.state, text, context.stamp, error_class)
        context.registry.get_kind(intent).on_closed(uow, intent, text)
        return StepResult(f"{kind} {decision.state}", intent.id, text)
    is_news = intents.postpone_intent(
        intent, decision.not_before or 0, decision.reason, context.stamp
    )
    return StepResult(f"{kind} waits", intent.id, f"{error_class}: {text}") if is_news else None


def defer_call(
    context: AccountContext, intent: Intent, heads: Heads, reason: tuple[str, str]
) -> StepResult | None:
    """Defer a call to the next block; return None if it already waits for this reason."""
    return apply_decision(context, intent, Decision.wait_for_next_block(heads, reason))


def end_call(
    context: AccountContext, intent: Intent, state: IntentState, reason: str
) -> StepResult | None:
    """End a call that was never sent."""
    return apply_decision(context, intent, Decision.end(state, reason))


def find_held_subjects(uow: UnitOfWork, account: Account) -> set[tuple[str, str]]:
    """Return the (kind, subject) pairs that are not planned until an operator releases them."""
    held_intents = uow.outbox.intents.list_in_states(account, [IntentState.HELD])
    return {
        (intent.request.kind, intent.request.subject)
        for intent in held_intents
        if intent.error_class in _HOLDING_CLASSES
    }
