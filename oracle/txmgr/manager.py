"""Sends the calls of one account, from admission to retries.

The result of each step is committed before its side effect is caused. After a crash, the next
process therefore continues with the same nonces and the same signed bytes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from oracle.chain.heads import Heads
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.telemetry.logger import get_logger
from oracle.txmgr.admission import admit_calls
from oracle.txmgr.broadcaster import broadcast_unsent_attempts
from oracle.txmgr.budget import Budget, resume_account_if_funded
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.call_replacement import replace_stuck_call
from oracle.txmgr.context import AccountContext, StepResult, format_name_counts
from oracle.txmgr.deferral import decide_calls, store_decision
from oracle.txmgr.fee_bump import bump_lowest_nonce
from oracle.txmgr.signing_queue import (
    can_use_account_key,
    resume_account_after_refusal,
    sign_assigned_calls,
)

_MAX_RETRY_CANDIDATES = 50


def take_over_unsigned_calls(context: AccountContext) -> None:
    """Take over the unsigned calls of an earlier sender after its key was replaced.

    Otherwise these calls would never be sent. Some of them are planned only once, such as an
    objection that was posted to this reporter, or the settlement of a contest. A call may have a
    nonce but no signature if the earlier key could not be reached.
    """
    with context.write_transaction() as uow:
        taken_over_count = uow.outbox.intents.take_over_unsigned(
            context.account, context.registry.planned_kinds, context.stamp
        )
    if taken_over_count:
        get_logger().info(
            "unsent_calls_taken_over", sender=context.account.address, calls=taken_over_count
        )


def plan_retry(context: AccountContext, heads: Heads) -> StepResult | None:
    """Plan a new call in place of a reverted one, or return None if none is needed.

    The admission then checks whether the new call is still needed and succeeds in a simulation.
    """
    with context.store.read_transaction() as uow:
        reverted_intents = uow.outbox.intents.list_newest(
            _MAX_RETRY_CANDIDATES, IntentState.REVERTED
        )
    for intent in reverted_intents:
        if intent.request.account != context.account:
            continue
        kind = context.registry.get_kind(intent)
        retry_request = kind.build_retry(intent, heads)
        if retry_request is None:
            continue
        with context.write_transaction() as uow:
            added_id = uow.outbox.intents.add(retry_request, context.stamp)
            if added_id is not None:
                kind.on_retried(uow, retry_request)
        if added_id is not None:
            reason = intent.error_class or "reverted"
            return StepResult(
                f"{retry_request.kind} again", added_id, f"instead of intent {intent.id}: {reason}"
            )
    return None


def assign_nonces(context: AccountContext, heads: Heads) -> StepResult | None:
    """Assign the lowest free nonces to ready calls.

    Return None if no call may get a nonce.
    """
    with context.store.read_transaction() as uow:
        if not _select_assignable_calls(uow, context) or not can_use_account_key(context):
            return None
    balance = context.fetch_balance()
    assignments: list[tuple[Intent, int]] = []
    deferrals: list[StepResult] = []
    with context.write_transaction() as uow:
        # Check all conditions again in the transaction that assigns the nonces.
        ready_intents = _select_assignable_calls(uow, context)
        budget = Budget.from_outbox(uow, context, balance)
        kind_decisions = decide_calls(uow, context, ready_intents, heads, CallStage.ASSIGN)
        for intent, kind_decision in zip(ready_intents, kind_decisions, strict=True):
            cost = intent.max_cost_wei or 0
            obstacle = budget.find_spending_obstacle(intent, cost)
            decision = (
                kind_decision
                if obstacle is None
                else Decision.wait_for_next_block(heads, obstacle)
            )
            if not decision.is_accepted:
                step_result = store_decision(context, uow, intent, decision)
                deferrals += [] if step_result is None else [step_result]
                continue
            budget.reserve_cost(cost)
            assignments.append((intent, _assign_nonce_slot(uow, context, intent, heads)))
    return _build_assigned_result(assignments) or next(iter(deferrals), None)


def _assign_nonce_slot(
    uow: UnitOfWork, context: AccountContext, intent: Intent, heads: Heads
) -> int:
    outbox, account = uow.outbox, context.account
    vacant_slot = outbox.slots.find_vacant_slot(account)
    nonce = outbox.accounts.allocate_nonce(account) if vacant_slot is None else vacant_slot.nonce
    outbox.slots.assign_nonce(intent, nonce, heads.latest.number, context.stamp)
    return nonce


def _build_assigned_result(assignments: Sequence[tuple[Intent, int]]) -> StepResult | None:
    if not assignments:
        return None
    first_intent, nonce = assignments[0]
    if len(assignments) == 1:
        return StepResult(
            f"{first_intent.request.kind} assigned", first_intent.id, f"nonce {nonce}"
        )
    return StepResult(
        "assigned",
        first_intent.id,
        format_name_counts([intent.request.kind for intent, _ in assignments]),
    )


def _select_assignable_calls(uow: UnitOfWork, context: AccountContext) -> list[Intent]:
    """Return the ready calls that may get a nonce now, starting with the most urgent."""
    ready_intents = uow.outbox.intents.list_in_states(context.account, [IntentState.READY])
    if not ready_intents or uow.outbox.accounts.find_pause(context.account) is not None:
        return []
    max_in_flight, size = context.send_settings.max_in_flight, context.batch_size
    if max_in_flight is not None:
        size = min(size, max_in_flight - len(uow.outbox.slots.list_unfinished(context.account)))
    assignable_calls = _iter_calls_within_kind_limits(uow, context, ready_intents)
    return [intent for intent, _ in zip(assignable_calls, range(size), strict=False)]


def _iter_calls_within_kind_limits(
    uow: UnitOfWork, context: AccountContext, ready_calls: Sequence[Intent]
) -> Iterator[Intent]:
    """Yield ready calls up to the `max_in_flight` limit of each kind."""
    limit_by_kind = {
        intent.request.kind: context.registry.get_kind(intent).max_in_flight
        for intent in ready_calls
    }
    in_flight_by_kind: Counter[str] = Counter()
    if any(limit is not None for limit in limit_by_kind.values()):
        sent_intents = uow.outbox.intents.list_in_states(
            context.account, [IntentState.ASSIGNED, IntentState.LIVE]
        )
        in_flight_by_kind.update(intent.request.kind for intent in sent_intents)
    for intent in ready_calls:
        limit = limit_by_kind[intent.request.kind]
        if limit is None or in_flight_by_kind[intent.request.kind] < limit:
            in_flight_by_kind[intent.request.kind] += 1
            yield intent


_STAGES = (
    # Calls with a nonce come first, because every higher nonce waits for them.
    broadcast_unsent_attempts,
    sign_assigned_calls,
    replace_stuck_call,
    bump_lowest_nonce,
    assign_nonces,
    admit_calls,
    plan_retry,
)


def run_step(context: AccountContext, heads: Heads) -> StepResult | None:
    """Run the most urgent stage that has work, for up to `batch_size` calls.

    Return None if no stage has work.
    """
    if context.is_halted():
        return None
    resume_result = resume_account_if_funded(context) or resume_account_after_refusal(context)
    heads = context.correct_newest_time(heads)
    stage_results = (stage(context, heads) for stage in _STAGES)
    return resume_result or next(
        (step_result for step_result in stage_results if step_result is not None), None
    )
