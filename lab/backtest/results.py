"""The results of one system for a history.

Scores are in units of 10^-18, times in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address


class FinalNodeState(NamedTuple):
    """A node at the end of the history.

    `score` is None if the node is not a member.
    """

    node: Address
    status: str
    gpu_name: str | None
    gpu_vram: int | None
    score: int | None


class ExclusionInterval(NamedTuple):
    """An interval in which a node was excluded.

    The interval includes `since` but not `until`. `block` is the block of the event that began the
    exclusion. `until` is the second at which the exclusion ended, possibly by recovery between two
    events, or None if the node is still excluded at the end of the history. `seconds` is the
    duration within the counted range. `began_before` is set if the interval began before the
    counted range.
    """

    node: Address
    block: int
    since: int
    until: int | None
    seconds: int
    began_before: bool


class DueInterval(NamedTuple):
    """An interval in which a node's kickout was due.

    `closed_block` and `closed_time` are None if the kickout is still due at the end of the
    history. `kicked_block` and `kicked_time` tell when the network of the history kicked the node
    out, or are None if it did not. `began_before` is set if the interval began before the counted
    range.
    """

    node: Address
    block: int
    time: int
    closed_block: int | None
    closed_time: int | None
    kicked_block: int | None
    kicked_time: int | None
    began_before: bool


class NetworkKick(NamedTuple):
    """A kickout by the network itself, as recorded in the history.

    `was_due` is set if the node's kickout was also due under the measured system.
    """

    node: Address
    block: int
    time: int
    was_due: bool


@dataclass(frozen=True, slots=True)
class TaskSpread:
    """How tasks were distributed over nodes, and how a policy would distribute them.

    `actual` maps each node to its number of counted starts. `expected` maps each node to its
    probability of being drawn, summed over the judged starts, in units of 10^-27. `judged` is the
    number of starts that the policy judged. `unplaced` is the number of judged starts without a
    candidate, whose tasks would have waited.
    """

    actual: Mapping[Address, int]
    expected: Mapping[Address, int]
    judged: int
    unplaced: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of one system.

    They are small enough to be passed between processes. `nodes` are all nodes at the end of the
    history. `present_nodes` are the nodes that were members at any counted moment or had a task.
    `intervals` are the exclusions, `kickouts` the due kickouts, and `kicks` the kickouts by the
    network of the history. `scores_over_time` has the score of each present node at each instant,
    or None if the node had no score.
    """

    nodes: tuple[FinalNodeState, ...]
    present_nodes: tuple[Address, ...]
    intervals: tuple[ExclusionInterval, ...]
    kickouts: tuple[DueInterval, ...]
    kicks: tuple[NetworkKick, ...]
    spread: TaskSpread
    scores_over_time: Mapping[Address, tuple[int | None, ...]]
