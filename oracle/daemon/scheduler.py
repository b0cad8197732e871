"""Repeats the daemon's steps: one worker, one turn at a time, until told to stop.

The only place where a failure may end: a TransientError is told and tried again at the next turn,
anything else ends the daemon. Steps are short (docs/explanation/daemon.md#short-jobs), so a stop
waits for the turn at hand and no longer.
"""

import logging.config
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.executors.base import BaseExecutor, run_job
from apscheduler.schedulers.background import BackgroundScheduler
from typing_extensions import override

from oracle.errors import TransientError
from oracle.telemetry import metrics
from oracle.telemetry.logging_setup import is_power_of_two
from oracle.telemetry.tracing import span

# What a turn may take after a stop; then it is left alone in the middle of a network call. No
# transaction is open there.
PATIENCE_SECONDS = 3.0
# A loop is silent when it missed this many turns, and at least this many seconds.
MISSED_RUNS = 5
LEAST_SILENCE_SECONDS = 60.0

Clock = Callable[[], float]

_QUIET = {"version": 1, "incremental": True, "loggers": {"apscheduler": {"level": "CRITICAL"}}}


@dataclass(frozen=True, slots=True)
class Job:
    """One of the daemon's loops.

    `turn` does one piece of work and returns what to say about it; None: nothing was to be done,
    look again in `every_seconds`.
    """

    name: str
    every_seconds: float
    turn: Callable[[], Mapping[str, object] | None]


@dataclass(slots=True)
class JobLiveness:
    """When each loop last turned, in seconds of `clock`; read by other threads."""

    clock: Clock
    _last: dict[str, float] = field(default_factory=dict)
    _allowed: dict[str, float] = field(default_factory=dict)
    _failing: dict[str, tuple[int, str]] = field(default_factory=dict)

    def expect(self, steps: Sequence[Job]) -> None:
        """Listen to these loops from now on, and to no others."""
        for step in steps:
            self.mark(step.name)
        self._allowed = {
            step.name: max(MISSED_RUNS * step.every_seconds, LEAST_SILENCE_SECONDS)
            for step in steps
        }

    def mark(self, name: str) -> None:
        """Note that the loop has turned."""
        self._last[name] = self.clock()

    def failed(self, name: str, reason: str) -> int:
        """Note that the turn failed in a way that may pass; return how many did in a row."""
        count, _ = self._failing.get(name, (0, ""))
        self._failing[name] = (count + 1, reason)
        return count + 1

    def succeeded(self, name: str) -> int:
        """Note that the turn did what it could; return how many before it failed in a row."""
        count, _ = self._failing.pop(name, (0, ""))
        return count

    def failing(self) -> dict[str, tuple[int, str]]:
        """Return the loops whose last turn failed: how many in a row, and the last reason."""
        return dict(self._failing)

    def silent(self) -> list[str]:
        """Return the loops that have not turned for too long."""
        now = self.clock()
        return [
            name for name, allowed in self._allowed.items() if now - self._last[name] > allowed
        ]


class Waker:
    """Has a step turn at once, from any thread; before the steps run it does nothing.

    However often it is called while the step turns, the step turns once more.
    """

    def __init__(self) -> None:
        self._turn_now: Callable[[str], None] | None = None
        self._wanted: set[str] = set()

    def wake(self, name: str) -> None:
        """Let the step of this name turn now and not at the end of its period."""
        if self._turn_now is not None and name not in self._wanted:
            self._wanted.add(name)
            self._turn_now(name)

    def attach(self, turn_now: Callable[[str], None] | None) -> None:
        """Say how a step is brought forward; None: none can be any more."""
        self._turn_now = turn_now
        self._wanted.clear()

    def took_up(self, name: str) -> None:
        """Note that the step begins to turn: whoever calls from now on means the next turn."""
        self._wanted.discard(name)

    def is_wanted(self, name: str) -> bool:
        """Tell whether somebody called since the step began to turn."""
        return name in self._wanted


