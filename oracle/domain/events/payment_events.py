"""What contracts said of money (docs/reference/events-and-jsonl.md#vocabulary)."""

from dataclasses import dataclass

from oracle.domain.events.timed_event import TimedEvent
from oracle.domain.ids import Address, TaskKey


@dataclass(frozen=True, slots=True)
class FeeShared(TimedEvent):
    """Of the one fee of its group the node got `fee` wei for its task."""

    task: TaskKey
    node: Address
    fee: int
