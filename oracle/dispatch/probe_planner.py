"""Plans system tasks and their ends, once a block, if they are due and not yet planned.

A node gets at most one system task in a window; the contract refuses a second one with the same
node and window number. See docs/explanation/probing.md.
"""

from collections.abc import Iterator

from oracle.bindings.probe_calls import probe_call
from oracle.chain.heads import Heads
from oracle.dispatch.contest_decisions import plan_decided_settlements
from oracle.dispatch.contest_settlement import plan_settlements
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.dispatch_planner import plan_dispatch
from oracle.dispatch.probe_wants import END_PROBE, PROBE, calls_since, ends_wanted, probe_state_of
from oracle.dispatch.second_groups import plan_second_groups
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import CallRequest, Intent
from oracle.txmgr.context import StepResult, counted
from oracle.txmgr.deferral import held_back

# Priorities after the starts of drawn tasks and the queue updates; an end comes before a start.
_END, _PROBE = 250, 300
# The dispatcher ends the tasks of this many earlier windows.
_WINDOWS_BACK = 1


def plan_next(context: DispatchContext, heads: Heads) -> StepResult | None:
    """Plan the dispatcher's due calls, tasks that others pay for first; None if none is due."""
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
    if context.probing is None or context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        cursor = uow.cursor.get()
        if cursor is None or not context.tx.is_at_head(uow, heads):
            return None
        if context.checked_at.get(PROBE) == cursor.hash:
            return None
        requests = list(_requests(context, uow))
    context.checked_at[PROBE] = cursor.hash
    if not requests:
        return None
    stamp = context.tx.stamp
    with context.tx.writing() as uow:
        added = [uow.outbox.intents.add(request, stamp) for request in requests]
    kinds = [request.kind for request in requests]
    return StepResult("probes planned", added[0], counted(kinds))


def _requests(context: DispatchContext, uow: UnitOfWork) -> Iterator[CallRequest]:
    state = probe_state_of(uow, context.settings, context.probing)
    if state is None:
        return
    told, account = state.told, context.tx.account
    window = told.window_of(state.time)
    calls = calls_since(uow, account, window - _WINDOWS_BACK)
    busy = {(one.request.kind, one.request.subject) for one in _unfinished(context, uow)}
    busy |= set(held_back(uow, account))
    for subject, calldata in ends_wanted(uow, calls, account.address, state.time).items():
        if (END_PROBE, subject) not in busy:
            yield _request(context, uow, (END_PROBE, subject, window), calldata)
    for probe in state.due([one for one in calls if one.request.period == window]):
        subject = f"node={probe.nodes[0]}:window={window}"
        if (PROBE, subject) not in busy:
            calldata = probe_call(told.order, window, probe.nodes, probe.version)
            yield _request(context, uow, (PROBE, subject, window), calldata)


def _unfinished(context: DispatchContext, uow: UnitOfWork) -> list[Intent]:
    return uow.outbox.intents.unfinished(context.tx.account)


def _request(
    context: DispatchContext, uow: UnitOfWork, about: tuple[str, str, int], calldata: str
) -> CallRequest:
    kind, subject, window = about
    account = context.tx.account
    tries = uow.outbox.intents.tries(account, kind, subject, None)
    return CallRequest(
        account=account,
        contract=context.tx.publisher.domain.contract,
        kind=kind,
        dedup_key=f"{kind}:{subject}:try={tries + 1}",
        calldata=calldata,
        subject=subject,
        period=window if kind == PROBE else window - _WINDOWS_BACK,
        priority=_PROBE if kind == PROBE else _END,
        exclusive_key=f"{kind}:{subject}",
    )
