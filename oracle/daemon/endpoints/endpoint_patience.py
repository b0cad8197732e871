"""Lets `run --once` wait for rate-limited endpoints instead of failing.

A daemon simply retries at the next tick. A run that exits when all is done waits as long as the
endpoint requests, split into short waits, so that the lease is renewed and signals are handled
(decision 0129).
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
MAX_PATIENCE_SECONDS = 300.0
# The longest single wait; the lease is renewed, and other jobs run, between two waits.
_MAX_WAIT_SECONDS = 5.0


@dataclass(slots=True)
class EndpointRetryWaiter:
    """Waits before a request is repeated; `stop` ends any wait."""

    stop: StopSignal
    max_seconds: float = MAX_PATIENCE_SECONDS
    _waited_seconds: float = 0.0

    def run_with_retries(self, request: Callable[[], T]) -> T:
        """Run `request` again whenever its endpoint requests a retry later.

        Raises:
            TransientError: the endpoint gave no retry time, or the maximum wait is exceeded.
            typer.Exit: a signal arrived meanwhile.
        """
        while True:
            try:
                result = request()
            except TransientError as error:
                self.wait_for_endpoint(error)
                self.stop.exit_if_signalled()
            else:
                self.reset_wait()
                return result

    def wait_for_endpoint(self, error: TransientError) -> float:
        """Wait for a part of the requested time, log the wait, and return the seconds waited.

        Raises:
            TransientError: `error` itself, if it has no retry time, or if the total wait would
                exceed the maximum.
        """
        if (
            error.retry_after is None
            or self._waited_seconds + error.retry_after > self.max_seconds
        ):
            raise error
        seconds = min(_MAX_WAIT_SECONDS, max(error.retry_after, 0.1))
        structlog.get_logger().warning(
            "waiting_for_endpoint", seconds=round(seconds, 1), reason=str(error)
        )
        self._waited_seconds += seconds
        self.stop.event.wait(seconds)
        return seconds

    def reset_wait(self) -> None:
        """Reset the total wait after a success."""
        self._waited_seconds = 0.0


def wrap_jobs_with_waits(jobs: Sequence[Job], stop: StopSignal) -> list[Job]:
    """Return the jobs, wrapped so that each waits for rate-limited endpoints."""
    return [_wrap_job_with_waits(job, EndpointRetryWaiter(stop)) for job in jobs]


def _wrap_job_with_waits(job: Job, patience: EndpointRetryWaiter) -> Job:
    def tick() -> Mapping[str, object] | None:
        try:
            facts = job.tick()
        except TransientError as error:
            return {"did": "waited", "seconds": patience.wait_for_endpoint(error)}
        patience.reset_wait()
        return facts

    return replace(job, tick=tick)
