"""The calls of the dispatcher: starts of drawn tasks, queue updates, and download requests.

A call that is no longer planned is never sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from typing_extensions import override

from oracle.bindings.expected_events import missing_effect
from oracle.bindings.task_network import (
    drop_call,
    drop_group_call,
    queue_call,
    request_download_call,
    start_as_of_call,
    start_call,
    start_group_call,
    without_as_of,
)
from oracle.chain.heads import Heads
from oracle.dispatch.assigner import StoredNetworkView, active_draws_in
from oracle.dispatch.dispatch_settings import DispatchSettings
from oracle.dispatch.downloads import wanted_downloads
from oracle.dispatch.drawer import queue_at
from oracle.dispatch.probe_settings import ProbeSettings
from oracle.dispatch.results_folder import ResultsFolder
from oracle.domain.ids import GroupKey, Hash, TaskKey
from oracle.domain.state.node import Membership
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState
from oracle.store.state.download_repository import PlannedDownload
from oracle.store.state.draw_repository import StoredDraw
from oracle.systems.assignment import AssignmentPlan, queue_of
from oracle.systems.legacy.trio_line import age_of
from oracle.systems.waiting import capacity_for
from oracle.systems.waiting_line import Drop
from oracle.txmgr.call_registry import CallKind, CallStage, Decision
from oracle.txmgr.client.preflight import PreflightResult
from oracle.txmgr.client.receipt_quorum import Receipt
from oracle.txmgr.context import TxContext

# Kinds of these calls in the outbox.
START_TASK, START_GROUP = "start_task", "start_group"
QUEUE_TASK, DROP_TASK = "queue_task", "drop_task"
STARTS = frozenset({START_TASK, START_GROUP})
REQUEST_DOWNLOAD = "request_download"
# The reason for ending a call of the dispatcher.
NOT_WANTED = "overtaken(the draw, the place in the queue, or the want of a model is no longer so)"
# Priorities: starts come first, then drops from the queue, then queue notices, then downloads for
# later tasks.
_START, _DROP, _QUEUE, _DOWNLOAD = 100, 150, 200, 250
# An old and final seed block needs no check; its hash may be out of the contract's reach.
_CHECKED_BLOCKS = 200
# Percent of the budget kept for starts, so that queue spam or invented models cannot use it up.
_KEPT_FOR_STARTS = 50


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """An account with the dispatch settings: the policy and the size of the queue.

    `probing` None: no system task is created. `results` None: results that the chain does not hold
    are unknown.
    """

    tx: TxContext
    settings: DispatchSettings
    probing: ProbeSettings | None = None
    results: ResultsFolder | None = None
    # By kind of call, the hash of the block at which its planner last checked the network.
    checked_at: dict[str, Hash] = field(default_factory=dict)


class CallKey(NamedTuple):
    """The identity of a dispatcher call; `subject` identifies it permanently."""

    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class Want:
    """A call that is valid now, with the tasks it concerns.

    `draws`: the draws that the call starts, for a group in the order of its tasks, all by one seed
    block. `download`: the node and the model of a download request.
    """

    about: CallKey
    tasks: tuple[TaskKey, ...]
    priority: int
    draws: tuple[StoredDraw, ...] = ()
    download: PlannedDownload | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether no second such call may be ready, because each call has a cost or an effect."""
        return bool(self.draws) or self.download is not None


def wanted_now(uow: UnitOfWork, settings: DispatchSettings) -> Mapping[CallKey, Want]:
    """Return the calls that are valid at the cursor, the most urgent first."""
    wants = (*_starts(uow, settings), *_about_the_queue(uow, settings), *_downloads(uow))
    return {want.about: want for want in wants}


def key_of(call: Intent) -> CallKey:
    """Return the key of a call."""
    return CallKey(call.request.kind, call.request.subject)


