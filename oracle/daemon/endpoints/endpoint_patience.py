"""How `run --once` waits for rate-limited endpoints instead of failing.

A daemon simply retries at the next tick. A run that exits when all is done waits as long as the
endpoint requests, in short waits, so that the lease is renewed and signals are handled (decision
0129).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from oracle.daemon.scheduler import Job
from oracle.daemon.stopping import StopSignal
from oracle.errors import TransientError

T = TypeVar("T")

# The maximum total wait of one step without any progress.
PATIENCE_SECONDS = 300.0
# The longest single wait; the lease is renewed, and other jobs run, between two waits.
_AT_A_TIME = 5.0


@dataclass(slots=True)
class EndpointPatience:
    """Waits for one repeated request; `stop` ends any wait."""

    stop: StopSignal
    seconds: float = PATIENCE_SECONDS
    _waited: float = 0.0

    def borne(self, work: Callable[[], T]) -> T:
        """Run `request` again whenever its endpoint requests a retry later.

        Raises:
            TransientError: the endpoint gave no retry time, or the maximum wait is exceeded.
            typer.Exit: a signal arrived meanwhile.
        """
        while True:
            try:
                done = work()
            except TransientError as error:
                self.wait(error)
                self.stop.check()
            else:
                self.reset_wait()
                return done

    def wait(self, error: TransientError) -> float:
        """Wait a part of the requested time and log it; return the seconds waited.

        Raises:
            TransientError: `error`: it has no retry time, or the maximum wait is exceeded, or
                would
                be.
        """
        if error.retry_after is None or self._waited + error.retry_after > self.seconds:
            raise error
        seconds = min(_AT_A_TIME, max(error.retry_after, 0.1))
        structlog.get_logger().warning(
            "waiting_for_endpoint", seconds=round(seconds, 1), reason=str(error)
        )
        self._waited += seconds
        self.stop.event.wait(seconds)
        return seconds

    def reset_wait(self) -> None:
        """Reset the total wait after a success."""
        self._waited = 0.0


def patient(steps: Sequence[Job], stop: StopSignal) -> list[Job]:
    """Return the jobs, wrapped so that each waits for rate-limited endpoints."""
    return [_patient(step, EndpointPatience(stop)) for step in steps]


def _patient(step: Job, patience: EndpointPatience) -> Job:
    def turn() -> Mapping[str, object] | None:
        try:
            done = step.turn()
        except TransientError as error:
            return {"did": "waited", "seconds": patience.wait(error)}
        patience.reset_wait()
        return done

    return replace(step, turn=turn)
