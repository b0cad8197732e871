"""Tasks of a generated relay network: single, or three that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from devnet.relay.published_rows import TaskState
from oracle.domain.ids import Address, TaskKey


@dataclass(slots=True)
class RelayTask:
    """A running task; `elapsed_seconds` is None until it is answered; `result` is its result."""

    task: TaskKey
    node: Address
    started: float
    group: "RelayGroup | None" = None
    elapsed: float | None = None
    said: str = ""
    is_error: bool = False
    is_silent: bool = False
    has_ended: bool = False

    @property
    def answered_state(self) -> TaskState:
        """The state of the task when it had been answered."""
        return TaskState.ERROR_REPORTED if self.is_error else TaskState.SCORE_READY


class GroupEnd(Enum):
    """How the relay ends a group member that answered."""

    VALIDATED = "validated"
    REFUND = "refund"
    INVALIDATED = "invalidated"
    INCORRECT = "incorrect"
    GROUP_TIMEOUT = "group_timeout"


@dataclass(slots=True)
class RelayGroup:
    """The started members of a group; `queued_count` counts members that wait for a node."""

    jobs: list[RelayTask]
    queued: int = 0

    @property
    def is_complete(self) -> bool:
        has_ended = all(job.elapsed is not None or job.has_ended for job in self.jobs)
        return has_ended and not self.queued

    def finishers(self) -> list[RelayTask]:
        """Return the tasks that were answered, the fastest first."""
        answered = [(job.elapsed, job) for job in self.jobs if job.elapsed is not None]
        return [job for _, job in sorted(answered, key=lambda pair: pair[0])]


def group_ends(finishers: Sequence[RelayTask]) -> list[GroupEnd] | None:
    """Return the outcome of each finisher, the fastest first, or None.

    None means that the group is never closed. Two error reports agree and win nothing. Three of
    them make the relay's transaction fail, because a refund requires a result.
    """
    if len(finishers) == 1:
        return [GroupEnd.GROUP_TIMEOUT]
    ends = [GroupEnd.INCORRECT] * len(finishers)
    pairs = combinations(range(len(finishers)), 2)
    agreeing = [(one, two) for one, two in pairs if _agree(finishers[one], finishers[two])]
    if not agreeing:
        return ends
    first, second = agreeing[0]
    others = [place for place in range(len(finishers)) if place not in {first, second}]
    if not finishers[first].is_error:
        ends[first], ends[second] = GroupEnd.VALIDATED, GroupEnd.REFUND
    for place in others:
        is_alike = (first, place) in agreeing
        if is_alike and finishers[place].is_error:
            return None
        ends[place] = GroupEnd.REFUND if is_alike else GroupEnd.INVALIDATED
    return ends


def _agree(one: RelayTask, other: RelayTask) -> bool:
    if one.is_error or other.is_error:
        return one.is_error and other.is_error
    return one.said == other.said
