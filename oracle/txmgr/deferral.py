"""Defers a call that cannot be sent now, with a reason for operators, or ends it.

A call that would be mined after its deadline is ended instead of signed, because it would revert
and cost its gas. The time until a call is mined is estimated from the last mined transactions.
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

# The estimate is based on this many of the last mined transactions and of the newest blocks.
_LANDED_SAMPLE, _BLOCK_SAMPLE = 20, 64
# Minimum of the estimate, because a transaction is rarely mined in the very next block.
_MIN_BLOCKS = 2


def find_deadline_obstacle(
    context: AccountContext, uow: UnitOfWork, deadline: int | None, now: int
) -> str | None:
    """Return why a call cannot be mined by its deadline, or None if it can.

    The deadline is in chain time.
    """
    if deadline is None:
        return None
    if now > deadline:
        return "its deadline passed"
    margin_seconds = compute_deadline_margin_seconds(context, uow)
    if now + margin_seconds <= deadline:
        return None
    return f"its deadline is in {deadline - now} s, but landing may take {margin_seconds} s"


def compute_deadline_margin_seconds(context: AccountContext, uow: UnitOfWork) -> int:
    """Compute how long before its deadline a call is no longer signed.

    The result is in seconds of chain time. The margin is the time of as many blocks (at least two)
    as slow transactions needed from the first broadcast to inclusion. Slow means the 95th
    percentile of the last mined transactions. The margin is at most `max_margin_seconds`.
    Otherwise, after a week of high fees, every call with a deadline would be ended, and no faster
    transaction could ever be measured.
    """
    inclusion_blocks = sorted(
        uow.outbox.slots.list_inclusion_delays(context.account, _LANDED_SAMPLE)
    )
    slow_inclusion_blocks = (
        inclusion_blocks[(len(inclusion_blocks) - 1) * 19 // 20] if inclusion_blocks else 0
    )
    landing_seconds = _estimate_seconds_for_blocks(uow, max(_MIN_BLOCKS, slow_inclusion_blocks))
    return min(landing_seconds, context.send_settings.max_margin_seconds)


def _estimate_seconds_for_blocks(uow: UnitOfWork, blocks: int) -> int:
    """Estimate how many seconds a number of blocks takes.

    The estimate uses the 75th percentile of block times.
    """
    newest_block = uow.blocks.find_newest()
    recent_blocks = (
        []
        if newest_block is None
        else uow.blocks.list_canonical(newest_block.number - _BLOCK_SAMPLE, newest_block.number)
    )
    sorted_block_seconds = sorted(
        -(-(block.time - previous_block.time) // (block.number - previous_block.number))
        for previous_block, block in pairwise(recent_blocks)
    )
    slow_block_seconds = (
        sorted_block_seconds[(len(sorted_block_seconds) - 1) * 3 // 4]
        if sorted_block_seconds
        else 1
    )
    # Timestamps are whole seconds. On chains with faster blocks, the gap may therefore be 0.
    return blocks * max(1, slow_block_seconds)


# Error class of a call that succeeded without emitting its expected event.
WITHOUT_EFFECT_CLASS = "missing_effect"
# Error class of a call that could not land before its deadline.
_DEADLINE_CLASS = "deadline"
# Error classes of a held call during which no new call is planned for its subject. Either an
# operator has stopped the call, or another call would again cost gas without effect.
_HOLDING_CLASSES = frozenset({PauseKind.OPERATOR.value, WITHOUT_EFFECT_CLASS})


def decide_calls(
    uow: UnitOfWork,
    context: AccountContext,
    calls: Sequence[Intent],
    heads: Heads,
    stage: CallStage,
) -> list[Decision]:
    """Return a decision about each call, after one review for each kind."""
    calls_by_kind: dict[str, list[Intent]] = {}
    for call in calls:
        calls_by_kind.setdefault(call.request.kind, []).append(call)
    decision_by_call: dict[int, Decision] = {}
    for calls_of_kind in calls_by_kind.values():
        kind = context.registry.get_kind(calls_of_kind[0])
        kind_decisions = kind.review_calls(uow, calls_of_kind, heads, stage)
        decision_by_call.update(
            {
                call.id: decision
                for call, decision in zip(calls_of_kind, kind_decisions, strict=True)
            }
        )
    return [decision_by_call[call.id] for call in calls]


def decide_on_deadline(
    context: AccountContext, uow: UnitOfWork, intent: Intent, heads: Heads
) -> Decision | None:
    """Return the decision to end a call that would miss its deadline, or None."""
    deadline_obstacle = find_deadline_obstacle(
        context, uow, intent.request.deadline, heads.latest.time
    )
    return (
        None
        if deadline_obstacle is None
        else Decision.end(IntentState.EXPIRED, deadline_obstacle, _DEADLINE_CLASS)
    )


def handle_refused_call(
    context: AccountContext, intent: Intent, result: PreflightResult, heads: Heads
) -> StepResult | None:
    """Apply the decision of a call's kind after the simulation of the call has failed.

    The result is None if the call already waits for the same reason.

    Raises:
        TransientError: no endpoint answers the kind's queries.
    """
    if result.is_out_of_gas:
        TOO_BIG.labels(context.role).set(1)
        gas_limit_text = f"a block has only {fetch_block_gas_limit(context)} gas: {result.reason}"
        return defer_call(context, intent, heads, ("over_block_gas", gas_limit_text))
    kind = context.registry.get_kind(intent)
    return apply_decision(context, intent, kind.on_refused(intent, result, heads))


def apply_decision(
    context: AccountContext, intent: Intent, decision: Decision
) -> StepResult | None:
    """Apply a decision to a call.

    Return None if the call already waits for this reason.
    """
    with context.write_transaction() as uow:
        return store_decision(context, uow, intent, decision)


def store_decision(
    context: AccountContext, uow: UnitOfWork, intent: Intent, decision: Decision
) -> StepResult | None:
    """Apply a decision to a call within an open write transaction.

    See `apply_decision`.
    """
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
    is_new_reason = intents.postpone_intent(
        intent, decision.not_before or 0, decision.reason, context.stamp
    )
    return (
        StepResult(f"{kind} waits", intent.id, f"{error_class}: {text}") if is_new_reason else None
    )


def defer_call(
    context: AccountContext, intent: Intent, heads: Heads, reason: tuple[str, str]
) -> StepResult | None:
    """Defer a call to the next block.

    Return None if the call already waits for this reason.
    """
    return apply_decision(context, intent, Decision.wait_for_next_block(heads, reason))


def end_call(
    context: AccountContext, intent: Intent, state: IntentState, reason: str
) -> StepResult | None:
    """End a call that was not sent yet."""
    return apply_decision(context, intent, Decision.end(state, reason))


def find_held_subjects(uow: UnitOfWork, account: Account) -> set[tuple[str, str]]:
    """Return the (kind, subject) of each held call.

    Such a call is not planned again before the held call is released.
    """
    held_intents = uow.outbox.intents.list_in_states(account, [IntentState.HELD])
    return {
        (intent.request.kind, intent.request.subject)
        for intent in held_intents
        if intent.error_class in _HOLDING_CLASSES
    }
