"""The events of a network, one class each (docs/reference/events-and-jsonl.md#vocabulary).

The docstring of a class is the meaning of its event in that table (`make events`).
Each event stands at its position and carries its block's time in whole seconds, and in
milliseconds where its source knows them (docs/reference/events-and-jsonl.md#position-and-time).
Amounts are in wei, video memory in whole GB.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from oracle.domain.events.event_fields import (
    Count,
    Flag,
    GroupId,
    NodeAddress,
    RoundPlace,
    Seconds,
    TaskId,
    TaskIds,
    Text,
    Texts,
    VersionTriple,
    WeiAmount,
    WholeGigabytes,
    enum_kind,
)
from oracle.domain.events.timed_event import TimedEvent

Version = tuple[int, int, int]


class TaskKind(StrEnum):
    SD = "sd"
    LLM = "llm"
    SD_FT = "sd_ft"


class AbortReason(StrEnum):
    NONE = "none"
    TIMEOUT = "timeout"
    MODEL_DOWNLOAD_FAILED = "model_download_failed"
    INCORRECT_RESULT = "incorrect_result"
    FEE_TOO_LOW = "fee_too_low"
    CANCELLED = "cancelled"
    GROUP_TIMEOUT = "group_timeout"
    ERROR_REPORTED = "error_reported"
    CREATOR_VALIDATION_TIMEOUT = "creator_validation_timeout"
    RESULT_UPLOAD_TIMEOUT = "result_upload_timeout"
    UNKNOWN = "unknown"


class LastStatus(StrEnum):
    CREATED = "created"
    QUEUED = "queued"
    STARTED = "started"
    SUBMITTED = "submitted"
    ERROR_REPORTED = "error_reported"
    VALIDATED = "validated"


TaskKindField = Annotated[TaskKind, enum_kind(TaskKind)]
AbortReasonField = Annotated[AbortReason, enum_kind(AbortReason)]
LastStatusField = Annotated[LastStatus, enum_kind(LastStatus)]


@dataclass(frozen=True, slots=True)
class NodeJoined(TimedEvent):
    """A node joins, or joins again."""

    node: NodeAddress
    stake: WeiAmount | None = None
    gpu_name: Text | None = None
    gpu_vram: WholeGigabytes | None = None
    version: VersionTriple | None = None
    models: Texts | None = None
    timeout: Seconds | None = None


@dataclass(frozen=True, slots=True)
class NodeUpdated(TimedEvent):
    """The node changed what it says of itself; only the fields that changed are there."""

    node: NodeAddress
    stake: WeiAmount | None = None
    gpu_name: Text | None = None
    gpu_vram: WholeGigabytes | None = None
    version: VersionTriple | None = None
    models: Texts | None = None
    timeout: Seconds | None = None


@dataclass(frozen=True, slots=True)
class ModelAdded(TimedEvent):
    """The model is on the node's disk from now on."""

    node: NodeAddress
    model: Text


@dataclass(frozen=True, slots=True)
class DownloadRequested(TimedEvent):
    """The node is asked to download the model, and by nobody again before `until` (unix time)."""

    # See docs/explanation/dispatch.md#pre-download; `ModelAdded` answers it.
    node: NodeAddress
    model: Text
    until: Seconds


@dataclass(frozen=True, slots=True)
class NodePaused(TimedEvent):
    """The node takes no more tasks."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeResumed(TimedEvent):
    """The node takes tasks again."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeQuit(TimedEvent):
    """The node's membership ends at its own request."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodePauseAsked(TimedEvent):
    """The pause takes effect at once, or where the task ends that the node runs."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeQuitAsked(TimedEvent):
    """The quit takes effect at once, or where the task ends that the node runs."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeSlashed(TimedEvent):
    """The node's stake is taken and its membership ends."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeKickedOut(TimedEvent):
    """The network ends the node's membership."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class TaskCreated(TimedEvent):
    """A creator asks for a task.

    `required_gpu` is "" if any card will do. `group`, and how many tasks it has in the end
    (`group_size`), are there only if the chain reports them at creation.
    """

    task: TaskId
    creator: NodeAddress | None = None
    fee: WeiAmount | None = None
    min_vram: WholeGigabytes | None = None
    required_gpu: Text | None = None
    required_gpu_vram: WholeGigabytes | None = None
    models: Texts | None = None
    version: VersionTriple | None = None
    size: Count | None = None
    kind: TaskKindField | None = None
    timeout: Seconds | None = None
    group: GroupId | None = None
    group_size: Count | None = None


@dataclass(frozen=True, slots=True)
class TaskQueued(TimedEvent):
    """No node was free for the task."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskStarted(TimedEvent):
    """The node's execution clock starts.

    `round` is its place in the task, only in networks that commit and disclose.
    """

    task: TaskId
    node: NodeAddress
    round: RoundPlace | None = None


