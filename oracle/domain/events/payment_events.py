"""What contracts said of money (docs/reference/events-and-jsonl.md#vocabulary)."""

from dataclasses import dataclass

from oracle.domain.blocks import Position
from oracle.domain.ids import Address, TaskKey


@dataclass(frozen=True, slots=True)
class FeeShared:
    """Of the one fee of its group the node got `fee` wei for its task."""

    at: Position
    time: int
    task: TaskKey
    node: Address
    fee: int