def run(
    steps: Sequence[Job], stop: threading.Event, liveness: JobLiveness, waker: Waker | None = None
) -> None:
    """Turn every step until `stop` is set; `waker` brings single turns forward.

    Raises:
        Exception: whatever a step raised that does not pass by itself.
    """
    failures: list[BaseException] = []
    worker, waker = _Worker(), waker or Waker()
    scheduler = BackgroundScheduler(
        executors={"default": worker},
        job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": None},
        timezone="UTC",
    )
    # It warns of every turn that takes longer than its period, and tells every failure twice.
    logging.config.dictConfig(_QUIET)

    def after_turn(event: JobExecutionEvent) -> None:
        if event.exception is not None:
            failures.append(event.exception)
            stop.set()
        elif (event.retval or waker.is_wanted(event.job_id)) and not stop.is_set():
            # More to do: queue up again at once, behind the others.
            _bring_forward(scheduler, event.job_id)

    scheduler.add_listener(after_turn, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    liveness.expect(steps)
    for step in steps:
        # Alerts see a zero before the first failure.
        metrics.STEP_FAILURES.labels(step.name)
        scheduler.add_job(
            _turned,
            "interval",
            (step, stop, liveness, waker),
            id=step.name,
            seconds=step.every_seconds,
        )
    scheduler.start()
    for step in steps:
        _bring_forward(scheduler, step.name)
    waker.attach(lambda name: _bring_forward(scheduler, name))
    try:
        stop.wait()
    finally:
        waker.attach(None)
        scheduler.shutdown(wait=False)
        worker.join(PATIENCE_SECONDS)
    if failures:
        raise failures[0]


def run_once(steps: Sequence[Job], stop: threading.Event, clock: Clock = time.monotonic) -> None:
    """Turn every step until none has anything to do, or `stop` is set: then no other turn begins.

    While one has, those before it keep their periods: a lease is renewed through a long backfill.

    Raises:
        Exception: whatever a step raised; there is no next turn.
    """
    turned: dict[str, float] = {}

    def turn(step: Job) -> bool:
        turned[step.name] = clock()
        done = _measured(step)
        _say(step, done)
        return done is not None

    def exhausted(step: Job) -> bool:
        worked = False
        while not stop.is_set() and turn(step):
            worked = True
            for other in steps:
                since = clock() - turned.get(other.name, math.inf)
                is_due = since >= other.every_seconds and not stop.is_set()
                if other is not step and is_due:
                    turn(other)
        return worked

    while sum([exhausted(step) for step in steps]):
        pass


def _bring_forward(scheduler: BackgroundScheduler, name: str) -> None:
    job = scheduler.get_job(name)
    if job is not None and job.next_run_time is not None:
        # One period back is now or a little before, and at once.
        job.modify(next_run_time=job.next_run_time - job.trigger.interval)


def _turned(step: Job, stop: threading.Event, liveness: JobLiveness, waker: Waker) -> bool:
    """Turn once and tell whether there may be more to do."""
    waker.took_up(step.name)
    if stop.is_set():
        return False
    try:
        done = _measured(step)
    except TransientError as error:
        metrics.STEP_FAILURES.labels(step.name).inc()
        _say_failed(step, str(error), liveness.failed(step.name, str(error)))
        return False
    finally:
        liveness.mark(step.name)
    if in_a_row := liveness.succeeded(step.name):
        structlog.get_logger().info("step_recovered", step=step.name, failures=in_a_row)
    _say(step, done)
    return done is not None


def _measured(step: Job) -> Mapping[str, object] | None:
    with metrics.STEP_SECONDS.labels(step.name).time(), span(f"{step.name} step") as traced:
        done = step.turn()
        traced.did(done)
    metrics.STEP_DONE.labels(step.name).set_to_current_time()
    return done


def _say(step: Job, done: Mapping[str, object] | None) -> None:
    if done:
        structlog.get_logger().info("step_completed", step=step.name, **done)


def _say_failed(step: Job, reason: str, in_a_row: int) -> None:
    if is_power_of_two(in_a_row):
        structlog.get_logger().warning(
            "step_failed", step=step.name, reason=reason, in_a_row=in_a_row
        )


class _Worker(BaseExecutor):  # type: ignore[misc]  # APScheduler has no annotations
    """One thread that does what is due, in order; a daemon thread, so it never delays an exit."""

    def __init__(self) -> None:
        super().__init__()
        self._due: queue.SimpleQueue[tuple[Any, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="worker", daemon=True)

    @override
    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._thread.start()

    @override
    def shutdown(self, wait: bool = True) -> None:
        self._due.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    @override
    def _do_submit_job(self, job: Any, run_times: Any) -> None:
        self._due.put((job, run_times))

    def _work(self) -> None:
        while (due := self._due.get()) is not None:
            job, run_times = due
            events = run_job(job, "default", run_times, "apscheduler.executors.default")
            self._run_job_success(job.id, events)
