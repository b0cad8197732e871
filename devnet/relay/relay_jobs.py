"""The tasks of a generated relay network, which are single or in groups of three."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations

from devnet.relay.published_rows import TaskState
from oracle.domain.ids import Address, TaskKey


@dataclass(slots=True)
class RelayTask:
    """A started task.

    `elapsed_seconds` is the time from the start to the answer, or None before the answer.
    """

    task_key: TaskKey
    node: Address
    started_at: float
    group: "RelayGroup | None" = None
    elapsed_seconds: float | None = None
    result: str = ""
    is_error: bool = False
    is_silent: bool = False
    has_ended: bool = False

    @property
    def answered_state(self) -> TaskState:
        return TaskState.ERROR_REPORTED if self.is_error else TaskState.SCORE_READY


class GroupOutcome(Enum):
    """The ways in which the relay may end an answered task of a group."""

    VALIDATED = "validated"
    REFUND = "refund"
    INVALIDATED = "invalidated"
    INCORRECT = "incorrect"
    GROUP_TIMEOUT = "group_timeout"


@dataclass(slots=True)
class RelayGroup:
    """The started members of a group.

    `queued_count` is how many members still wait for a node.
    """

    tasks: list[RelayTask]
    queued_count: int = 0

    @property
    def is_complete(self) -> bool:
        have_all_ended = all(
            task.elapsed_seconds is not None or task.has_ended for task in self.tasks
        )
        return have_all_ended and not self.queued_count

    def list_answered_tasks_by_speed(self) -> list[RelayTask]:
        """Return the answered tasks, starting with the fastest."""
        seconds_and_tasks = [
            (task.elapsed_seconds, task) for task in self.tasks if task.elapsed_seconds is not None
        ]
        return [task for _, task in sorted(seconds_and_tasks, key=lambda pair: pair[0])]


def decide_outcomes(answered_tasks: Sequence[RelayTask]) -> list[GroupOutcome] | None:
    """Decide how each answered task ends, starting with the fastest.

    If the relay never closes the group, return None. Two error reports count as equal, but their
    nodes earn nothing. Three error reports make the relay's transaction fail, because a refund
    requires a result.
    """
    if len(answered_tasks) == 1:
        return [GroupOutcome.GROUP_TIMEOUT]
    outcomes = [GroupOutcome.INCORRECT] * len(answered_tasks)
    index_pairs = combinations(range(len(answered_tasks)), 2)
    agreeing_pairs = [
        (first_index, second_index)
        for first_index, second_index in index_pairs
        if _has_same_result(answered_tasks[first_index], answered_tasks[second_index])
    ]
    if not agreeing_pairs:
        return outcomes
    first, second = agreeing_pairs[0]
    other_indices = [
        task_index
        for task_index in range(len(answered_tasks))
        if task_index not in {first, second}
    ]
    if not answered_tasks[first].is_error:
        outcomes[first], outcomes[second] = GroupOutcome.VALIDATED, GroupOutcome.REFUND
    for task_index in other_indices:
        agrees_with_first = (first, task_index) in agreeing_pairs
        if agrees_with_first and answered_tasks[task_index].is_error:
            return None
        outcomes[task_index] = (
            GroupOutcome.REFUND if agrees_with_first else GroupOutcome.INVALIDATED
        )
    return outcomes


def _has_same_result(task: RelayTask, other_task: RelayTask) -> bool:
    if task.is_error or other_task.is_error:
        return task.is_error and other_task.is_error
    return task.result == other_task.result
