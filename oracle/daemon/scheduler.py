"""Runs the daemon's jobs on one worker thread, one tick at a time, until `stop` is set.

All failures of jobs are handled in this module: a TransientError is logged and the job is tried
again at its next tick, and any other error ends the daemon. Ticks are short
(docs/explanation/daemon.md#short-jobs), so that a stop waits only for the current tick. All times
are from the monotonic clock, so that a change of the wall clock does not delay a tick.

In `run --once`, a failed job has no next tick. It therefore waits as long as a rate-limited
endpoint requires, but in short steps, so that the lease is renewed and signals are handled
(decision 0129).
"""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from oracle.daemon.stopping import StopSignal
from oracle.errors import TransientError
from oracle.telemetry import metrics
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two
from oracle.telemetry.tracing import start_span

# Time, in seconds, for which a tick may continue after a stop. The tick is then abandoned in the
# middle of a network call, where no transaction is open.
STOP_WAIT_SECONDS = 3.0
# A job counts as silent after this many missed ticks, but not before this many seconds have
# passed.
MAX_MISSED_TICKS = 5
MIN_SILENCE_SECONDS = 60.0
# The worker counts as stuck if its tick makes no progress for this long, which is longer than a
# tick in which every endpoint hangs. The process then releases the lease and ends.
STUCK_SECONDS = 180.0
# Total time, in seconds, for which a job of `run --once` may wait for its endpoints without making
# progress.
_MAX_PATIENCE_SECONDS = 300.0
# The longest single wait, in seconds; between waits, the lease is renewed and other jobs run.
_MAX_WAIT_SECONDS = 5.0

T = TypeVar("T")

Clock = Callable[[], float]
# The fields to log for a tick, or None if it had nothing to do.
TickFacts = Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the daemon.

    `tick` does a small part of the work and returns log fields, or None if there was nothing to
    do. After None, the next tick follows in `every_seconds`, or earlier if `estimate_wait` returns
    fewer seconds.
    """

    name: str
    every_seconds: float
    tick: Callable[[], TickFacts]
    estimate_wait: Callable[[], float | None] | None = None


@dataclass(slots=True)
class JobLiveness:
    """Records when each job last ran, in seconds of `clock`, for other threads."""

    clock: Clock
    _last_tick_at: dict[str, float] = field(default_factory=dict)
    _max_silence_by_job: dict[str, float] = field(default_factory=dict)
    _failures_by_job: dict[str, tuple[int, str]] = field(default_factory=dict)
    _progressed_at: float | None = None

    def start_monitoring_jobs(self, jobs: Sequence[Job]) -> None:
        """Start monitoring the ticks of these jobs, and stop monitoring the previous jobs."""
        for job in jobs:
            self.mark_tick(job.name)
        self._max_silence_by_job = {
            job.name: max(MAX_MISSED_TICKS * job.every_seconds, MIN_SILENCE_SECONDS)
            for job in jobs
        }

    def mark_tick(self, name: str) -> None:
        self._last_tick_at[name] = self._progressed_at = self.clock()

    def mark_progress(self) -> None:
        """Record progress during a long tick, so that waiting jobs do not count as silent."""
        self._progressed_at = self.clock()
        self._last_tick_at = dict.fromkeys(self._last_tick_at, self._progressed_at)

    def find_stuck_reason(self) -> str | None:
        """Return why the worker counts as stuck, or None if it is making progress."""
        if not self._max_silence_by_job or self._progressed_at is None:
            return None
        silent_seconds = self.clock() - self._progressed_at
        if silent_seconds <= STUCK_SECONDS:
            return None
        return f"the daemon's worker has made no progress for {silent_seconds:.0f} s"

    def record_failure(self, name: str, reason: str) -> int:
        """Record a failed tick, and return the number of consecutive failures.

        The tick is retried.
        """
        previous_failures, _ = self._failures_by_job.get(name, (0, ""))
        self._failures_by_job[name] = (previous_failures + 1, reason)
        return previous_failures + 1

    def record_success(self, name: str) -> int:
        """Record a successful tick, and return how many consecutive failures preceded it."""
        previous_failures, _ = self._failures_by_job.pop(name, (0, ""))
        return previous_failures

    def get_failing_jobs(self) -> dict[str, tuple[int, str]]:
        """Return the jobs whose last tick failed, with the failure count and the last reason."""
        return dict(self._failures_by_job)

    def get_silent_jobs(self) -> list[str]:
        """Return the jobs that have not ticked for too long."""
        now = self.clock()
        return [
            name
            for name, max_silence in self._max_silence_by_job.items()
            if now - self._last_tick_at[name] > max_silence
        ]

    def stop_monitoring_jobs(self) -> None:
        """Stop monitoring ticks after the worker has ended."""
        self._max_silence_by_job = {}


class Timetable:
    """Schedules when each job runs next; the most overdue job runs first.

    A job is due one period after the start of its last tick. If a job is brought forward during
    its own tick, once or more often, it runs one more tick.
    """

    def __init__(self, jobs: Sequence[Job], clock: Clock = time.monotonic) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._clock = clock
        self._due_at = dict.fromkeys(self._jobs, clock())
        self._changed = threading.Condition()
        self._is_closed = False

    def bring_job_forward(self, name: str, wait_seconds: float = 0.0) -> None:
        """Make a job due within `wait_seconds`; callable from any thread.

        Jobs that are already due still run before it.
        """
        with self._changed:
            if name in self._due_at:
                self._due_at[name] = min(self._due_at[name], self._clock() + wait_seconds)
                self._changed.notify()

    def close_timetable(self) -> None:
        """Prevent any further tick from starting."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def wait_for_job(self) -> Job | None:
        """Wait until a job is due and return it, or return None if the timetable is closed."""
        with self._changed:
            while not self._is_closed:
                now = self._clock()
                job_name = min(self._due_at, key=self._due_at.__getitem__)
                if self._due_at[job_name] <= now:
                    job = self._jobs[job_name]
                    self._due_at[job_name] = now + job.every_seconds
                    return job
                self._changed.wait(self._due_at[job_name] - now)
        return None


