"""Finds system tasks that are due, and running system tasks that should end.

Both are computed from the folded state at the cursor and from the calls in the outbox. The hash of
the block that opened a window determines when each node is due in the window. A bookmark stores
the block. A rewind below the block deletes the bookmark, and the block that then opens the window
is stored instead. See docs/explanation/dispatch.md#due-nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from typing_extensions import override

from oracle.bindings.probe_calls import (
    ProbeOrder,
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
from oracle.domain.blocks import BlockRef
from oracle.domain.ids import Address, Hash, TaskKey
from oracle.domain.reports.contract_state import ContractState
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.indexer.block_hooks import BlockHook
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    FAILED_STATES,
    PROBE,
    UNFINISHED_STATES,
    Account,
    Intent,
    IntentState,
    Stamp,
)
from oracle.systems.crynux.requirements import find_unavailability_reason
from oracle.systems.probing import Probe, ProbeWindow, is_idle_in_window, select_due_probes

# The value of the bookmark has the form "window seconds block hash".
_WINDOW_BOOKMARK = "probe_window"
# If a daemon missed more than this many blocks since the start of a window, it creates no system
# tasks until the next window.
_HEADER_DEPTH = 256
# The contract gives the nodes of a group at least this many seconds to reveal. The exact limit is
# known only once the call is simulated.
_MIN_REVEAL_SECONDS = 60
# A call in one of these states has not locked a fee.
_INEFFECTIVE_STATES = frozenset({*FAILED_STATES, IntentState.CANCELLED})


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The settings of `[probing]`.

    A member without a task for a whole window of `window_seconds` gets a system task.
    `max_fee_wei` is the maximum total of the fees that the tasks of a window may lock, including
    fees that are refunded later. With `group`, two other nodes with the same GPU do the same work,
    so that the task gets a score.
    """

    window_seconds: int
    max_fee_wei: int
    group: bool
    order: ProbeOrder

    def __post_init__(self) -> None:
        if self.window_seconds < 1 or self.order.fee < 1:
            raise ValueError("[probing]: window_seconds and fee_wei must be at least 1")

    def get_window_number(self, time: int) -> int:
        """Return the number of the probing window that contains a block time in seconds."""
        return time // self.window_seconds


class ProbeWindowHook(BlockHook):
    """Records the first block of each probing window as blocks are folded."""

    def __init__(self, settings: ProbeSettings | None) -> None:
        """Create the hook; a rewind clears an old window even without `settings`."""
        self._settings = settings
        self.header_depth = 0 if settings is None else _HEADER_DEPTH

    @override
    def select_stop_blocks(self, headers: Sequence[BlockRef], newest_block: int) -> list[BlockRef]:
        settings = self._settings
        if settings is None:
            return []
        return [
            header
            for previous_header, header in pairwise(headers)
            if settings.get_window_number(header.time)
            > settings.get_window_number(previous_header.time)
        ]

    @override
    def on_block(
        self, uow: UnitOfWork, contract_state: ContractState, block: BlockRef, final_number: int
    ) -> None:
        if self._settings is not None:
            seconds = self._settings.window_seconds
            bookmark_values = (
                self._settings.get_window_number(block.time),
                seconds,
                block.number,
                block.hash,
            )
            uow.bookmarks.set(_WINDOW_BOOKMARK, " ".join(map(str, bookmark_values)))

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        stored_window = uow.bookmarks.get(_WINDOW_BOOKMARK)
        if stored_window is not None and int(stored_window.split()[2]) > ancestor:
            uow.bookmarks.delete(_WINDOW_BOOKMARK)


def get_open_window(uow: UnitOfWork, settings: ProbeSettings, time: int) -> ProbeWindow | None:
    """Return the window that contains `time`, or None if its first block was not seen."""
    stored_window = uow.bookmarks.get(_WINDOW_BOOKMARK)
    if stored_window is None:
        return None
    number, seconds, _, seed_hash = stored_window.split()
    probe_window = ProbeWindow(int(number), int(seconds), Hash(seed_hash))
    is_open = probe_window.number == settings.get_window_number(time)
    return probe_window if is_open and probe_window.seconds == settings.window_seconds else None


@dataclass(frozen=True, slots=True)
class ProbeState:
    """The network's state at a block time, from which due system tasks are computed."""

    uow: UnitOfWork
    time: int
    rules: Rules
    settings: ProbeSettings

    def find_due_probes(self, calls: Sequence[Intent]) -> list[Probe]:
        """Return the system tasks of the open window that are due and not planned yet.

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
        reserved_nodes = busy_nodes | set(load_active_draws(self.uow).values())
        probes = select_due_probes(
            (node for node in self.uow.nodes.iterate_all() if node.address not in reserved_nodes),
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
        """Return whether a planned but unsent system task is still due."""
        window = get_open_window(self.uow, self.settings, self.time)
        if window is None or call.request.period != window.number:
            return False
        nodes = decode_probe_nodes(call.request.calldata)
        node_by_address = self.uow.nodes.get_many(nodes)
        drawn_nodes = set(load_active_draws(self.uow).values())
        are_available = all(
            node in node_by_address
            and self._is_available_for_probe(node_by_address[node], drawn_nodes)
            for node in nodes
        )
        return are_available and is_idle_in_window(node_by_address[nodes[0]], window)

    def _is_available_for_probe(self, node: Node, drawn_nodes: set[Address]) -> bool:
        return (
            node.address not in drawn_nodes
            and find_unavailability_reason(node, self.time, self.rules) is None
        )


def load_probe_state(
    uow: UnitOfWork, settings: DispatchSettings, probe_settings: ProbeSettings | None
) -> ProbeState | None:
    """Load the state at the cursor.

    The result is None if system tasks are off or nothing is indexed.
    """
    cursor = uow.cursor.get()
    if probe_settings is None or cursor is None:
        return None
    return ProbeState(uow, cursor.time, settings.rules, probe_settings)


def load_probe_calls(uow: UnitOfWork, account: Account, window: int) -> list[Intent]:
    """Return all `probe` calls of this and later windows."""
    return uow.outbox.intents.list_intents_from_period(account, PROBE, window)


def find_due_end_calls(
    uow: UnitOfWork, calls: Sequence[Intent], creator: Address, time: int
) -> Mapping[str, str]:
    """Return the calldata of each due call that ends the tasks of `calls`.

    The result maps the subject of a call to its calldata.
    """
    calldata_by_subject: dict[str, str] = {}
    for call in calls:
        if _is_call_effective(call):
            keys = compute_probe_task_keys(_get_calldata(call), creator)
            task_by_key = uow.tasks.get_many(keys)
            tasks = [task_by_key[key] for key in keys if key in task_by_key]
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
    """Return whether a task's node missed its deadline to answer or to reveal."""
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
    """Yield probes in order until their tasks would exceed the remaining number."""
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
