"""The queue of waiting tasks: its groups and its capacity.

See docs/reference/sources.md#crynux-dispatching, Task Queue;
docs/reference/scoring-rules.md#queue.
"""

from fractions import Fraction
from typing import NamedTuple

from oracle.domain.state import Task
from oracle.systems.crynux.requirements import build_requirement


class QueueGroup(NamedTuple):
    """A queue group: tasks that require the same VRAM (in GB) and card (None for any card)."""

    vram: int
    gpu: str | None


def is_waiting(task: Task) -> bool:
    """Return whether a task was created, and has neither started nor ended."""
    is_unstarted = task.started_at is None and not task.runs
    return task.created_at is not None and is_unstarted and task.ending is None


def get_queue_group(task: Task) -> QueueGroup:
    """Return the queue group of a task."""
    requirement = build_requirement(task)
    return QueueGroup(requirement.vram, requirement.gpu)


def compute_queue_capacity(members: int, alpha: Fraction) -> int:
    """Return the maximum size of the queue: floor(alpha * members), at least 1.

    Raises:
        ValueError: alpha is not above 0.
    """
    if alpha <= 0:
        raise ValueError("alpha: must be above 0")
    return max(1, members * alpha.numerator // alpha.denominator)