class Waker:
    """Brings jobs forward from any thread, and has no effect while no jobs run."""

    def __init__(self) -> None:
        self._timetable: Timetable | None = None

    def wake_job(self, name: str) -> None:
        """Make the named job due now, before the end of its period."""
        timetable = self._timetable
        if timetable is not None:
            timetable.bring_job_forward(name)

    def attach_timetable(self, timetable: Timetable | None) -> None:
        """Set the timetable whose jobs can be woken; None removes it."""
        self._timetable = timetable


def run_jobs(
    jobs: Sequence[Job], stop: threading.Event, liveness: JobLiveness, waker: Waker | None = None
) -> None:
    """Run every job repeatedly until `stop` is set.

    With `waker`, other threads can run a job early.

    Raises:
        Exception: any error of a job other than TransientError.
    """
    failures: list[BaseException] = []
    timetable = Timetable(jobs)
    waker = waker or Waker()

    def run_worker() -> None:
        try:
            while (job := timetable.wait_for_job()) is not None and not stop.is_set():
                wait_seconds = _run_job_tick(job, liveness)
                if wait_seconds is not None:
                    timetable.bring_job_forward(job.name, wait_seconds)
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
            failures.append(error)
        finally:
            stop.set()

    liveness.start_monitoring_jobs(jobs)
    for metered_job in jobs:
        # The metric starts at zero, so that alerts detect the first failure.
        metrics.STEP_FAILURES.labels(metered_job.name)
    # The worker is a daemon thread, so that a hanging network call never delays the exit.
    worker = threading.Thread(target=run_worker, name="worker", daemon=True)
    waker.attach_timetable(timetable)
    worker.start()
    try:
        stop.wait()
    finally:
        waker.attach_timetable(None)
        timetable.close_timetable()
        worker.join(STOP_WAIT_SECONDS)
        liveness.stop_monitoring_jobs()
    if failures:
        raise failures[0]