@dataclass(frozen=True, slots=True)
class TaskSubmitted(TimedEvent):
    """The result is in, or committed to; the clock stops.

    `frees` is true if the node may have another task from then on; else it is busy until the
    task ends.
    """

    task: TaskId
    node: NodeAddress
    frees: Flag | None = None


@dataclass(frozen=True, slots=True)
class TaskErrorReported(TimedEvent):
    """The node reports that the task cannot be run, also after a commitment.

    The report ranks last (docs/reference/scoring-rules.md#task-groups). `frees` is as in
    `task_submitted`.
    """

    task: TaskId
    node: NodeAddress
    frees: Flag | None = None


@dataclass(frozen=True, slots=True)
class ResultCommitted(TimedEvent):
    """The node commits to a result: the first round of networks that commit and disclose."""

    task: TaskId
    node: NodeAddress


@dataclass(frozen=True, slots=True)
class ResultDisclosed(TimedEvent):
    """The node discloses its result: the second round; elsewhere the submitted result is shown."""

    task: TaskId
    node: NodeAddress


@dataclass(frozen=True, slots=True)
class TaskValidated(TimedEvent):
    """The result was accepted, alone or in its group."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class FeeShared(TimedEvent):
    """The node gets `fee` wei of its group's fee for its task, before the task ends."""

    task: TaskId
    node: NodeAddress
    fee: WeiAmount


@dataclass(frozen=True, slots=True)
class TaskSucceeded(TimedEvent):
    """The task ends: its node is paid."""

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class TaskRefunded(TimedEvent):
    """The task ends: its result matched those of its group, and its fee is refunded."""

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class TaskInvalidated(TimedEvent):
    """The task ends: its result is wrong."""

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class TaskAborted(TimedEvent):
    """The task ends without a result, and its node is not to blame."""

    task: TaskId
    node: NodeAddress | None = None
    reason: AbortReasonField | None = None
    last_status: LastStatusField | None = None


@dataclass(frozen=True, slots=True)
class TaskTimedOut(TimedEvent):
    """The task ends: its node did not answer in time."""

    task: TaskId
    node: NodeAddress | None = None
    last_status: LastStatusField | None = None


@dataclass(frozen=True, slots=True)
class TaskCancelled(TimedEvent):
    """Time ran out; the record of the task decides who is to blame, if anybody.

    Without `node` it ends a task that nobody has started, and no other
    (docs/decisions/0078-commit-disclose-networks-blame.md).
    """

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class GroupValidated(TimedEvent):
    """The members of a validation group, in the chain's order.

    `ranked`: true if they are in the order in which they finished, and no time is compared.
    `invalid`: the members whose result is wrong, if the source reports it. `derived`: the
    members of `tasks` that no source names, found by what is around. `possible`: timed-out
    tasks of which one may be a member, and bring no score
    (docs/explanation/feed.md#silent-members).
    """

    group: GroupId
    tasks: TaskIds
    ranked: Flag | None = None
    invalid: TaskIds | None = None
    derived: TaskIds | None = None
    possible: TaskIds | None = None


NodeEvent = (
    NodeJoined
    | NodeUpdated
    | ModelAdded
    | DownloadRequested
    | NodePaused
    | NodeResumed
    | NodeQuit
    | NodePauseAsked
    | NodeQuitAsked
    | NodeSlashed
    | NodeKickedOut
)
TaskEvent = (
    TaskCreated
    | TaskQueued
    | TaskStarted
    | TaskSubmitted
    | TaskErrorReported
    | ResultCommitted
    | ResultDisclosed
    | TaskValidated
    | FeeShared
    | TaskSucceeded
    | TaskRefunded
    | TaskInvalidated
    | TaskAborted
    | TaskTimedOut
    | TaskCancelled
)
DomainEvent = NodeEvent | TaskEvent | GroupValidated
