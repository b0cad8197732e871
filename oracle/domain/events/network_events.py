"""What contracts said, in our words, past tense (docs/reference/events-and-jsonl.md#vocabulary).

Each event stands at its position and carries its block's time in whole seconds.
Amounts are in wei, video memory in whole GB.
"""

from dataclasses import dataclass
from enum import StrEnum

from oracle.domain.blocks import Position
from oracle.domain.events.download_events import DownloadRequested
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
class NodeJoined:
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
class NodeUpdated:
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
class ModelAdded:
    at: Position
    time: int
    node: Address
    model: str


@dataclass(frozen=True, slots=True)
class NodePaused:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeResumed:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeQuit:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodePauseAsked:
    # Takes effect at once, or where the task ends that the node runs.
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeQuitAsked:
    # Takes effect at once, or where the task ends that the node runs.
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeSlashed:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class NodeKickedOut:
    at: Position
    time: int
    node: Address


@dataclass(frozen=True, slots=True)
class TaskCreated:
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
class TaskQueued:
    at: Position
    time: int
    task: TaskKey


@dataclass(frozen=True, slots=True)
class TaskStarted:
    at: Position
    time: int
    task: TaskKey
    node: Address
    # The node's place in its task, 0 to 2, in commit/disclose networks only.
    round: int | None = None


@dataclass(frozen=True, slots=True)
class TaskSubmitted:
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class TaskErrorReported:
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class ResultCommitted:
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class ResultDisclosed:
    at: Position
    time: int
    task: TaskKey
    node: Address


@dataclass(frozen=True, slots=True)
class TaskValidated:
    at: Position
    time: int
    task: TaskKey


@dataclass(frozen=True, slots=True)
class TaskSucceeded:
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskRefunded:
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskInvalidated:
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class TaskAborted:
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None
    reason: AbortReason | None = None
    last_status: LastStatus | None = None


@dataclass(frozen=True, slots=True)
class TaskTimedOut:
    at: Position
    time: int
    task: TaskKey
    node: Address | None = None
    last_status: LastStatus | None = None


@dataclass(frozen=True, slots=True)
class TaskCancelled:
    """Time ran out; who is to blame, if anybody, follows from our record (`cancelling`).

    Without `node` it ends a task that nobody has started, and says nothing of any other.
    """

    at: Position
    time: int
    task: TaskKey
    node: Address | None = None


@dataclass(frozen=True, slots=True)
class GroupValidated:
    at: Position
    time: int
    group: GroupKey
    # In the chain's order, one or more.
    tasks: tuple[TaskKey, ...]


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
    | TaskSucceeded
    | TaskRefunded
    | TaskInvalidated
    | TaskAborted
    | TaskTimedOut
    | TaskCancelled
)
DomainEvent = NodeEvent | TaskEvent | GroupValidated
