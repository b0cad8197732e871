"""Response models of the queue: waiting entries, next tasks, and the offer for a freed node."""

from typing import Literal

from pydantic import Field

from oracle.queries.answers import AddressText, ApiModel, FixedPoint, HashText
from oracle.queries.selection.task_models import SnapshotTime, TaskRequirements


class QueueGroupName(ApiModel):
    """A group of the queue, by the requirements of its tasks."""

    vram: int = Field(description="In GB.")
    gpu: str | None = Field(description="Required card; null if any.")
    kind: Literal["gpt", "sd"] | None = Field(
        description="Kind of task, only in the legacy system."
    )


class QueuePosition(ApiModel):
    """The position at which a task was created."""

    block: int
    log: int


class QueueEntry(TaskRequirements):
    """A waiting task, or a legacy group of three, listed under its first task."""

    queue_group: QueueGroupName
    tasks: list[HashText] = Field(description="Tasks that start together, oldest first.")
    created: QueuePosition = Field(description="Position of the last of `tasks`.")
    queued: bool = Field(description="Whether the chain records that no node was found.")
    estimated_seconds: FixedPoint
    value: FixedPoint = Field(description="Value of all `tasks`, in wei per second.")
    drawn: list[AddressText] = Field(
        description="Drawn nodes that are to start it; empty if none."
    )


class QueueDownload(ApiModel):
    """A request to download a model that has not been answered."""

    node: AddressText
    model: str
    state: str = Field(description="`planned` by the daemon, or `open` on chain.")
    until: int | None = Field(description="Unix seconds; null if not on chain yet.")


class QueueCapacity(ApiModel):
    """The maximum number of waiting entries, and the entries that a better one would displace."""

    members: int
    max_tasks: int = Field(description="floor(alpha * members), at least 1.")
    dropped_next: list[HashText] = Field(
        description="Least valuable first; groups are dropped as a whole."
    )


class QueueHead(ApiModel):
    """The best entry of a queue group that a node can run, or else the group's first entry."""

    queue_group: QueueGroupName
    task: HashText
    value: FixedPoint = Field(description="In wei per second.")
    why_not: str | None = Field(
        description="null if the node would take it.", examples=["less_valuable"]
    )
    gpu: str | None = Field(description="The card that all nodes of a group of three must have.")
    partners: list[AddressText] | None = Field(
        description="Nodes, of which two would run the group of three with it; null if no group."
    )


class QueueOffer(ApiModel):
    """The entry that a node would take if it were free now."""

    node: AddressText
    why_not: str | None = Field(description="Why it gets no task at all.", examples=["paused"])
    takes: HashText | None
    heads: list[QueueHead] = Field(description="Best entry of each queue group, by value.")


class QueueAnswer(ApiModel):
    """The answer of `queue`; `entries` are in the order in which the daemon serves them."""

    as_of: SnapshotTime
    waiting: int = Field(description="Number of entries.")
    entries: list[QueueEntry]
    left_out: list[HashText] = Field(
        description="Tasks whose group is incomplete or can no longer start."
    )
    downloads: list[QueueDownload]
    capacity: QueueCapacity | None = Field(description="null if alpha is not set.")
    offer: QueueOffer | None = Field(description="null if no node was requested.")
