"""Plans the dispatcher's calls for starts, queue updates, downloads and system tasks.

A node gets at most one system task in a window, because the contract refuses a second task with
the same node and window number. See docs/explanation/dispatch.md#system-tasks.
"""

from collections.abc import Iterator

from oracle.bindings.probe_calls import encode_probe_call
from oracle.chain.heads import Heads
from oracle.dispatch.contest_settlement import plan_contest_settlements
from oracle.dispatch.dispatch_calls import (
    STARTS,
    DispatchContext,
    PlannedCall,
    build_calldata,
    build_planned_calls,
    enqueue_calls,
    find_pending_call_keys,
    get_call_key,
)
from oracle.dispatch.probe_wants import find_due_end_calls, load_probe_calls, load_probe_state
from oracle.dispatch.second_groups import plan_decided_contest_settlements, plan_second_groups
from oracle.domain.ids import Hash
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import END_PROBE, PENDING_STATES, PROBE, CallRequest
from oracle.txmgr.context import StepResult
from oracle.txmgr.deferral import find_held_subjects

# Lower numbers are sent first, so starts of drawn tasks and queue updates precede these calls, and
# system tasks are ended before new ones are started.
_END_PRIORITY, _PROBE_PRIORITY = 250, 300
# Number of earlier windows in which the dispatcher looks for system tasks that it must end.
_WINDOWS_BACK = 1


def plan_next_calls(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the dispatcher's calls that are due.

    The result is None if no call is due.

    Tasks that others pay for come first.
    """
    return (
        plan_dispatch(context, heads)
        or plan_contest_settlements(context, heads)
        or plan_decided_contest_settlements(context, heads)
        or plan_second_groups(context, heads)
        or plan_probes(context, heads)
    )


def plan_dispatch(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the calls that are due and not yet pending, up to `max_in_flight`.

    The result is None if there are no such calls. Nothing is planned while the index is behind the
    head, because a draw may have ended since.
    """
    if context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        if not context.account_context.is_at_head(uow, heads):
            return None
        requests = list(_build_requests(context, uow, heads))
    return enqueue_calls(context, "dispatch planned", requests)


def _build_requests(
    context: DispatchContext, uow: UnitOfWork, heads: Heads
) -> Iterator[CallRequest]:
    """Yield the requests of planned calls, up to the limit of calls in flight.

    For a start, only other starts count towards the limit.
    """
    settings = context.settings
    intents = uow.outbox.intents.list_unfinished(context.account_context.account)
    abandoned_ids = _find_abandoned_intent_ids(context, uow, heads)
    pending_keys = {get_call_key(intent) for intent in intents if intent.id not in abandoned_ids}
    pending_keys |= find_held_subjects(uow, context.account_context.account)
    in_flight_kinds = [
        active_intent.request.kind
        for active_intent in intents
        if active_intent.state in PENDING_STATES
    ]
    for planned_call in build_planned_calls(uow, settings).values():
        is_start = planned_call.kind in STARTS
        start_count = sum(kind in STARTS for kind in in_flight_kinds)
        ahead_count = start_count if is_start else len(in_flight_kinds)
        if ahead_count < settings.max_in_flight and planned_call.key not in pending_keys:
            in_flight_kinds.append(planned_call.kind)
            yield _build_request(context, planned_call, heads)


def _find_abandoned_intent_ids(
    context: DispatchContext, uow: UnitOfWork, heads: Heads
) -> set[int]:
    """Return the ids of mined calls that failed long enough ago to be retried.

    The wait is 2, 4, 8, … blocks and doubles with every try. A call is tried again before its
    failure is final, because a task and a node may be waiting for the call. If a reorg would let
    both calls succeed, the contract refuses the second call.
    """
    abandoned_ids = set()
    for slot in uow.outbox.slots.list_unfinished(context.account_context.account):
        intent = uow.outbox.intents.get(slot.intent_id) if slot.succeeded is False else None
        if intent is not None and slot.block_number is not None:
            try_count = uow.outbox.intents.count_tries(intent.request)
            if heads.latest.number - slot.block_number >= 1 << try_count:
                abandoned_ids.add(intent.id)
    return abandoned_ids


def _build_request(
    context: DispatchContext, planned_call: PlannedCall, heads: Heads
) -> CallRequest:
    kind, subject = planned_call.kind, planned_call.subject
    draw = next(iter(planned_call.draws), None)
    return CallRequest(
        account=context.account_context.account,
        contract=context.account_context.sender_account.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}",
        calldata=build_calldata(planned_call, heads),
        subject=subject,
        as_of_block=None if draw is None else draw.seed_block,
        as_of_hash=None if draw is None else Hash(draw.seed_hash),
        priority=planned_call.priority,
        exclusive_key=f"{kind}:{subject}" if planned_call.is_exclusive else None,
    )


def plan_probes(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the system tasks that are due and not yet pending.

    The result is None if there are no such tasks, or if this block was already checked.
    """
    if context.probing is None or context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        cursor = context.get_cursor_unless_checked(uow, heads, PROBE)
        if cursor is None:
            return None
        requests = list(_build_probe_requests(context, uow))
    context.checked_at[PROBE] = cursor.hash
    return enqueue_calls(context, "probes planned", requests)


def _build_probe_requests(context: DispatchContext, uow: UnitOfWork) -> Iterator[CallRequest]:
    state = load_probe_state(uow, context.settings, context.probing)
    if state is None:
        return
    settings, account = state.settings, context.account_context.account
    window = settings.get_window_number(state.time)
    calls = load_probe_calls(uow, account, window - _WINDOWS_BACK)
    pending_keys = find_pending_call_keys(uow, account)
    for subject, calldata in find_due_end_calls(uow, calls, account.address, state.time).items():
        if (END_PROBE, subject) not in pending_keys:
            yield _build_probe_request(context, (END_PROBE, subject, window), calldata)
    for probe in state.find_due_probes([call for call in calls if call.request.period == window]):
        subject = f"node={probe.nodes[0]}:window={window}"
        if (PROBE, subject) not in pending_keys:
            calldata = encode_probe_call(settings.order, window, probe.nodes, probe.version)
            yield _build_probe_request(context, (PROBE, subject, window), calldata)


def _build_probe_request(
    context: DispatchContext, key: tuple[str, str, int], calldata: str
) -> CallRequest:
    kind, subject, window = key
    return CallRequest(
        account=context.account_context.account,
        contract=context.account_context.sender_account.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}",
        calldata=calldata,
        subject=subject,
        period=window if kind == PROBE else window - _WINDOWS_BACK,
        priority=_PROBE_PRIORITY if kind == PROBE else _END_PRIORITY,
        exclusive_key=f"{kind}:{subject}",
    )
