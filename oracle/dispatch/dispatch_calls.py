"""Plans and reviews the dispatcher's calls: task starts, queue updates and downloads.

A call that is no longer planned is never sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from oracle.bindings.expected_events import ContractCall
from oracle.bindings.task_network import (
    encode_drop_group_call,
    encode_drop_task_call,
    encode_queue_task_call,
    encode_request_download_call,
    encode_start_group_call,
    encode_start_task_as_of_call,
    encode_start_task_call,
    remove_as_of_block_check,
)
from oracle.chain.heads import Heads
from oracle.dispatch.assigner import StoredNetworkView, load_active_draws
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.downloads import find_pending_downloads
from oracle.dispatch.drawer import load_queue_view
from oracle.dispatch.probe_wants import ProbeSettings
from oracle.dispatch.results_folder import ResultsFolder
from oracle.domain.ids import GroupKey, Hash, TaskKey
from oracle.domain.state import Membership
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    DROP_TASK,
    QUEUE_TASK,
    REQUEST_DOWNLOAD,
    START_GROUP,
    START_TASK,
    Account,
    CallRequest,
    Intent,
    IntentState,
)
from oracle.store.state.cursor_repository import Cursor
from oracle.store.state.draw_repository import PlannedDownload, StoredDraw
from oracle.systems.assignment import AssignmentPlan, filter_queued_items
from oracle.systems.legacy.trio_line import get_age_sort_key
from oracle.systems.task_queue import compute_queue_capacity
from oracle.txmgr.call_registry import CallStage, Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.context import AccountContext, StepResult, format_name_counts
from oracle.txmgr.deferral import find_held_subjects

STARTS = frozenset({START_TASK, START_GROUP})
# The reason stored when a call of the dispatcher is superseded.
NOT_PLANNED_REASON = (
    "overtaken(the draw, the place in the queue, or the want of a model is no longer so)"
)
# Lower numbers are sent first. The order is starts, drops from the queue, queue notices, and
# finally downloads for later tasks.
_START_PRIORITY, _DROP_PRIORITY, _QUEUE_PRIORITY, _DOWNLOAD_PRIORITY = 100, 150, 200, 250
# A final seed block more than this many blocks below the head is not checked, because the contract
# may no longer be able to read its hash.
_SEED_CHECK_BLOCKS = 200
# The percentage of the budget reserved for starts, so that a flood of queued tasks or made-up
# models cannot use it up.
_RESERVE_PERCENT = 50


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """The dispatcher's account, and settings such as the policy and the queue size.

    If `probing` is None, no system tasks are created. If `results` is None, only the results on
    chain are known.
    """

    account_context: AccountContext
    settings: DispatchSettings
    probing: ProbeSettings | None = None
    results: ResultsFolder | None = None
    # For each kind of call, the head block at which its planner last checked the network.
    checked_at: dict[str, Hash] = field(default_factory=dict)

    def get_cursor_unless_checked(self, uow: UnitOfWork, heads: Heads, kind: str) -> Cursor | None:
        """Return the cursor if calls of `kind` must be checked at it.

        The result is None if the index is behind the head, or if the calls were already checked at
        this block.
        """
        cursor = uow.cursor.get()
        if cursor is None or not self.account_context.is_at_head(uow, heads):
            return None
        return None if self.checked_at.get(kind) == cursor.hash else cursor


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that is valid at the cursor, with the tasks it is about.

    Equal calls have the same `kind` and `subject` at any time. `draws` holds the draws of the
    tasks that the call starts; the draws of a group are in the order of its tasks and have the
    same seed block. `download` is the node and the model of a download request.
    """

    kind: str
    subject: str
    tasks: tuple[TaskKey, ...]
    priority: int
    draws: tuple[StoredDraw, ...] = ()
    download: PlannedDownload | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The kind and subject of the call, in the form returned by `get_call_key`."""
        return self.kind, self.subject

    @property
    def is_exclusive(self) -> bool:
        """Whether only one such call may be ready, because it has a cost or an effect."""
        return bool(self.draws) or self.download is not None


def build_planned_calls(
    uow: UnitOfWork, settings: DispatchSettings
) -> Mapping[tuple[str, str], PlannedCall]:
    """Return the calls that are valid at the cursor, most urgent first."""
    planned_calls = (
        *_plan_task_starts(uow, settings),
        *_plan_queue_notices_and_drops(uow, settings),
        *_plan_download_requests(uow),
    )
    return {planned_call.key: planned_call for planned_call in planned_calls}


def get_call_key(call: Intent) -> tuple[str, str]:
    """Return the kind and subject of a call, which are the same for equal calls."""
    return call.request.kind, call.request.subject


def find_pending_call_keys(uow: UnitOfWork, account: Account) -> set[tuple[str, str]]:
    """Return the keys of calls that are unfinished or held by the operator."""
    unfinished_intents = uow.outbox.intents.list_unfinished(account)
    return {get_call_key(intent) for intent in unfinished_intents} | find_held_subjects(
        uow, account
    )


def enqueue_calls(
    context: DispatchContext, action: str, requests: Sequence[CallRequest]
) -> StepResult | None:
    """Store each call as a planned intent.

    The result is None if there are no calls.
    """
    if not requests:
        return None
    stamp = context.account_context.stamp
    with context.account_context.write_transaction() as uow:
        intent_ids = [uow.outbox.intents.add_next_try(request, stamp) for request in requests]
    return StepResult(
        action, intent_ids[0], format_name_counts([request.kind for request in requests])
    )


def _plan_task_starts(uow: UnitOfWork, settings: DispatchSettings) -> Iterator[PlannedCall]:
    active_draws = uow.draws.list_active()
    if settings.legacy_policy is not None:
        yield from _plan_group_starts(uow, active_draws)
        return
    for draw in active_draws:
        subject = f"task={draw.task}:seed={draw.seed_hash}"
        yield PlannedCall(START_TASK, subject, (draw.task,), _START_PRIORITY, (draw,))


def _plan_group_starts(
    uow: UnitOfWork, active_draws: Sequence[StoredDraw]
) -> Iterator[PlannedCall]:
    """Yield a start call for each drawn group.

    All draws of a group were made at the same block.
    """
    tasks = uow.tasks.get_many({draw.task for draw in active_draws})
    draws_by_group: dict[GroupKey, list[StoredDraw]] = {}
    for draw in sorted(
        active_draws, key=lambda active_draw: get_age_sort_key(tasks[active_draw.task])
    ):
        group = tasks[draw.task].group
        if group is not None:
            draws_by_group.setdefault(group, []).append(draw)
    for group, draws in draws_by_group.items():
        subject = f"group={group}:seed={draws[0].seed_hash}"
        drawn_tasks = tuple(draw.task for draw in draws)
        yield PlannedCall(START_GROUP, subject, drawn_tasks, _START_PRIORITY, tuple(draws))


def _plan_download_requests(uow: UnitOfWork) -> Iterator[PlannedCall]:
    """Yield a call for each pending download.

    A reorg does not change the subject of the call.
    """
    for download in find_pending_downloads(uow):
        # A model's name comes from the chain and may contain characters that databases reject.
        model = download.model.encode("unicode_escape").decode()
        subject = f"node={download.node}:model={model}"
        yield PlannedCall(
            REQUEST_DOWNLOAD, subject, (download.task,), _DOWNLOAD_PRIORITY, download=download
        )


def _plan_queue_notices_and_drops(
    uow: UnitOfWork, settings: DispatchSettings
) -> Iterator[PlannedCall]:
    """Yield calls for queued tasks without a free node, and for tasks beyond the capacity.

    A group is dropped as a whole, but not while a node runs a task of the group, or was drawn for
    a task of the group.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return
    active_draws = load_active_draws(uow)
    queue_view = load_queue_view(StoredNetworkView(uow), settings)
    queue = filter_queued_items(
        queue_view.items, AssignmentPlan(active_draws, frozenset()), cursor.number
    )
    capacity = _compute_queue_capacity(uow, settings) if queue else 0
    overflow_tasks = [entry.task for entry in reversed(queue[capacity:])]
    dropped_keys: set[TaskKey] = set()
    for drop in queue_view.find_queue_drops(overflow_tasks):
        if active_draws.keys().isdisjoint(drop.tasks):
            dropped_keys.update(drop.tasks)
            subject = f"task={drop.tasks[0]}" if drop.group is None else f"group={drop.group}"
            yield PlannedCall(DROP_TASK, subject, drop.tasks, _DROP_PRIORITY)
    for entry in queue[:capacity]:
        for task in entry.tasks:
            if not task.queued and task.key not in dropped_keys:
                yield PlannedCall(QUEUE_TASK, f"task={task.key}", (task.key,), _QUEUE_PRIORITY)


