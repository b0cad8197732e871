"""The calls that create, start and end the dispatcher's own tasks.

See docs/explanation/dispatch.md#how-system-tasks-are-sent,
docs/explanation/dispatch.md#second-groups.
"""

from collections.abc import Sequence

from typing_extensions import override

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import DispatcherCall
from oracle.dispatch.probe_wants import find_due_end_calls, load_probe_calls, load_probe_state
from oracle.dispatch.second_groups import (
    NOT_OPEN_REASON,
    find_due_second_group_ends,
    is_group_start_still_due,
)
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    END_PROBE,
    END_SECOND_GROUP,
    PROBE,
    SECOND_GROUP,
    Intent,
    IntentState,
)
from oracle.txmgr.call_registry import Decision
from oracle.txmgr.client.preflight import PreflightResult

# The reason stored when a call about a system task is superseded.
NOT_DUE_REASON = "overtaken(the system task, or its end, is no longer wanted)"
# The percentage of the budget reserved for starting tasks that others pay for.
_RESERVE_PERCENT = 50


class _SystemTaskCall(DispatcherCall):
    """A contract call about a task that the dispatcher created itself."""

    reserve_share = _RESERVE_PERCENT

    @override
    def _decide_at_head(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads
    ) -> Sequence[Decision]:
        superseded_decision = Decision.end(IntentState.SUPERSEDED, NOT_DUE_REASON)
        return [
            Decision.proceed() if is_due else superseded_decision
            for is_due in self._are_still_due(uow, calls)
        ]

    def _are_still_due(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        raise NotImplementedError


class ProbeCall(_SystemTaskCall):
    """Creates and starts a system task for a node that had no task in the window."""

    name = PROBE

    @override
    def _are_still_due(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        state = load_probe_state(uow, self._context.settings, self._context.probing)
        return [state is not None and state.is_probe_still_due(call) for call in calls]


class EndProbeCall(_SystemTaskCall):
    """Validates a system task, or times it out."""

    name = END_PROBE

    @override
    def _are_still_due(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        cursor = uow.cursor.get()
        account = self._context.account_context.account
        if cursor is None:
            return [False] * len(calls)
        first_window = min(call.request.period or 0 for call in calls)
        probes = load_probe_calls(uow, account, first_window)
        calldata_by_subject = find_due_end_calls(uow, probes, account.address, cursor.time)
        return [
            calldata_by_subject.get(call.request.subject) == call.request.calldata
            for call in calls
        ]


class SecondGroupCall(_SystemTaskCall):
    """Orders and starts the second group of a contest."""

    name = SECOND_GROUP

    @override
    def _are_still_due(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        cursor = uow.cursor.get()
        rules = self._context.settings.rules
        return [
            cursor is not None and is_group_start_still_due(uow, call, rules, cursor)
            for call in calls
        ]

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        """End the call if the contest is over or has a second group, or else let it wait."""
        name = "" if result.refusal is None else result.refusal.name
        if name in {"NotContested", "TaskExists"}:
            return Decision.end(IntentState.SUPERSEDED, NOT_OPEN_REASON)
        return super().on_refused(call, result, heads)


class EndSecondGroupCall(_SystemTaskCall):
    """Compares the results of a second group, or times out a task of the group."""

    name = END_SECOND_GROUP

    @override
    def _are_still_due(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        cursor = uow.cursor.get()
        account = self._context.account_context.account
        calldata_by_subject = (
            {} if cursor is None else find_due_second_group_ends(uow, account, cursor.time)
        )
        return [
            calldata_by_subject.get(call.request.subject) == call.request.calldata
            for call in calls
        ]