def run_until_idle(
    jobs: Sequence[Job], stop: threading.Event, clock: Clock = time.monotonic
) -> None:
    """Run every job until no job has work left.

    `stop` ends the run after the current tick. While one job has work, the other jobs still run at
    their intervals, so that the lease is renewed during a long backfill.

    Raises:
        Exception: any error of a job, because there is no next tick.
    """
    ticked_at: dict[str, float] = {}

    def run_tick(job: Job) -> bool:
        ticked_at[job.name] = clock()
        tick_facts = run_measured_tick(job)
        _log_completed_tick(job, tick_facts)
        return tick_facts is not None

    def run_job_until_idle(job: Job) -> bool:
        has_worked = False
        while not stop.is_set() and run_tick(job):
            has_worked = True
            for other_job in jobs:
                elapsed_seconds = clock() - ticked_at.get(other_job.name, math.inf)
                is_due = elapsed_seconds >= other_job.every_seconds and not stop.is_set()
                if other_job is not job and is_due:
                    run_tick(other_job)
        return has_worked

    while sum([run_job_until_idle(job) for job in jobs]):
        pass


def _run_job_tick(job: Job, liveness: JobLiveness) -> float | None:
    """Run one tick, and return the seconds until the next tick.

    The result is None if the job's usual period applies.
    """
    try:
        tick_facts = run_measured_tick(job)
    except TransientError as error:
        metrics.STEP_FAILURES.labels(job.name).inc()
        _log_failed_tick(job, str(error), liveness.record_failure(job.name, str(error)))
        return None
    finally:
        liveness.mark_tick(job.name)
    if previous_failures := liveness.record_success(job.name):
        get_logger().info("step_recovered", step=job.name, failures=previous_failures)
    _log_completed_tick(job, tick_facts)
    if tick_facts is not None:
        # There may be more work, so the next tick is due at once.
        return 0.0
    return None if job.estimate_wait is None else job.estimate_wait()


def run_measured_tick(job: Job) -> TickFacts:
    """Run one tick within a trace span, and record its duration.

    An error of the tick is raised.
    """
    with start_span(f"{job.name} step") as tick_span:
        started_at = time.perf_counter()
        try:
            tick_facts = job.tick()
            tick_span.record_result(tick_facts)
        finally:
            tick_seconds = time.perf_counter() - started_at
            metrics.STEP_SECONDS.labels(job.name).observe(tick_seconds, tick_span.build_exemplar())
    metrics.STEP_DONE.labels(job.name).set_to_current_time()
    return tick_facts


def _log_completed_tick(job: Job, facts: TickFacts) -> None:
    if facts:
        get_logger().info("step_completed", step=job.name, **facts)


def _log_failed_tick(job: Job, reason: str, failure_count: int) -> None:
    if is_power_of_two(failure_count):
        get_logger().warning("step_failed", step=job.name, reason=reason, in_a_row=failure_count)


@dataclass(slots=True)
class EndpointRetryWaiter:
    """Waits before a request is repeated; `stop` ends any wait."""

    stop: StopSignal
    _waited_seconds: float = 0.0

    def run_with_retries(self, request: Callable[[], T]) -> T:
        """Run `request`, and repeat it as long as the endpoint asks for a later retry.

        Raises:
            TransientError: the endpoint did not state a retry time, or the maximum wait is
                exceeded.
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
        """Wait before a retry, up to a maximum, and return the seconds waited.

        The wait is logged.

        Raises:
            TransientError: `error` itself, if it contains no retry time, or if the total wait
                would exceed the maximum.
        """
        if (
            error.retry_after is None
            or self._waited_seconds + error.retry_after > _MAX_PATIENCE_SECONDS
        ):
            raise error
        seconds = min(_MAX_WAIT_SECONDS, max(error.retry_after, 0.1))
        get_logger().warning("waiting_for_endpoint", seconds=round(seconds, 1), reason=str(error))
        self._waited_seconds += seconds
        self.stop.event.wait(seconds)
        return seconds

    def reset_wait(self) -> None:
        """Reset the total waiting time after a success."""
        self._waited_seconds = 0.0


def wrap_jobs_with_waits(jobs: Sequence[Job], stop: StopSignal) -> list[Job]:
    """Return jobs that wait and retry when an endpoint limits their rate."""
    return [_wrap_job_with_waits(job, EndpointRetryWaiter(stop)) for job in jobs]


def _wrap_job_with_waits(job: Job, retry_waiter: EndpointRetryWaiter) -> Job:
    def tick() -> TickFacts:
        try:
            tick_facts = job.tick()
        except TransientError as error:
            return {"did": "waited", "seconds": retry_waiter.wait_for_endpoint(error)}
        retry_waiter.reset_wait()
        return tick_facts

    return replace(job, tick=tick)
