"""What contracts said of money (docs/reference/events-and-jsonl.md#vocabulary)."""

from dataclasses import dataclass

from oracle.domain.events.event_fields import NodeAddress, TaskId, WeiAmount
from oracle.domain.events.timed_event import TimedEvent


@dataclass(frozen=True, slots=True)
class FeeShared(TimedEvent):
    """The node gets `fee` wei of its group's fee for its task, before the task ends."""

    task: TaskId
    node: NodeAddress
    fee: WeiAmount