def _compute_queue_capacity(uow: UnitOfWork, settings: DispatchSettings) -> int:
    counts = uow.nodes.count_by_state().items()
    member_count = sum(
        count for (membership, _, _), count in counts if membership is Membership.MEMBER
    )
    return compute_queue_capacity(member_count, settings.alpha)


def build_calldata(planned_call: PlannedCall, heads: Heads) -> str:
    """Build the calldata of a planned call.

    A start checks its seed block on chain, unless this block is final and old.
    """
    if planned_call.draws:
        return _build_start_calldata(planned_call, heads)
    return _build_non_start_calldata(planned_call)


def _build_non_start_calldata(planned_call: PlannedCall) -> str:
    if planned_call.download is not None:
        return encode_request_download_call(
            planned_call.download.node, planned_call.download.model
        )
    if planned_call.kind == QUEUE_TASK:
        return encode_queue_task_call(planned_call.tasks[0])
    is_group = planned_call.subject.startswith("group=")
    if is_group:
        return encode_drop_group_call(planned_call.tasks)
    return encode_drop_task_call(planned_call.tasks[0])


def _build_start_calldata(planned_call: PlannedCall, heads: Heads) -> str:
    first_draw = planned_call.draws[0]
    nodes = [draw.node for draw in planned_call.draws]
    is_seed_too_old = heads.latest.number - first_draw.seed_block > _SEED_CHECK_BLOCKS
    if is_seed_too_old and first_draw.seed_block <= heads.final.number:
        if planned_call.kind == START_GROUP:
            return encode_start_group_call(planned_call.tasks, nodes)
        return encode_start_task_call(first_draw.task, first_draw.node)
    seed_block_and_hash = (first_draw.seed_block, first_draw.seed_hash)
    if planned_call.kind == START_GROUP:
        return encode_start_group_call(planned_call.tasks, nodes, *seed_block_and_hash)
    return encode_start_task_as_of_call(first_draw.task, first_draw.node, *seed_block_and_hash)


