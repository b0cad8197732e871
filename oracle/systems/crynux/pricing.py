"""Computes the value of a task, which is its fee divided by its estimated seconds.

See docs/reference/sources.md#crynux-dispatching.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from oracle.domain.events.network_events import TaskKind
from oracle.domain.state import Task

# Minimum estimate of the duration of a task (docs/reference/scoring-rules.md#queue).
_MIN_SECONDS = Fraction(1)


@dataclass(frozen=True, slots=True)
class Pricing:
    """A network operator's estimates of how long each kind of task takes, in seconds.

    Crynux published no such estimate.

    `fixed_seconds` does not depend on the size of the task, and `unit_seconds` is added for each
    unit of size (an image, a token or a step, as the network counts).

    Raises:
        ValueError: a kind is missing, or a number is negative; the message names the field and the
            kind.
    """

    fixed_seconds: Mapping[TaskKind, Fraction]
    unit_seconds: Mapping[TaskKind, Fraction]

    def __post_init__(self) -> None:
        for name in ("fixed_seconds", "unit_seconds"):
            seconds: Mapping[TaskKind, Fraction] = getattr(self, name)
            for kind in TaskKind:
                if kind not in seconds:
                    raise ValueError(f"{name}: the value for {kind} is missing")
                if seconds[kind] < 0:
                    raise ValueError(f"{name}: must be 0 or more for {kind}")

    def estimate_task_seconds(self, task: Task) -> Fraction:
        """Estimate the seconds that a task takes, at least 1.

        The estimate is the fixed part plus the size times the unit. An unknown size counts as 1.
        An unknown kind counts as the slowest kind, so that a creator gains nothing by omitting it.
        """
        size = 1 if task.size is None else task.size
        kinds = TaskKind if task.kind is None else (task.kind,)
        max_seconds = max(
            self.fixed_seconds[kind] + size * self.unit_seconds[kind] for kind in kinds
        )
        return max(max_seconds, _MIN_SECONDS)

    def compute_value(self, task: Task) -> Fraction:
        """Compute the exact value of a task in wei per second.

        An unknown fee counts as 0.
        """
        return (task.fee or 0) / self.estimate_task_seconds(task)
