"""What contracts said, in our words, past tense (docs/reference/events-and-jsonl.md#vocabulary).

Each event stands at its position and carries its block's time in whole seconds, and in
milliseconds where its source knows them (docs/reference/events-and-jsonl.md#position-and-time).
Amounts are in wei, video memory in whole GB.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from oracle.domain.blocks import Position
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
class TimedEvent:
    """What every event may say beside its position and time.

    `time_ms`: the time in whole milliseconds, within the second that `time` is; None: the source
    knows seconds only. Scores never look at it.
    """

    time_ms: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class NodeJoined(TimedEvent):
    at: Position
    time: int
    node: Address
    stake: int | None = None
    gpu_name: str | None = None
    gpu_vram: int | None = None
    version: Version | None = None
    models: tuple[str, ...] | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class NodeUpdated(TimedEvent):
    at: Position
    time: int
    node: Address
    stake: int | None = None
    gpu_name: str | None = None
    gpu_vram: int | None = None
    version: Version | None = None
    models: tuple[str, ...] | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class ModelAdded(TimedEvent):
    at: Position
    time: int
    node: Address
    model: str


@dataclass(frozen=True, slots=True)
class NodePaused(TimedEvent):
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeResumed(TimedEvent):
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeQuit(TimedEvent):
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodePauseAsked(TimedEvent):
    """Takes effect at once, or where the task ends that the node runs."""

    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeQuitAsked(TimedEvent):
    """Takes effect at once, or where the task ends that the node runs."""

    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeSlashed(TimedEvent):
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeKickedOut(TimedEvent):
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class TaskCreated(TimedEvent):
    at: Position
    time: int
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
    # Only where the chain says it at creation.
    group: GroupKey | None = None


@dataclass(frozen=True, slots=True)
class TaskQueued(TimedEvent):
    at: Position
    time: int
    task: TaskKey


@dataclass(frozen=True, slots=True)
class TaskStarted(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address
    # The node's place in its task, 0 to 2, in commit/disclose networks only.
    round: int | None = None


@dataclass(frozen=True, slots=True)
class TaskSubmitted(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class TaskErrorReported(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class ResultCommitted(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class ResultDisclosed(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class TaskValidated(TimedEvent):
    at: Position
    time: int
    task: TaskKey


@dataclass(frozen=True, slots=True)
class TaskSucceeded(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskRefunded(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskInvalidated(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskAborted(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None
    reason: AbortReason | None = None
    last_status: LastStatus | None = None


@dataclass(frozen=True, slots=True)
class TaskTimedOut(TimedEvent):
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None
    last_status: LastStatus | None = None


@dataclass(frozen=True, slots=True)
class TaskCancelled(TimedEvent):
    """Time ran out; who is to blame, if anybody, follows from our record (`cancelling`).

    Without `node` it ends a task that nobody has started, and says nothing of any other.
    """

    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class GroupValidated(TimedEvent):
    at: Position
    time: int
    group: GroupKey
    # In the chain's order, one or more.
    tasks: tuple[TaskKey, ...]


NodeEvent = (
    NodeJoined
    | NodeUpdated
    | ModelAdded
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
    | TaskSucceeded
    | TaskRefunded
    | TaskInvalidated
    | TaskAborted
    | TaskTimedOut
    | TaskCancelled
)
DomainEvent = NodeEvent | TaskEvent | GroupValidated


def ms_of(event: DomainEvent) -> int:
    """Return when it was, in milliseconds: to the second where no more is known."""
    return event.time * 1000 if event.time_ms is None else event.time_ms