class DispatcherCall(ContractCall):
    """A call of the dispatcher that, when refused by the contract, waits for the next block.

    The index may lag behind the contract; once the index has caught up, the refused call is no
    longer planned. If a refusal ended the call instead, the same call would be planned again and
    again.
    """

    def __init__(self, context: DispatchContext) -> None:
        self._context = context

    @override
    def review_calls(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads, stage: CallStage
    ) -> Sequence[Decision]:
        """Decide on all calls at once, so that the plan is computed only once."""
        if stage in {CallStage.WAIT, CallStage.ASSIGN}:
            return [Decision.proceed()] * len(calls)
        if not self._context.account_context.is_at_head(uow, heads):
            behind_reason = ("behind", "the database is behind the head")
            return [Decision.wait_for_next_block(heads, behind_reason)] * len(calls)
        return self._decide_at_head(uow, calls, heads)

    def _decide_at_head(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads
    ) -> Sequence[Decision]:
        """Decide on each call, given an index that has caught up with the head."""
        raise NotImplementedError

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        name = "" if result.refusal is None else result.refusal.name
        return Decision.wait_for_next_block(heads, (name or "unknown", result.reason))


class _QueuedTaskCall(DispatcherCall):
    """A call about queued tasks, which is valid as long as the current plan contains it."""

    @override
    def _decide_at_head(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads
    ) -> Sequence[Decision]:
        call_by_key = {planned_call.key: planned_call for planned_call in self._plan_calls(uow)}
        return [_decide_on_planned_call(call, call_by_key, heads) for call in calls]

    def _plan_calls(self, uow: UnitOfWork) -> Iterator[PlannedCall]:
        """Yield planned calls of this kind, and possibly of other kinds."""
        return _plan_queue_notices_and_drops(uow, self._context.settings)


class StartCall(_QueuedTaskCall):
    """Starts a task on the node that was drawn for it."""

    name = START_TASK

    @override
    def _plan_calls(self, uow: UnitOfWork) -> Iterator[PlannedCall]:
        return _plan_task_starts(uow, self._context.settings)

    @override
    def build_simulation_calldata(self, call: Intent, heads: Heads) -> str:
        """Build the calldata to simulate.

        The as-of check is left out if the seed block is the newest block.
        """
        request = call.request
        is_newest = request.as_of_block is not None and request.as_of_block >= heads.latest.number
        return remove_as_of_block_check(request.calldata) if is_newest else request.calldata


class StartGroupCall(StartCall):
    """Starts the three tasks of a legacy group in one transaction."""

    name = START_GROUP


class QueueCall(_QueuedTaskCall):
    """Notifies the contract that no node is free for a task."""

    name = QUEUE_TASK
    reserve_share = _RESERVE_PERCENT


class DropCall(_QueuedTaskCall):
    """Removes a task or a group from the queue, for example because the queue is full."""

    name = DROP_TASK
    reserve_share = _RESERVE_PERCENT


class DownloadCall(_QueuedTaskCall):
    """Requests that a node download a model."""

    name = REQUEST_DOWNLOAD
    reserve_share = _RESERVE_PERCENT

    @override
    def _plan_calls(self, uow: UnitOfWork) -> Iterator[PlannedCall]:
        return _plan_download_requests(uow)


def _decide_on_planned_call(
    call: Intent, call_by_key: Mapping[tuple[str, str], PlannedCall], heads: Heads
) -> Decision:
    planned_call = call_by_key.get(get_call_key(call))
    if planned_call is not None and call.request.calldata == build_calldata(planned_call, heads):
        return Decision.proceed()
    return Decision.end(IntentState.SUPERSEDED, NOT_PLANNED_REASON)
