"""The calls that create, start and end the dispatcher's own tasks.

See docs/explanation/dispatch.md#how-system-tasks-are-sent,
docs/explanation/dispatch.md#second-groups.
"""

from collections.abc import Sequence

from typing_extensions import override

from oracle.chain.heads import Heads
from oracle.dispatch.dispatch_calls import DispatcherCall
from oracle.dispatch.probe_wants import END_PROBE, PROBE, calls_since, ends_wanted, probe_state_of
from oracle.dispatch.second_groups import (
    END_SECOND_GROUP,
    NOT_OPEN,
    SECOND_GROUP,
    can_start,
    second_group_ends,
)
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.txmgr.call_registry import Decision
from oracle.txmgr.client.preflight import PreflightResult

# The reason for ending such a call.
NOT_DUE = "overtaken(the system task, or its end, is no longer wanted)"
# Percent of the budget kept for starts of tasks that others pay for.
_KEPT_FOR_STARTS = 50


class _SystemTaskCall(DispatcherCall):
    """A call about a task that the dispatcher itself ordered."""

    reserve_share = _KEPT_FOR_STARTS

    @override
    def _decide_at_head(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads
    ) -> Sequence[Decision]:
        over = Decision.end(IntentState.SUPERSEDED, NOT_DUE)
        return [Decision.go() if is_wanted else over for is_wanted in self._are_wanted(uow, calls)]

    def _are_wanted(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        raise NotImplementedError


class ProbeCall(_SystemTaskCall):
    """A system task for a node that had no task in the window."""

    name = PROBE

    @override
    def _are_wanted(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        state = probe_state_of(uow, self._context.settings, self._context.probing)
        return [state is not None and state.is_probe_still_due(one) for one in calls]


class EndProbeCall(_SystemTaskCall):
    """The validation of a system task, or its timeout."""

    name = END_PROBE

    @override
    def _are_wanted(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        cursor, account = uow.cursor.get(), self._context.tx.account
        if cursor is None:
            return [False] * len(calls)
        first = min(one.request.period or 0 for one in calls)
        probes = calls_since(uow, account, first)
        wanted = ends_wanted(uow, probes, account.address, cursor.time)
        return [wanted.get(one.request.subject) == one.request.calldata for one in calls]


class SecondGroupCall(_SystemTaskCall):
    """The second group of a contest, ordered and started."""

    name = SECOND_GROUP

    @override
    def _are_wanted(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        cursor, rules = uow.cursor.get(), self._context.settings.rules
        return [cursor is not None and can_start(uow, one, rules, cursor) for one in calls]

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        """End the call if the contest is over or has a second group, else let the call wait."""
        name = "" if result.refusal is None else result.refusal.name
        if name in {"NotContested", "TaskExists"}:
            return Decision.end(IntentState.SUPERSEDED, NOT_OPEN)
        return super().on_refused(call, result, heads)


class EndSecondGroupCall(_SystemTaskCall):
    """The comparison of a second group, or the timeout of one of its tasks."""

    name = END_SECOND_GROUP

    @override
    def _are_wanted(self, uow: UnitOfWork, calls: Sequence[Intent]) -> Sequence[bool]:
        cursor, account = uow.cursor.get(), self._context.tx.account
        wanted = {} if cursor is None else second_group_ends(uow, account, cursor.time)
        return [wanted.get(one.request.subject) == one.request.calldata for one in calls]
