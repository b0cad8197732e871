"""Finds the system tasks that are due, and the running system tasks that should end now.

Both are computed from the folded state at the cursor and from the calls in the outbox.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oracle.bindings.probe_calls import (
    compute_probe_task_keys,
    compute_total_probe_fee,
    decode_probe_nodes,
    encode_accept_error_call,
    encode_time_out_task_call,
    encode_validate_group_call,
    encode_validate_task_call,
)
from oracle.dispatch.assigner import load_active_draws
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.probe_windows import ProbeSettings, get_open_window
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.store.database import UnitOfWork
from oracle.store.outbox.call_kinds import PROBE
from oracle.store.outbox.records import (
    FAILED_STATES,
    UNFINISHED_STATES,
    Account,
    Intent,
    IntentState,
)
from oracle.systems.crynux.requirements import find_unavailability_reason
from oracle.systems.probing import Probe, is_idle_in_window, select_due_probes

# The minimum time in seconds that the contract gives the nodes of a group to reveal. The exact
# limit shows when the call is simulated.
_MIN_REVEAL_SECONDS = 60
# The states of calls that have not locked a fee.
_INEFFECTIVE_STATES = frozenset({*FAILED_STATES, IntentState.CANCELLED})


@dataclass(frozen=True, slots=True)
class ProbeState:
    """The state of the network at a block time, from which the due system tasks are computed."""

    uow: UnitOfWork
    time: int
    rules: Rules
    settings: ProbeSettings

    def find_due_probes(self, calls: Sequence[Intent]) -> list[Probe]:
        """Return the system tasks of the open window that are due and not yet planned.

        The remaining part of `max_fee_wei` limits the list. `calls` must have every `probe` call
        of the window.
        """
        window = get_open_window(self.uow, self.settings, self.time)
        if window is None:
            return []
        unfinished_calls = [call for call in calls if call.state in UNFINISHED_STATES]
        busy_nodes = {
            node for call in unfinished_calls for node in decode_probe_nodes(_get_calldata(call))
        }
        if not any(
            window.compute_probe_due_time(node.address) <= self.time
            and node.address not in busy_nodes
            for node in self.uow.nodes.list_idle_since(window.start)
        ):
            return []
        reserved = busy_nodes | set(load_active_draws(self.uow).values())
        probes = select_due_probes(
            (node for node in self.uow.nodes.iterate_all() if node.address not in reserved),
            window,
            self.time,
            self.rules,
            models=frozenset(self.settings.order.models),
            with_companions=self.settings.group,
        )
        spent_wei = sum(
            compute_total_probe_fee(_get_calldata(call))
            for call in calls
            if _is_call_effective(call)
        )
        return list(
            _limit_probes_to_budget(
                probes, (self.settings.max_fee_wei - spent_wei) // self.settings.order.fee
            )
        )

    def is_probe_still_due(self, call: Intent) -> bool:
        """Return whether a system task that was planned but not sent is still due."""
        window = get_open_window(self.uow, self.settings, self.time)
        if window is None or call.request.period != window.number:
            return False
        nodes = decode_probe_nodes(call.request.calldata)
        rows = self.uow.nodes.get_many(nodes)
        drawn_nodes = set(load_active_draws(self.uow).values())
        are_available = all(
            node in rows and self._is_available_for_probe(rows[node], drawn_nodes)
            for node in nodes
        )
        return are_available and is_idle_in_window(rows[nodes[0]], window)

    def _is_available_for_probe(self, node: Node, drawn_nodes: set[Address]) -> bool:
        return (
            node.address not in drawn_nodes
            and find_unavailability_reason(node, self.time, self.rules) is None
        )


def load_probe_state(
    uow: UnitOfWork, settings: DispatchSettings, probe_settings: ProbeSettings | None
) -> ProbeState | None:
    """Return the state at the cursor, or None if system tasks are off or nothing is indexed."""
    cursor = uow.cursor.get()
    if probe_settings is None or cursor is None:
        return None
    return ProbeState(uow, cursor.time, settings.rules, probe_settings)


def load_probe_calls(uow: UnitOfWork, account: Account, window: int) -> list[Intent]:
    """Return every `probe` call of this window and of later windows."""
    return uow.outbox.intents.list_intents_from_period(account, PROBE, window)


def find_due_end_calls(
    uow: UnitOfWork, calls: Sequence[Intent], creator: Address, time: int
) -> Mapping[str, str]:
    """Return, by subject, the calldata of each due call that ends tasks of `calls`."""
    calldata_by_subject: dict[str, str] = {}
    for call in calls:
        if _is_call_effective(call):
            keys = compute_probe_task_keys(_get_calldata(call), creator)
            rows = uow.tasks.get_many(keys)
            tasks = [rows[key] for key in keys if key in rows]
            if len(tasks) == len(keys):
                calldata_by_subject.update(_iter_due_end_calls(call, tasks, creator, time))
    return calldata_by_subject


def _iter_due_end_calls(
    call: Intent, tasks: Sequence[Task], creator: Address, time: int
) -> Iterator[tuple[str, str]]:
    open_tasks = [task for task in tasks if task.ending is None]
    late_tasks = [task for task in open_tasks if _has_missed_deadline(task, tasks, time)]
    for task in late_tasks:
        yield _format_task_subject(task.key), encode_time_out_task_call(task.key)
    if late_tasks or not open_tasks:
        return
    if tasks[0].group is None:
        if tasks[0].stopped_at is not None:
            build_call = (
                encode_accept_error_call if tasks[0].error_reported else encode_validate_task_call
            )
            yield _format_task_subject(tasks[0].key), build_call(tasks[0].key)
    elif all(_is_answered_or_ended(task) for task in tasks):
        yield f"group={tasks[0].group}", encode_validate_group_call(_get_calldata(call), creator)


def _has_missed_deadline(task: Task, group_tasks: Sequence[Task], time: int) -> bool:
    """Return whether the node of a task missed its deadline to answer or to reveal."""
    if task.stopped_time is None:
        return time > (task.started_time or 0) + (task.timeout or 0)
    end_times = [member.stopped_time or member.ended_time for member in group_tasks]
    if _is_answered_or_ended(task) or task.group is None:
        return False
    known_end_times = [end_time for end_time in end_times if end_time is not None]
    return (
        len(known_end_times) == len(end_times)
        and time > max(known_end_times) + _MIN_REVEAL_SECONDS
    )


def _is_answered_or_ended(task: Task) -> bool:
    is_answer_known = task.revealed_at is not None or task.error_reported
    return is_answer_known or task.ending is not None


def _limit_probes_to_budget(probes: Sequence[Probe], remaining_tasks: int) -> Iterator[Probe]:
    """Yield the probes, in order, until the first probe whose tasks exceed the limit."""
    for probe in probes:
        remaining_tasks -= len(probe.nodes)
        if remaining_tasks < 0:
            return
        yield probe


def _is_call_effective(call: Intent) -> bool:
    return call.state not in _INEFFECTIVE_STATES


def _get_calldata(call: Intent) -> str:
    return call.request.calldata


def _format_task_subject(task: TaskKey) -> str:
    return f"task={task}"
