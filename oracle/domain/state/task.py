"""The state of a task, and of the runs of several nodes in it.

See docs/reference/events-and-jsonl.md#what-is-legal.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import AbortReason, TaskKind, Version
from oracle.domain.ids import Address, GroupKey, TaskKey


class Ending(StrEnum):
    SUCCEEDED = "succeeded"
    REFUNDED = "refunded"
    INVALIDATED = "invalidated"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"


class Run(NamedTuple):
    """One node's part in a task of a commit/disclose network; `round` is its place, 0 to 2."""

    round: int
    node: Address
    started_at: Position
    started_time: int
    committed_at: Position | None = None
    disclosed_at: Position | None = None
    reported_at: Position | None = None
    ending: Ending | None = None


@dataclass(slots=True)
class Task:
    """The state of one task, changed by the fold only. Times are block times in seconds.

    `created_at` is None if the creation was not seen. `node` is None if the task was not started,
    or was started by several nodes; in that case `runs` holds a run of each node, in order of
    start (commit/disclose networks only). `stopped_at` is the position of the submission,
    commitment or error report. `revealed_at` is the position at which the node revealed a
    committed answer. `freed` means that the node could take another task once it answered;
    otherwise it is busy until the end. `group_size` is the final number of tasks in the group, or
    None if unknown. `scored_in` is the group that scored the task, which happens once. `paid` is
    the node's share of the group's fee in wei, or None if the network reported none. `seen_at` and
    `changed_at` are the blocks of the first and the newest event that changed the task.
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


def create_task(key: TaskKey) -> Task:
    """Return a new task of which only the key is known."""
    return Task(
        key=key,
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
