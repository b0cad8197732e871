"""The events of a network, with one class for each type of event.

`make reference` copies the docstring of each class as the event's meaning into the table
docs/reference/events-and-jsonl.md#vocabulary. Each
event has a position and the time of its block in whole seconds, and in milliseconds if the source
reports them (docs/reference/events-and-jsonl.md#position-and-time). Amounts are in wei, video
memory in whole GB.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, get_args

from oracle.domain.events.event_fields import (
    Count,
    FieldKind,
    Flag,
    GroupId,
    NodeAddress,
    RoundPlace,
    Seconds,
    TaskId,
    TaskIds,
    Text,
    Texts,
    TimedEvent,
    VersionTriple,
    WeiAmount,
    WholeGigabytes,
    build_enum_field_kind,
    get_field_kinds,
)

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


TaskKindField = Annotated[TaskKind, build_enum_field_kind(TaskKind)]
AbortReasonField = Annotated[AbortReason, build_enum_field_kind(AbortReason)]
LastStatusField = Annotated[LastStatus, build_enum_field_kind(LastStatus)]


@dataclass(frozen=True, slots=True)
class NodeJoined(TimedEvent):
    """A node joins the network, for the first time or again."""

    node: NodeAddress
    stake: WeiAmount | None = None
    gpu_name: Text | None = None
    gpu_vram: WholeGigabytes | None = None
    version: VersionTriple | None = None
    models: Texts | None = None
    timeout: Seconds | None = None


@dataclass(frozen=True, slots=True)
class NodeUpdated(TimedEvent):
    """The node changed its description; only the changed fields are present."""

    node: NodeAddress
    stake: WeiAmount | None = None
    gpu_name: Text | None = None
    gpu_vram: WholeGigabytes | None = None
    version: VersionTriple | None = None
    models: Texts | None = None
    timeout: Seconds | None = None


@dataclass(frozen=True, slots=True)
class ModelAdded(TimedEvent):
    """The model is now on the node's disk."""

    node: NodeAddress
    model: Text


@dataclass(frozen=True, slots=True)
class DownloadRequested(TimedEvent):
    """The network requests a download of the model by the node.

    The request is not repeated before `until`.
    """

    # `ModelAdded` later reports the completed download; see
    # docs/explanation/dispatch.md#pre-download.
    node: NodeAddress
    model: Text
    until: Seconds


@dataclass(frozen=True, slots=True)
class NodePaused(TimedEvent):
    """The node is paused, and takes no more tasks."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeResumed(TimedEvent):
    """The node is active again and takes tasks."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeQuit(TimedEvent):
    """The node's membership ends at its own request."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodePauseAsked(TimedEvent):
    """The node requests a pause, which starts at once or when its running task ends."""

    node: NodeAddress


@dataclass(frozen=True, slots=True)
class NodeQuitAsked(TimedEvent):
    """The node requests its exit, which takes effect at once or when its running task ends."""

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
    """A creator requests a task.

    `required_gpu` is "" if any GPU is accepted. `group` and `group_size`, the final number of
    tasks in the group, are present only if the chain reports them at creation.
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
    """No node was free for the task, so it waits in the queue."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class TaskStarted(TimedEvent):
    """The node's execution clock starts.

    `round` is the node's place in the task; it is present only in networks that commit and
    disclose.
    """

    task: TaskId
    node: NodeAddress
    round: RoundPlace | None = None


@dataclass(frozen=True, slots=True)
class TaskSubmitted(TimedEvent):
    """The node submits its result or commits to it, which stops the execution clock.

    `frees` is true if the node may get another task from then on; otherwise it is busy until the
    task ends.
    """

    task: TaskId
    node: NodeAddress
    frees: Flag | None = None


@dataclass(frozen=True, slots=True)
class TaskErrorReported(TimedEvent):
    """The node reports that the task cannot be run, possibly after committing to a result.

    The node then ranks last in its group (docs/reference/scoring-rules.md#task-groups). `frees` is
    as in `task_submitted`.
    """

    task: TaskId
    node: NodeAddress
    frees: Flag | None = None


@dataclass(frozen=True, slots=True)
class ResultCommitted(TimedEvent):
    """The node commits to a result, in the first round of a commit-and-disclose network."""

    task: TaskId
    node: NodeAddress


@dataclass(frozen=True, slots=True)
class ResultDisclosed(TimedEvent):
    """The node discloses its result, in the second round or after a submission."""

    task: TaskId
    node: NodeAddress


@dataclass(frozen=True, slots=True)
class TaskValidated(TimedEvent):
    """The result was accepted, alone or in its group."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class FeeShared(TimedEvent):
    """The node receives its share of the group's fee (`fee` wei), before its task ends."""

    task: TaskId
    node: NodeAddress
    fee: WeiAmount


@dataclass(frozen=True, slots=True)
class TaskSucceeded(TimedEvent):
    """The task ends, and its node is paid."""

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class TaskRefunded(TimedEvent):
    """The task ends; its result matched those of its group, and its fee is refunded."""

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class TaskInvalidated(TimedEvent):
    """The task ends because its result is wrong."""

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
    """The task ends because its node did not answer in time."""

    task: TaskId
    node: NodeAddress | None = None
    last_status: LastStatusField | None = None


@dataclass(frozen=True, slots=True)
class TaskCancelled(TimedEvent):
    """The task is cancelled after a deadline passed.

    The record of the task decides which node is to blame, if any. Without `node`, the event only
    ends a task that no node has started (docs/decisions/0078-commit-disclose-networks-blame.md).
    """

    task: TaskId
    node: NodeAddress | None = None


@dataclass(frozen=True, slots=True)
class GroupValidated(TimedEvent):
    """A validation group closed; its members are listed in the chain's order.

    `ranked` is true if the members are in the order in which they finished, so that no times are
    compared. `invalid` lists the members whose result is wrong, if the source reports them.
    `derived` lists those members of `tasks` that no source names, because they follow from other
    rows. `possible` lists timed-out tasks of which one may be a member; they get no score
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


def _to_snake_case(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).lstrip("_")


NAME_BY_TYPE: Mapping[type[DomainEvent], str] = MappingProxyType(
    {kind: _to_snake_case(kind.__name__) for kind in get_args(DomainEvent)}
)
TYPE_BY_NAME: Mapping[str, type[DomainEvent]] = MappingProxyType(
    {name: kind for kind, name in NAME_BY_TYPE.items()}
)


def _collect_field_kinds() -> dict[str, FieldKind]:
    """Return the kind of every event field, keyed by field name.

    Raises:
        TypeError: two events have fields with the same name but different kinds.
    """
    kind_by_name: dict[str, FieldKind] = {}
    for event_type in NAME_BY_TYPE:
        for name, kind in get_field_kinds(event_type).items():
            if kind_by_name.setdefault(name, kind) is not kind:
                raise TypeError(
                    f"{event_type.__name__}.{name}: another event declares this field with a "
                    "different kind"
                )
    return kind_by_name


# Field kinds by field name, in the order in which events use them.
FIELD_KINDS: Mapping[str, FieldKind] = MappingProxyType(_collect_field_kinds())


def get_event_name(event: DomainEvent) -> str:
    """Return the name of an event's type, as used in the JSON-lines field `type`."""
    return NAME_BY_TYPE[type(event)]
