"""What one system made of a history. Fractions in units of 10^-18, times in seconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.ids import Address


class NodeEnd(NamedTuple):
    """A node when the history ends; `score` None: no member, so it has none."""

    node: Address
    status: str
    gpu_name: str | None
    gpu_vram: int | None
    score: int | None


class ExclusionInterval(NamedTuple):
    """A time in which a node was to get no tasks: from `since` up to, not including, `until`.

    `until` is the second at which it was over, healed between two events or not; None: it lasts
    when the history ends. `seconds`: as much of it as lies inside of what is counted.
    """

    node: Address
    block: int
    since: int
    until: int | None
    seconds: int
    began_before: bool


class DueInterval(NamedTuple):
    """A time in which a node's kickout was due.

    `closed_*` None: still due when the history ends. `kicked_*`: when the history's own network
    kicked it out, at the opening or later; None: it did not.
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
    """The history's network kicked a node out; `due`: the system would have, too."""

    node: Address
    block: int
    time: int
    due: bool


@dataclass(frozen=True, slots=True)
class TaskSpread:
    """How tasks went, and how a policy would have spread them, start by start.

    `actual`: starts of each node, all of those counted. `expected`: the policy's probabilities
    added up over the starts that were `judged`, in units of 10^-27. `unplaced`: judged, but no
    node was a candidate; such a task would have waited.
    """

    actual: Mapping[Address, int]
    expected: Mapping[Address, int]
    judged: int
    unplaced: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All that one column of a comparison is made of; small, and passed between processes.

    `present`: who was a member at any moment of what is counted, or had a task. `over_time`: the
    score of each of them at each instant asked for, None where it had none.
    """

    nodes: tuple[NodeEnd, ...]
    present: tuple[Address, ...]
    intervals: tuple[ExclusionInterval, ...]
    kickouts: tuple[DueInterval, ...]
    kicks: tuple[NetworkKick, ...]
    spread: TaskSpread
    over_time: Mapping[Address, tuple[int | None, ...]]
