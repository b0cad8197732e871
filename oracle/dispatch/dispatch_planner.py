"""Plans the dispatcher's calls: task starts, queue updates and download requests."""

from collections.abc import Iterator

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import (
    STARTS,
    CallKey,
    DispatchContext,
    PlannedCall,
    build_calldata,
    build_planned_calls,
    get_call_key,
)
from oracle.domain.ids import Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import PENDING_STATES, CallRequest
from oracle.txmgr.context import StepResult, format_counts
from oracle.txmgr.deferral import find_held_subjects


def plan_dispatch(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the calls that are due and not yet pending, up to `max_in_flight`, or return None.

    Nothing is planned while the index is behind the head, because a draw may have ended since.
    """
    if context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        if not context.account_context.is_at_head(uow, heads):
            return None
        requests = list(_build_requests(context, uow, heads))
    if not requests:
        return None
    stamp = context.account_context.stamp
    with context.account_context.write_transaction() as uow:
        intent_ids = [uow.outbox.intents.add(request, stamp) for request in requests]
    return StepResult(
        "dispatch planned", intent_ids[0], format_counts([request.kind for request in requests])
    )


def _build_requests(
    context: DispatchContext, uow: UnitOfWork, heads: Heads
) -> Iterator[CallRequest]:
    """Yield the requests of planned calls; only starts count against the limit for starts."""
    settings = context.settings
    intents = uow.outbox.intents.list_unfinished(context.account_context.account)
    abandoned_ids = _find_abandoned_intents(context, uow, heads)
    pending_keys = {get_call_key(intent) for intent in intents if intent.id not in abandoned_ids}
    pending_keys |= {
        CallKey(*held_key) for held_key in find_held_subjects(uow, context.account_context.account)
    }
    in_flight_kinds = [
        active_intent.request.kind
        for active_intent in intents
        if active_intent.state in PENDING_STATES
    ]
    for planned_call in build_planned_calls(uow, settings).values():
        is_start = planned_call.key.kind in STARTS
        start_count = sum(kind in STARTS for kind in in_flight_kinds)
        ahead_count = start_count if is_start else len(in_flight_kinds)
        if ahead_count < settings.max_in_flight and planned_call.key not in pending_keys:
            in_flight_kinds.append(planned_call.key.kind)
            yield _build_request(context, uow, planned_call, heads)


def _find_abandoned_intents(context: DispatchContext, uow: UnitOfWork, heads: Heads) -> set[int]:
    """Return the ids of calls that were mined and failed so long ago that they are tried again.

    The wait is 2, 4, 8, ... blocks and doubles with every try. A call is tried again before its
    failure is final, because a task and a node may be waiting for it. If a reorg lets both calls
    succeed, the contract refuses the second one.
    """
    abandoned_ids = set()
    for slot in uow.outbox.slots.list_unfinished(context.account_context.account):
        intent = uow.outbox.intents.get(slot.intent_id) if slot.succeeded is False else None
        if intent is not None and slot.block_number is not None:
            request = intent.request
            tries = uow.outbox.intents.count_for_round(
                context.account_context.account, request.kind, request.subject, None
            )
            if heads.latest.number - slot.block_number >= 1 << tries:
                abandoned_ids.add(intent.id)
    return abandoned_ids


def _build_request(
    context: DispatchContext, uow: UnitOfWork, planned_call: PlannedCall, heads: Heads
) -> CallRequest:
    kind, subject = planned_call.key
    tries = uow.outbox.intents.count_for_round(
        context.account_context.account, kind, subject, None
    )
    draw = next(iter(planned_call.draws), None)
    return CallRequest(
        account=context.account_context.account,
        contract=context.account_context.sender_account.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}:try={tries + 1}",
        calldata=build_calldata(planned_call, heads),
        subject=subject,
        as_of_block=None if draw is None else draw.seed_block,
        as_of_hash=None if draw is None else Hash(draw.seed_hash),
        priority=planned_call.priority,
        exclusive_key=f"{kind}:{subject}" if planned_call.is_exclusive else None,
    )