def _starts(uow: UnitOfWork, settings: DispatchSettings) -> Iterator[Want]:
    active = uow.draws.active()
    if settings.trios is not None:
        yield from _group_starts(uow, active)
        return
    for draw in active:
        about = CallKey(START_TASK, f"task={draw.task}:seed={draw.seed_hash}")
        yield Want(about, (draw.task,), _START, (draw,))


def _group_starts(uow: UnitOfWork, active: Sequence[StoredDraw]) -> Iterator[Want]:
    """Yield a start for each drawn group; all draws of a group are of one block."""
    tasks = uow.tasks.named({draw.task for draw in active})
    groups: dict[GroupKey, list[StoredDraw]] = {}
    for draw in sorted(active, key=lambda one: age_of(tasks[one.task])):
        group = tasks[draw.task].group
        if group is not None:
            groups.setdefault(group, []).append(draw)
    for group, draws in groups.items():
        about = CallKey(START_GROUP, f"group={group}:seed={draws[0].seed_hash}")
        yield Want(about, tuple(draw.task for draw in draws), _START, tuple(draws))


def _downloads(uow: UnitOfWork) -> Iterator[Want]:
    """Yield the download requests; a request of a reorged block keeps its key if still valid."""
    for each in wanted_downloads(uow):
        # The name comes from the chain and may hold characters that no database accepts.
        model = each.model.encode("unicode_escape").decode()
        about = CallKey(REQUEST_DOWNLOAD, f"node={each.node}:model={model}")
        yield Want(about, (each.task,), _DOWNLOAD, download=each)


