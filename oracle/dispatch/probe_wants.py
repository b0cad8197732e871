"""Finds the system tasks that are due, and the due ends of running ones.

Both follow from the fold at the cursor and from the calls in the outbox.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oracle.bindings.probe_calls import (
    accept_error_call,
    compare_probe_call,
    probe_fees,
    probe_keys,
    probe_nodes,
    time_out_call,
    validate_probe_call,
)
from oracle.dispatch.assigner import active_draws_in
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.probe_settings import ProbeSettings
from oracle.dispatch.probe_windows import open_window
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import FAILED, UNFINISHED, Account, Intent, IntentState
from oracle.systems.crynux.requirements import unavailability_reason
from oracle.systems.probing import Probe, is_probe_due, probes_due

# Kinds of these calls in the outbox.
PROBE, END_PROBE = "probe", "end_probe"
# The contract gives a group's nodes at least this long to reveal, in seconds; simulating the call
# shows the exact limit.
_LEAST_REVEAL = 60
# States of calls that locked up no fee.
_WITHOUT_EFFECT = frozenset({*FAILED, IntentState.CANCELLED})


@dataclass(frozen=True, slots=True)
class ProbeState:
    """The network at a block time, as system tasks need it."""

    uow: UnitOfWork
    time: int
    rules: Rules
    told: ProbeSettings

    def due(self, calls: Sequence[Intent]) -> list[Probe]:
        """Return the system tasks of the open window that are due and not yet planned.

        The list is limited to what `max_fee_wei` still pays for; `calls`: every `probe` of the
        window.
        """
        window = open_window(self.uow, self.told, self.time)
        if window is None:
            return []
        under_way = [one for one in calls if one.state in UNFINISHED]
        busy = {node for one in under_way for node in probe_nodes(_input(one))}
        if not any(
            window.due_at(node.address) <= self.time and node.address not in busy
            for node in self.uow.nodes.without_start_since(window.start)
        ):
            return []
        taken = busy | set(active_draws_in(self.uow).values())
        at = (self.time, self.rules)
        found = probes_due(
            self.uow.nodes.all(),
            window,
            at,
            taken,
            models=frozenset(self.told.order.models),
            group=self.told.group,
        )
        spent = sum(probe_fees(_input(one)) for one in calls if _counts(one))
        return list(_affordable(found, (self.told.max_fee_wei - spent) // self.told.order.fee))

    def is_probe_still_due(self, call: Intent) -> bool:
        """Return whether a planned system task that was not sent is still due."""
        window = open_window(self.uow, self.told, self.time)
        if window is None or call.request.period != window.number:
            return False
        nodes = probe_nodes(call.request.calldata)
        rows = self.uow.nodes.named(nodes)
        drawn = set(active_draws_in(self.uow).values())
        able = all(node in rows and self._is_able(rows[node], drawn) for node in nodes)
        return able and is_probe_due(rows[nodes[0]], window)

    def _is_able(self, node: Node, drawn: set[Address]) -> bool:
        return (
            node.address not in drawn
            and unavailability_reason(node, self.time, self.rules) is None
        )


def probe_state_of(
    uow: UnitOfWork, settings: DispatchSettings, told: ProbeSettings | None
) -> ProbeState | None:
    """Return the network as of the cursor, or None if there are no system tasks."""
    cursor = uow.cursor.get()
    if told is None or cursor is None:
        return None
    return ProbeState(uow, cursor.time, settings.rules, told)


def calls_since(uow: UnitOfWork, account: Account, window: int) -> list[Intent]:
    """Return every `probe` call of this window and later ones."""
    return uow.outbox.intents.of_periods(account, PROBE, window)


def ends_wanted(
    uow: UnitOfWork, calls: Sequence[Intent], creator: Address, time: int
) -> Mapping[str, str]:
    """Return, by subject, the calldata of every due end of the tasks of these calls."""
    wanted: dict[str, str] = {}
    for call in calls:
        if _counts(call):
            keys = probe_keys(_input(call), creator)
            rows = uow.tasks.named(keys)
            tasks = [rows[key] for key in keys if key in rows]
            if len(tasks) == len(keys):
                wanted.update(_ends_of(call, tasks, creator, time))
    return wanted


def _ends_of(
    call: Intent, tasks: Sequence[Task], creator: Address, time: int
) -> Iterator[tuple[str, str]]:
    open_ = [task for task in tasks if task.ending is None]
    late = [task for task in open_ if _is_late(task, tasks, time)]
    for task in late:
        yield _subject(task.key), time_out_call(task.key)
    if late or not open_:
        return
    if tasks[0].group is None:
        if tasks[0].stopped_at is not None:
            end = accept_error_call if tasks[0].error_reported else validate_probe_call
            yield _subject(tasks[0].key), end(tasks[0].key)
    elif all(_is_shown(task) for task in tasks):
        yield f"group={tasks[0].group}", compare_probe_call(_input(call), creator)


def _is_late(task: Task, fellows: Sequence[Task], time: int) -> bool:
    """Return whether the task's node missed the deadline for its answer or for its reveal."""
    if task.stopped_time is None:
        return time > (task.started_time or 0) + (task.timeout or 0)
    settled = [one.stopped_time or one.ended_time for one in fellows]
    if _is_shown(task) or task.group is None:
        return False
    last = [at for at in settled if at is not None]
    return len(last) == len(settled) and time > max(last) + _LEAST_REVEAL


def _is_shown(task: Task) -> bool:
    is_answer_known = task.revealed_at is not None or task.error_reported
    return is_answer_known or task.ending is not None


def _affordable(probes: Sequence[Probe], tasks: int) -> Iterator[Probe]:
    """Yield probes, in order, while their tasks fit the limit; stop at the first that does not."""
    for probe in probes:
        tasks -= len(probe.nodes)
        if tasks < 0:
            return
        yield probe


def _counts(call: Intent) -> bool:
    return call.state not in _WITHOUT_EFFECT


def _input(call: Intent) -> str:
    return call.request.calldata


def _subject(task: TaskKey) -> str:
    return f"task={task}"
