"""What contracts said, in our words, past tense (docs/reference/events-and-jsonl.md#vocabulary).

Each event stands at its position and carries its block's time in whole seconds, and in
milliseconds where its source knows them (docs/reference/events-and-jsonl.md#position-and-time).
Amounts are in wei, video memory in whole GB.
"""

from dataclasses import dataclass
from enum import StrEnum

from oracle.domain.events.download_events import DownloadRequested
from oracle.domain.events.payment_events import FeeShared
from oracle.domain.events.timed_event import TimedEvent
from oracle.domain.ids import Address, GroupKey, TaskKey

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


@dataclass(frozen=True, slots=True)
class NodeJoined(TimedEvent):
    node: Address
    stake: int | None = None
    gpu_name: str | None = None
    gpu_vram: int | None = None
    version: Version | None = None
    models: tuple[str, ...] | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class NodeUpdated(TimedEvent):
    node: Address
    stake: int | None = None
    gpu_name: str | None = None
    gpu_vram: int | None = None
    version: Version | None = None
    models: tuple[str, ...] | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class ModelAdded(TimedEvent):
    node: Address
    model: str


@dataclass(frozen=True, slots=True)
class NodePaused(TimedEvent):
    node: Address


@dataclass(frozen=True, slots=True)
class NodeResumed(TimedEvent):
    node: Address


@dataclass(frozen=True, slots=True)
class NodeQuit(TimedEvent):
    node: Address


@dataclass(frozen=True, slots=True)
class NodePauseAsked(TimedEvent):
    """Takes effect at once, or where the task ends that the node runs."""

    node: Address


@dataclass(frozen=True, slots=True)
class NodeQuitAsked(TimedEvent):
    """Takes effect at once, or where the task ends that the node runs."""

    node: Address


@dataclass(frozen=True, slots=True)
class NodeSlashed(TimedEvent):
    node: Address


@dataclass(frozen=True, slots=True)
class NodeKickedOut(TimedEvent):
    node: Address


@dataclass(frozen=True, slots=True)
class TaskCreated(TimedEvent):
    task: TaskKey
    creator: Address | None = None
    fee: int | None = None
    min_vram: int | None = None
    required_gpu: str | None = None
    required_gpu_vram: int | None = None
    models: tuple[str, ...] | None = None
    version: Version | None = None
    size: int | None = None
    kind: TaskKind | None = None
    timeout: int | None = None
    # Only where the chain says it at creation; and how many tasks the group has in the end.
    group: GroupKey | None = None
    group_size: int | None = None


@dataclass(frozen=True, slots=True)
class TaskQueued(TimedEvent):
    task: TaskKey


@dataclass(frozen=True, slots=True)
class TaskStarted(TimedEvent):
    task: TaskKey
    node: Address
    round: int | None = None  # its place in the task, 0 to 2, in commit/disclose networks only


@dataclass(frozen=True, slots=True)
class TaskSubmitted(TimedEvent):
    task: TaskKey
    node: Address
    frees: bool | None = None  # for another task, before this one ends


@dataclass(frozen=True, slots=True)
class TaskErrorReported(TimedEvent):
    task: TaskKey
    node: Address
    frees: bool | None = None  # as above


@dataclass(frozen=True, slots=True)
class ResultCommitted(TimedEvent):
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class ResultDisclosed(TimedEvent):
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class TaskValidated(TimedEvent):
    task: TaskKey


@dataclass(frozen=True, slots=True)
class TaskSucceeded(TimedEvent):
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskRefunded(TimedEvent):
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskInvalidated(TimedEvent):
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskAborted(TimedEvent):
    task: TaskKey
    node: Address | None = None
    reason: AbortReason | None = None
    last_status: LastStatus | None = None


@dataclass(frozen=True, slots=True)
class TaskTimedOut(TimedEvent):
    task: TaskKey
    node: Address | None = None
    last_status: LastStatus | None = None


@dataclass(frozen=True, slots=True)
class TaskCancelled(TimedEvent):
    """Time ran out; who is to blame, if anybody, follows from our record (`cancelling`).

    Without `node` it ends a task that nobody has started, and says nothing of any other.
    """

    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class GroupValidated(TimedEvent):
    group: GroupKey
    # In the chain's order, one or more; `ranked`: as they finished; `invalid`: wrong results.
    tasks: tuple[TaskKey, ...]
    ranked: bool | None = None
    invalid: tuple[TaskKey, ...] | None = None
    # Members that no source names. `derived`: of `tasks`, those concluded from what is around;
    # `possible`: timed-out tasks of which one may be a member, and nobody can tell which.
    derived: tuple[TaskKey, ...] | None = None
    possible: tuple[TaskKey, ...] | None = None


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