def _about_the_queue(uow: UnitOfWork, settings: DispatchSettings) -> Iterator[Want]:
    """Yield notices of tasks without a free node, and drops of tasks beyond the queue's capacity.

    A group is dropped as a unit, unless a node was drawn for one of its tasks or runs one.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return
    drawn = active_draws_in(uow)
    waiting = queue_at(StoredNetworkView(uow), settings)
    queue = queue_of(waiting.line, AssignmentPlan(drawn, frozenset()), cursor.number)
    capacity = _capacity(uow, settings) if queue else 0
    overflow = [entry.task for entry in reversed(queue[capacity:])]
    dropped: set[TaskKey] = set()
    for drop in waiting.drops(overflow):
        if drawn.keys().isdisjoint(drop.tasks):
            dropped.update(drop.tasks)
            yield _want_drop(drop)
    for entry in queue[:capacity]:
        for task in entry.tasks:
            if not task.queued and task.key not in dropped:
                about = CallKey(QUEUE_TASK, f"task={task.key}")
                yield Want(about, (task.key,), _QUEUE)


def _capacity(uow: UnitOfWork, settings: DispatchSettings) -> int:
    counts = uow.nodes.counts().items()
    members = sum(many for (active, _, _), many in counts if active is Membership.MEMBER)
    return capacity_for(members, settings.alpha)


def _want_drop(drop: Drop) -> Want:
    subject = f"task={drop.tasks[0]}" if drop.group is None else f"group={drop.group}"
    return Want(CallKey(DROP_TASK, subject), drop.tasks, _DROP)


def calldata_of(want: Want, heads: Heads) -> str:
    """Return the calldata of a planned call.

    A start that checks its seed block gives way to a plain one when that block is final and old.
    """
    return _start_calldata(want, heads) if want.draws else _other_calldata(want)


def _other_calldata(want: Want) -> str:
    if want.download is not None:
        return request_download_call(want.download.node, want.download.model)
    if want.about.kind == QUEUE_TASK:
        return queue_call(want.tasks[0])
    is_group = want.about.subject.startswith("group=")
    return drop_group_call(want.tasks) if is_group else drop_call(want.tasks[0])


def _start_calldata(want: Want, heads: Heads) -> str:
    seed, nodes = want.draws[0], [draw.node for draw in want.draws]
    is_old = heads.latest.number - seed.seed_block > _CHECKED_BLOCKS
    if is_old and seed.seed_block <= heads.final.number:
        if want.about.kind == START_GROUP:
            return start_group_call(want.tasks, nodes)
        return start_call(seed.task, seed.node)
    as_of = (seed.seed_block, seed.seed_hash)
    if want.about.kind == START_GROUP:
        return start_group_call(want.tasks, nodes, *as_of)
    return start_as_of_call(seed.task, seed.node, *as_of)


class DispatcherCall(CallKind):
    """A call of the dispatcher. A refused call waits a block, as the index may lag the contract.

    Once the index has caught up, the call is no longer planned. A call that ended at the refusal
    would be planned again at once, over and over.
    """

    def __init__(self, context: DispatchContext) -> None:
        self._context = context

    @override
    def still_wanted_all(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads, stage: CallStage
    ) -> Sequence[Decision]:
        """Decide on all calls together, so that the plan is read once."""
        if stage in {CallStage.WAIT, CallStage.ASSIGN}:
            return [Decision.go()] * len(calls)
        if not self._context.tx.is_at_head(uow, heads):
            behind = ("behind", "the database is behind the head")
            return [Decision.wait_a_block(heads, behind)] * len(calls)
        return self._decide_at_head(uow, calls, heads)

    def _decide_at_head(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads
    ) -> Sequence[Decision]:
        """Return a decision for each call, with the index at the head of the chain."""
        raise NotImplementedError

    @override
    def on_refused(self, call: Intent, result: PreflightResult, heads: Heads) -> Decision:
        name = "" if result.refusal is None else result.refusal.name
        return Decision.wait_a_block(heads, (name or "unknown", result.reason))

    @override
    def missing_effect(self, receipt: Receipt, call: Intent) -> str | None:
        return missing_effect(
            receipt, call.request.contract, call.request.calldata, call.request.digest
        )


class _DispatchCall(DispatcherCall):
    """A call about queued tasks, valid while the current plan contains the same call."""

    @override
    def _decide_at_head(
        self, uow: UnitOfWork, calls: Sequence[Intent], heads: Heads
    ) -> Sequence[Decision]:
        wanted = {want.about: want for want in self._wants(uow)}
        return [_as_wanted(one, wanted, heads) for one in calls]

    def _wants(self, uow: UnitOfWork) -> Iterator[Want]:
        """Yield the planned calls of this kind, and possibly of others."""
        return _about_the_queue(uow, self._context.settings)


class StartCall(_DispatchCall):
    """The start of a task on the node that was drawn for it."""

    name = START_TASK

    @override
    def _wants(self, uow: UnitOfWork) -> Iterator[Want]:
        return _starts(uow, self._context.settings)

    @override
    def calldata_to_try(self, call: Intent, heads: Heads) -> str:
        """Return the calldata to simulate; a start as of the newest block omits its check."""
        request = call.request
        is_newest = request.as_of_block is not None and request.as_of_block >= heads.latest.number
        return without_as_of(request.calldata) if is_newest else request.calldata


class StartGroupCall(StartCall):
    """The start of all three tasks of a legacy group, in one transaction or not at all."""

    name = START_GROUP


class QueueCall(_DispatchCall):
    """The notice that no node is free for a task."""

    name = QUEUE_TASK
    reserve_share = _KEPT_FOR_STARTS


class DropCall(_DispatchCall):
    """The removal of a task or of a group from the queue, which has no room for it."""

    name = DROP_TASK
    reserve_share = _KEPT_FOR_STARTS


class DownloadCall(_DispatchCall):
    """A request to a node to download a model."""

    name = REQUEST_DOWNLOAD
    reserve_share = _KEPT_FOR_STARTS

    @override
    def _wants(self, uow: UnitOfWork) -> Iterator[Want]:
        return _downloads(uow)


def _as_wanted(call: Intent, wanted: Mapping[CallKey, Want], heads: Heads) -> Decision:
    want = wanted.get(key_of(call))
    if want is not None and call.request.calldata == calldata_of(want, heads):
        return Decision.go()
    return Decision.end(IntentState.SUPERSEDED, NOT_WANTED)
