"""Tasks as a generated relay network runs them: alone, or three that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from oracle.devnet.relay.published_rows import TaskState
from oracle.domain.ids import Address, TaskKey

# Two equal results decide.
_MAJORITY = 2


@dataclass(slots=True)
class RelayTask:
    """A task that runs; `elapsed` None: not answered, `said` the result it brought."""

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
        """What it was in when it had been answered."""
        return TaskState.ERROR_REPORTED if self.is_error else TaskState.SCORE_READY


@dataclass(slots=True)
class RelayGroup:
    jobs: list[RelayTask]

    @property
    def may_differ(self) -> bool:
        """Whether results may differ here: what a relay does with two is not established."""
        return not any(job.is_silent for job in self.jobs)

    @property
    def is_complete(self) -> bool:
        return all(job.elapsed is not None or job.has_ended for job in self.jobs)

    def finishers(self) -> list[RelayTask]:
        """Return who answered, the fastest first."""
        answered = [(job.elapsed, job) for job in self.jobs if job.elapsed is not None]
        return [job for _, job in sorted(answered, key=lambda pair: pair[0])]


def agreed_result(finishers: Sequence[RelayTask]) -> str | None:
    """Return the result that two of a group brought; None: there is none."""
    results = [job.said for job in finishers if not job.is_error]
    found = max(results, key=results.count, default="")
    return found if results.count(found) >= _MAJORITY else None
