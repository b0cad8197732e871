"""Profile `reference`: what our own TaskNetwork contract says (events.md, vocabulary).

The order of TaskKind, AbortReason and LastStatus is the contract's.
"""

from oracle.chain.making import quick
from oracle.chain.profiles import Meaning, Profile
from oracle.domain.block import Position
from oracle.domain.events import (
    AbortReason,
    GroupValidated,
    LastStatus,
    ModelAdded,
    NodeJoined,
    NodeKickedOut,
    NodePaused,
    NodeQuit,
    NodeResumed,
    NodeSlashed,
    NodeUpdated,
    TaskAborted,
    TaskCreated,
    TaskErrorReported,
    TaskInvalidated,
    TaskKind,
    TaskQueued,
    TaskRefunded,
    TaskStarted,
    TaskSubmitted,
    TaskSucceeded,
    TaskTimedOut,
    TaskValidated,
)
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Address, GroupKey, TaskKey

_KINDS = dict(enumerate(TaskKind))
_REASONS = dict(enumerate(AbortReason))
_STATUSES = dict(enumerate(LastStatus))
_NO_GROUP = GroupKey(ZERO_HASH)

_task_created = quick(TaskCreated)

# What the decoder hands over, in the order of the tables below.
_Models = tuple[str, ...]
_Joined = tuple[Address, int, str, int, int, int, int, _Models]
_Created = tuple[
    TaskKey, Address, int, int, str, int, _Models, int, int, int, int, int, int, GroupKey
]
_Ended = tuple[Address, int, int]


def _joined(at: Position, time: int, *said: *_Joined) -> NodeJoined:
    node, stake, gpu_name, gpu_vram, major, minor, patch, models = said
    return NodeJoined(at, time, node, stake, gpu_name, gpu_vram, (major, minor, patch), models)


def _version_updated(at: Position, time: int, node: Address, *version: int) -> NodeUpdated:
    major, minor, patch = version
    return NodeUpdated(at, time, node, version=(major, minor, patch))


def _stake_changed(at: Position, time: int, node: Address, stake: int) -> NodeUpdated:
    return NodeUpdated(at, time, node, stake=stake)


def _created(at: Position, time: int, *said: *_Created) -> TaskCreated:
    task, creator, fee, min_vram, gpu, gpu_vram, models = said[:7]
    major, minor, patch, size, kind, timeout, group = said[7:]
    return _task_created(
        at,
        time,
        task,
        creator,
        fee,
        min_vram,
        gpu,
        gpu_vram,
        models,
        (major, minor, patch),
        size,
        _KINDS.get(kind),
        timeout,
        None if group == _NO_GROUP else group,
    )


def _aborted(at: Position, time: int, task: TaskKey, *said: *_Ended) -> TaskAborted:
    node, reason, last_status = said
    ran_on = None if node == ZERO_ADDRESS else node
    why = _REASONS.get(reason, AbortReason.UNKNOWN)
    return TaskAborted(at, time, task, ran_on, why, _STATUSES.get(last_status))


def _timed_out(
    at: Position, time: int, task: TaskKey, *said: *tuple[Address, int]
) -> TaskTimedOut:
    node, last_status = said
    ran_on = None if node == ZERO_ADDRESS else node
    return TaskTimedOut(at, time, task, ran_on, _STATUSES.get(last_status))


_NODE = ("node",)
_TASK = ("task",)
_TASK_AND_NODE = ("task", "node")
_VERSION = ("major", "minor", "patch")
_HARDWARE = ("stake", "gpuName", "gpuVram")
_REQUIREMENTS = ("fee", "minVram", "requiredGpu", "requiredGpuVram", "models")

REFERENCE = Profile(
    "reference",
    {
        "TaskNetwork": (
            Meaning("NodeJoined", (*_NODE, *_HARDWARE, *_VERSION, "models"), _joined),
            Meaning("NodeVersionUpdated", (*_NODE, *_VERSION), _version_updated),
            Meaning("NodeStakeChanged", (*_NODE, "stake"), _stake_changed),
            Meaning("ModelAdded", (*_NODE, "model"), ModelAdded),
            Meaning("NodePaused", _NODE, NodePaused),
            Meaning("NodeResumed", _NODE, NodeResumed),
            Meaning("NodeQuit", _NODE, NodeQuit),
            Meaning("NodeSlashed", _NODE, NodeSlashed),
            Meaning("NodeKickedOut", _NODE, NodeKickedOut),
            Meaning(
                "TaskCreated",
                ("task", "creator", *_REQUIREMENTS, *_VERSION, "size", "kind", "timeout", "group"),
                _created,
            ),
            Meaning("TaskQueued", _TASK, TaskQueued),
            Meaning("TaskStarted", _TASK_AND_NODE, TaskStarted),
            Meaning("TaskSubmitted", _TASK_AND_NODE, TaskSubmitted),
            Meaning("TaskErrorReported", _TASK_AND_NODE, TaskErrorReported),
            Meaning("TaskValidated", _TASK, TaskValidated),
            Meaning("GroupValidated", ("group", "tasks"), GroupValidated),
            Meaning("TaskSucceeded", _TASK_AND_NODE, TaskSucceeded),
            Meaning("TaskRefunded", _TASK_AND_NODE, TaskRefunded),
            Meaning("TaskInvalidated", _TASK_AND_NODE, TaskInvalidated),
            Meaning("TaskAborted", (*_TASK_AND_NODE, "reason", "lastStatus"), _aborted),
            Meaning("TaskTimedOut", (*_TASK_AND_NODE, "lastStatus"), _timed_out),
        )
    },
)
