"""The results of one system on a history. Fractions are in units of 10^-18, times in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address


class FinalNodeState(NamedTuple):
    """A node at the end of the history; `score` is None if it is not a member."""

    node: Address
    status: str
    gpu_name: str | None
    gpu_vram: int | None
    score: int | None


class ExclusionInterval(NamedTuple):
    """An interval in which a node was excluded: from `since` up to, but excluding, `until`.

    `until` is the second at which the exclusion ended, possibly by recovery between two events;
    None if it lasts at the end of the history. `seconds`: its part inside the counted range.
    """

    node: Address
    block: int
    since: int
    until: int | None
    seconds: int
    began_before: bool


class DueInterval(NamedTuple):
    """An interval in which a node's kickout was due.

    `closed_*` is None if the kickout is still due at the end of the history. `kicked_*`: when the
    history's own network kicked the node out, at the opening or later; None if it did not.
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
    """A kickout by the history's network; `was_due`: the system would have kicked it out, too."""

    node: Address
    block: int
    time: int
    was_due: bool


@dataclass(frozen=True, slots=True)
class TaskSpread:
    """The actual distribution of tasks, and the one that a policy would have given.

    `actual`: counted starts of each node. `expected`: the policy's probabilities, summed over the
    `judged` starts, in units of 10^-27. `unplaced`: judged starts without a candidate; such a task
    would have waited.
    """

    actual: Mapping[Address, int]
    expected: Mapping[Address, int]
    judged: int
    unplaced: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of one system; small enough to be passed between processes.

    `present_nodes`: nodes that were members at any counted moment or had a task.
    `scores_over_time`: the score of each of them at each instant, None if it had none.
    """

    nodes: tuple[FinalNodeState, ...]
    present_nodes: tuple[Address, ...]
    intervals: tuple[ExclusionInterval, ...]
    kickouts: tuple[DueInterval, ...]
    kicks: tuple[NetworkKick, ...]
    spread: TaskSpread
    scores_over_time: Mapping[Address, tuple[int | None, ...]]
