"""The state of nodes, tasks, task runs and task groups.

A node has a membership, hardware, a score pool and a reliability. The members of a group have
ranks and task scores. See docs/reference/events-and-jsonl.md#what-is-legal and
docs/reference/scoring-rules.md#task-groups.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason, TaskKind, Version
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, GroupKey, TaskKey


class Membership(StrEnum):
    """The membership state of a node.

    Only a member has a QoS.
    """

    UNKNOWN = "unknown"
    MEMBER = "member"
    QUIT = "quit"
    SLASHED = "slashed"
    KICKED_OUT = "kicked_out"


class PendingLeave(StrEnum):
    """A request of a node to pause or quit when its current task ends."""

    PAUSE = "pause"
    QUIT = "quit"


class DownloadRequest(NamedTuple):
    """A request to a node to download a model.

    The request is not repeated before `until`. Times are block times in seconds. The request is
    fulfilled once the model is on the node's disk.
    """

    model: str
    requested_at: int
    until: int


# Budgets are per day, so requests are kept for a day.
DOWNLOAD_HISTORY_SECONDS = 86_400


@dataclass(slots=True)
class Node:
    """The state of one node.

    Only the fold changes the node. `seat` is the node's number for life: nodes are numbered from 0
    in the order in which events first named them, and a number is never reused. It is the index of
    the node's leaf in the tree of a round (docs/reference/report-format.md#roots).

    `pool` holds the last task scores, oldest first, one byte each (rules refuse scores above 255),
    and `pool_sum` is their sum. `scored` is the number of all task scores of the node so far. The
    reliability was `base`, in units of 10^-18, at the block time `since`
    (docs/reference/scoring-rules.md#reliability). `prior` is the long-term score of an empty pool,
    or None for the rules' default. `kickout_due_since` is the position at which the kickout became
    due, and `kickout_due_time` the block time of that position; both are None while it is not due.
    `last_scored_at` is the block time of the node's newest task score, or None before the first.
    `starts_anew` means that the node was kicked out while its kickout was due, and has not
    rejoined. `changed_at` is the block of the last change of this row. `pending` is the node's
    request that takes effect when its task ends. `last_start` is the block time of the node's last
    task start, or None before the first. `downloads` are the requests of the day up to the last
    request, oldest first.

    The five fields from `window` on are for the legacy system only
    (docs/explanation/legacy.md#scores). `window` is the number of the current window, and
    `window_sum` and `window_count` are sum and number of its task scores. `online_since` is the
    block time at which the membership or, if later, the window began; it is None for a non-member.
    `online_seconds` is the membership time in this window before `online_since`.
    """

    address: Address
    seat: int
    membership: Membership
    paused: bool
    # Number of tasks that the node is running. It exceeds 1 only within a transaction
    # (docs/reference/events-and-jsonl.md#what-is-legal).
    running: int
    stake: int | None
    gpu_name: str | None
    gpu_vram: int | None
    version: Version | None
    models: tuple[str, ...]
    in_use: tuple[str, ...]
    timeout: int | None
    pool: bytes
    pool_sum: int
    scored: int
    base: int
    since: int
    # True if the node is excluded. The value is stored only for rules with two thresholds.
    excluded: bool
    prior: int | None
    # Number of the rules' `restarts` that have been applied to this pool (relay only).
    restarts: int
    kickout_due_since: Position | None
    kickout_due_time: int | None
    last_scored_at: int | None
    starts_anew: bool
    changed_at: int
    window: int = 0
    window_sum: int = 0
    window_count: int = 0
    online_since: int | None = None
    online_seconds: int = 0
    pending: PendingLeave | None = None
    last_start: int | None = None
    downloads: tuple[DownloadRequest, ...] = ()


# Copying by position takes a fifth of the time of `dataclasses.replace`. This matters because the
# fold keeps a copy of every row that a block changes.
_get_node_values = attrgetter(*(field.name for field in fields(Node)))


def copy_node(node: Node) -> Node:
    """Return an independent copy of a node."""
    return Node(*_get_node_values(node))


def create_node(address: Address, seat: int, time: int, restarts: int) -> Node:
    """Create a node that is not a member and has reliability 1.

    Nothing else is known about the node.
    """
    return Node(
        address=address,
        seat=seat,
        membership=Membership.UNKNOWN,
        paused=False,
        running=0,
        stake=None,
        gpu_name=None,
        gpu_vram=None,
        version=None,
        models=(),
        in_use=(),
        timeout=None,
        pool=b"",
        pool_sum=0,
        scored=0,
        base=UNIT,
        since=time,
        excluded=False,
        prior=None,
        restarts=restarts,
        kickout_due_since=None,
        kickout_due_time=None,
        last_scored_at=None,
        starts_anew=False,
        changed_at=0,
    )


class Ending(StrEnum):
    SUCCEEDED = "succeeded"
    REFUNDED = "refunded"
    INVALIDATED = "invalidated"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"


class Run(NamedTuple):
    """A node's part in a task of a commit-and-disclose network.

    `round` is 0 to 2.
    """

    round: int
    node: Address
    started_at: Position
    started_time: int
    committed_at: Position | None = None
    disclosed_at: Position | None = None
    reported_at: Position | None = None
    ending: Ending | None = None

    @property
    def has_answered(self) -> bool:
        """Whether the node committed to a result or reported an error."""
        return self.committed_at is not None or self.reported_at is not None


@dataclass(slots=True)
class Task:
    """The state of one task.

    Only the fold changes the task. Times are block times in seconds. `created_at` is None if the
    creation was not seen. `node` is None if the task was not started, or was started by several
    nodes; in that case `runs` holds one run for each node, in order of start (commit/disclose
    networks only). `stopped_at` is the position of the submission, commitment or error report.
    `revealed_at` is the position at which the node revealed a committed answer. `freed` means that
    the node could take another task once it answered; otherwise it is busy until the end.
    `group_size` is the final number of tasks in the group, or None if unknown. `scored_in` is the
    group that scored the task, which happens once. `paid` is the node's share of the group's fee
    in wei, or None if the network reported none. `seen_at` and `changed_at` are the blocks of the
    first and the newest event that changed the task.
    """

    key: TaskKey
    created_at: Position | None
    creator: Address | None
    fee: int | None
    min_vram: int | None
    required_gpu: str | None
    required_gpu_vram: int | None
    models: tuple[str, ...]
    version: Version | None
    size: int | None
    kind: TaskKind | None
    timeout: int | None
    group: GroupKey | None
    queued: bool
    node: Address | None
    started_at: Position | None
    started_time: int | None
    stopped_at: Position | None
    stopped_time: int | None
    error_reported: bool
    revealed_at: Position | None
    validated: bool
    ending: Ending | None
    ended_at: Position | None
    ended_time: int | None
    abort_reason: AbortReason | None
    scored_in: GroupKey | None
    runs: tuple[Run, ...] = ()
    group_size: int | None = None
    freed: bool = False
    paid: int | None = None
    seen_at: int = 0
    changed_at: int = 0


_get_task_values = attrgetter(*(field.name for field in fields(Task)))


def copy_task(task: Task) -> Task:
    """Return an independent copy of a task."""
    return Task(*_get_task_values(task))


# Passing values by position takes a third of the time of passing them by name.
_NEW_TASK_VALUES = _get_task_values(
    Task(
        key=TaskKey(""),
        created_at=None,
        creator=None,
        fee=None,
        min_vram=None,
        required_gpu=None,
        required_gpu_vram=None,
        models=(),
        version=None,
        size=None,
        kind=None,
        timeout=None,
        group=None,
        queued=False,
        node=None,
        started_at=None,
        started_time=None,
        stopped_at=None,
        stopped_time=None,
        error_reported=False,
        revealed_at=None,
        validated=False,
        ending=None,
        ended_at=None,
        ended_time=None,
        abort_reason=None,
        scored_in=None,
    )
)[1:]


def create_task(key: TaskKey) -> Task:
    """Create a task of which only the key is known."""
    return Task(key, *_NEW_TASK_VALUES)


class GroupMember(NamedTuple):
    """A task of a closed group.

    `elapsed` is in seconds, or None without an answer. `rank` counts from 1 and is None for a task
    that is not ranked. `score` is None for a task that gives no score. In a scored group, this is
    a task that was never started, that is only possibly a member, or that has no rank and a limit
    that is not credible.
    """

    task: TaskKey
    node: Address | None
    rank: int | None
    elapsed: int | None
    score: int | None

    @property
    def is_possible_member(self) -> bool:
        """Whether it is uncertain that the task belongs to the group.

        This occurs only in scored groups of a feed.
        """
        return self.node is not None and self.score is None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A validation group at the time when it closed.

    `scored` is False if no member was ranked. The position identifies the result, because a chain
    may name a group twice (its tasks score only once).
    """

    group: GroupKey
    closed_at: Position
    time: int
    members: tuple[GroupMember, ...]
    scored: bool


@dataclass(slots=True)
class OpenGroup:
    """A group that closes once all its tasks have ended, with the tasks seen so far.

    The rules then have the close mode `terminal`. `closed` is True once the group was scored; a
    group is never reopened.
    """

    group: GroupKey
    tasks: tuple[TaskKey, ...]
    closed: bool


@dataclass(frozen=True, slots=True)
class LastEvent:
    """The newest applied event, and the number of nodes that events have named so far.

    Later events are compared with its time. The next new node gets the seat `node_count`.
    """

    at: Position
    time: int
    node_count: int
