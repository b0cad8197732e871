"""Plans system tasks and their ends, once per block, if they are due and not yet planned.

A node gets at most one system task in a window; the contract refuses a second one with the same
node and window number. See docs/explanation/dispatch.md#system-tasks.
"""

from collections.abc import Iterator

from oracle.bindings.probe_calls import encode_probe
from oracle.chain.heads import Heads
from oracle.dispatch.contest_decisions import plan_decided_settlements
from oracle.dispatch.contest_settlement import plan_settlements
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.dispatch.probe_wants import (
    END_PROBE,
    PROBE,
    find_due_ends,
    load_probe_calls,
    load_probe_state,
)
from oracle.dispatch.second_groups import plan_second_groups
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent
from oracle.txmgr.context import StepResult, format_counts
from oracle.txmgr.deferral import find_held_subjects

# Priorities after the starts of drawn tasks and the queue updates; an end comes before a start.
_END_PRIORITY, _PROBE_PRIORITY = 250, 300
# The dispatcher ends the tasks of this many earlier windows.
_WINDOWS_BACK = 1


def plan_next_calls(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the dispatcher's due calls, or return None; tasks that others pay for come first."""
    return (
        plan_dispatch(context, heads)
        or plan_settlements(context, heads)
        or plan_decided_settlements(context, heads)
        or plan_second_groups(context, heads)
        or plan_probes(context, heads)
    )


def plan_probes(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the system tasks that are due and not yet pending, or return None.

    None is also returned if this block was checked before.
    """
    if context.probing is None or context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        cursor = uow.cursor.get()
        if cursor is None or not context.account_context.is_at_head(uow, heads):
            return None
        if context.checked_at.get(PROBE) == cursor.hash:
            return None
        requests = list(_build_requests(context, uow))
    context.checked_at[PROBE] = cursor.hash
    if not requests:
        return None
    stamp = context.account_context.stamp
    with context.account_context.write_transaction() as uow:
        intent_ids = [uow.outbox.intents.add(request, stamp) for request in requests]
    kinds = [request.kind for request in requests]
    return StepResult("probes planned", intent_ids[0], format_counts(kinds))


def _build_requests(context: DispatchContext, uow: UnitOfWork) -> Iterator[CallRequest]:
    state = load_probe_state(uow, context.settings, context.probing)
    if state is None:
        return
    settings, account = state.settings, context.account_context.account
    window = settings.get_window_number(state.time)
    calls = load_probe_calls(uow, account, window - _WINDOWS_BACK)
    pending_keys = {
        (intent.request.kind, intent.request.subject)
        for intent in _get_unfinished_intents(context, uow)
    }
    pending_keys |= set(find_held_subjects(uow, account))
    for subject, calldata in find_due_ends(uow, calls, account.address, state.time).items():
        if (END_PROBE, subject) not in pending_keys:
            yield _build_request(context, uow, (END_PROBE, subject, window), calldata)
    for probe in state.find_due_probes([call for call in calls if call.request.period == window]):
        subject = f"node={probe.nodes[0]}:window={window}"
        if (PROBE, subject) not in pending_keys:
            calldata = encode_probe(settings.order, window, probe.nodes, probe.version)
            yield _build_request(context, uow, (PROBE, subject, window), calldata)


def _get_unfinished_intents(context: DispatchContext, uow: UnitOfWork) -> list[Intent]:
    return uow.outbox.intents.list_unfinished(context.account_context.account)


def _build_request(
    context: DispatchContext, uow: UnitOfWork, key: tuple[str, str, int], calldata: str
) -> CallRequest:
    kind, subject, window = key
    account = context.account_context.account
    tries = uow.outbox.intents.count_for_round(account, kind, subject, None)
    return CallRequest(
        account=account,
        contract=context.account_context.sender_account.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}:try={tries + 1}",
        calldata=calldata,
        subject=subject,
        period=window if kind == PROBE else window - _WINDOWS_BACK,
        priority=_PROBE_PRIORITY if kind == PROBE else _END_PRIORITY,
        exclusive_key=f"{kind}:{subject}",
    )
