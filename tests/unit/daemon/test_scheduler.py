"""The scheduler's loops: which errors they survive, which end them, and how they stop."""

import threading
import time
from collections.abc import Callable, Mapping

import pytest
import structlog

from oracle.daemon.scheduler import (
    MIN_SILENCE_SECONDS,
    STUCK_SECONDS,
    Job,
    JobLiveness,
    Timetable,
    Waker,
    run_jobs,
    run_until_idle,
)
from oracle.errors import FatalError, TransientError
from oracle.telemetry.metrics import REGISTRY

Turn = Callable[[], Mapping[str, object] | None]


def step(run_job: Turn, name="index", every_seconds=0.01):
    return Job(name, every_seconds, run_job)


def running(steps, stop):
    daemon = threading.Thread(target=run_jobs, args=(steps, stop, JobLiveness(time.monotonic)))
    daemon.start()
    return daemon


def test_transient_failure_is_logged_and_job_is_retried():
    stop = threading.Event()
    runs = list[None]()

    def run_job():
        runs.append(None)
        if len(runs) == 1:
            raise TransientError("the endpoint is away")
        stop.set()

    with structlog.testing.capture_logs() as lines:
        run_jobs([step(run_job)], stop, JobLiveness(time.monotonic))

    assert len(runs) == 2
    failed, recovered = lines
    assert (failed["event"], failed["reason"]) == ("step_failed", "the endpoint is away")
    assert (recovered["event"], recovered["failures"]) == ("step_recovered", 1)


def test_failed_run_does_not_update_last_success_timestamp():
    def last() -> float | None:
        name = "oracle_step_last_success_timestamp_seconds"
        return REGISTRY.get_sample_value(name, {"step": "ok"})

    stop = threading.Event()
    timestamps = list[float | None]()
    failures = [False, True]

    def run_job():
        timestamps.append(last())
        if not failures:
            stop.set()
        elif failures.pop(0):
            raise TransientError("the endpoint is away")

    run_jobs([step(run_job, name="ok")], stop, JobLiveness(time.monotonic))

    before, after_success, after_failure = timestamps
    assert before is None
    assert after_success is not None
    assert after_success == after_failure


def test_repeated_failure_is_logged_with_backoff():
    stop = threading.Event()
    runs = list[None]()

    def run_job():
        runs.append(None)
        if len(runs) == 20:
            stop.set()
        raise TransientError("the endpoint is away")

    with structlog.testing.capture_logs() as lines:
        run_jobs([step(run_job, every_seconds=0.001)], stop, JobLiveness(time.monotonic))

    assert [line["in_a_row"] for line in lines] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("failure", [FatalError("wrong chain"), KeyError("a bug")])
def test_non_transient_failure_is_raised_unchanged(failure):
    def run_job():
        raise failure

    with pytest.raises(type(failure)) as raised:
        run_jobs([step(run_job)], threading.Event(), JobLiveness(time.monotonic))

    assert raised.value is failure


def test_job_with_remaining_work_runs_again_immediately():
    stop = threading.Event()
    runs = list[None]()

    def run_job():
        runs.append(None)
        if len(runs) == 20:
            stop.set()
        return {"blocks": 1}

    started = time.monotonic()
    run_jobs([step(run_job, every_seconds=3600)], stop, JobLiveness(time.monotonic))

    assert len(runs) == 20
    assert time.monotonic() - started < 60


def test_job_with_remaining_work_does_not_starve_other_jobs():
    stop = threading.Event()
    order = []

    def busy():
        order.append("index")
        return {"blocks": 1}

    def other():
        order.append("publish")
        if order.count("publish") == 3:
            stop.set()

    run_jobs([step(busy), step(other, "publish")], stop, JobLiveness(time.monotonic))

    assert order.count("publish") == 3


def test_stop_waits_for_running_job():
    stop, inside, finish, ended = (threading.Event() for _ in range(4))

    def run_job():
        inside.set()
        finish.wait(60)
        ended.set()

    daemon = running([step(run_job)], stop)
    inside.wait(60)
    stop.set()
    daemon.join(0.2)
    assert daemon.is_alive()
    finish.set()
    daemon.join(60)
    assert ended.is_set()
    assert not daemon.is_alive()


@pytest.mark.slow
def test_stop_does_not_wait_for_hanging_endpoint():
    stop, inside, never = (threading.Event() for _ in range(3))

    def run_job():
        inside.set()
        never.wait(300)

    daemon = running([step(run_job)], stop)
    inside.wait(60)
    stop.set()
    daemon.join(30)
    assert not daemon.is_alive()
    never.set()


def test_run_once_repeats_every_job_until_idle():
    left = {"index": 2, "publish": 1}
    order = []

    def turn_of(name):
        def run_job():
            if left[name] == 0:
                return None
            left[name] -= 1
            order.append(name)
            return {"left": left[name]}

        return run_job

    run_until_idle(
        [step(turn_of("index")), step(turn_of("publish"), "publish")], threading.Event()
    )

    assert order == ["index", "index", "publish"]


def test_run_once_runs_periodic_jobs_during_long_work():
    seconds = [0.0]
    left = [30]
    renewals = list[float]()

    def renew():
        renewals.append(seconds[0])

    def index():
        seconds[0] += 1
        left[0] -= 1
        return {"left": left[0]} if left[0] > 0 else None

    steps = [step(renew, "lease", every_seconds=10), step(index, every_seconds=1)]
    run_until_idle(steps, threading.Event(), clock=lambda: seconds[0])

    assert renewals == [0, 10, 20, 30]


def test_run_once_stops_at_first_failure():
    def run_job():
        raise TransientError("the endpoint is away")

    with pytest.raises(TransientError):
        run_until_idle([step(run_job)], threading.Event())


def test_job_that_is_no_longer_monitored_is_not_reported_as_silent():
    now = 0.0
    liveness = JobLiveness(lambda: now)
    liveness.start_monitoring_jobs([step(lambda: None, "chain")])
    liveness.start_monitoring_jobs([step(lambda: None)])

    now = MIN_SILENCE_SECONDS + 1
    assert liveness.get_silent_jobs() == ["index"]


def test_job_is_silent_after_five_periods_but_at_least_60_seconds():
    now = 0.0
    liveness = JobLiveness(lambda: now)
    liveness.start_monitoring_jobs(
        [step(lambda: None, every_seconds=1), step(lambda: None, "slow", 60)]
    )

    now = MIN_SILENCE_SECONDS
    assert liveness.get_silent_jobs() == []
    now += 1
    assert liveness.get_silent_jobs() == ["index"]
    liveness.mark_tick("index")
    assert liveness.get_silent_jobs() == []
    now = 301.0
    assert liveness.get_silent_jobs() == ["index", "slow"]


# --- waking ---


def test_woken_job_runs_before_its_scheduled_time():
    waker = Waker()
    stop = threading.Event()
    runs: list[None] = []

    def run_job() -> None:
        runs.append(None)
        if len(runs) == 1:
            threading.Timer(0.05, waker.wake_job, ["slow"]).start()
        else:
            stop.set()

    run_jobs([Job("slow", 600, run_job)], stop, JobLiveness(time.monotonic), waker)

    assert len(runs) == 2


def test_job_woken_repeatedly_while_running_runs_once_more():
    waker = Waker()
    stop = threading.Event()
    runs: list[None] = []

    def run_job() -> None:
        runs.append(None)
        if len(runs) == 1:
            for _ in range(10):
                waker.wake_job("slow")
        elif len(runs) == 2:
            # A third run would follow immediately.
            threading.Timer(0.2, stop.set).start()

    run_jobs([Job("slow", 600, run_job)], stop, JobLiveness(time.monotonic), waker)

    assert len(runs) == 2


def test_waking_a_job_outside_a_run_has_no_effect():
    waker = Waker()
    stop = threading.Event()
    runs: list[None] = []

    def run_job() -> None:
        runs.append(None)
        stop.set()

    waker.wake_job("slow")
    run_jobs([Job("slow", 600, run_job)], stop, JobLiveness(time.monotonic), waker)
    waker.wake_job("slow")
    assert len(runs) == 1


# --- the timetable ---


def names_of(timetable: Timetable, count: int) -> list[str | None]:
    jobs = [timetable.wait_for_job() for _ in range(count)]
    return [None if job is None else job.name for job in jobs]


def test_due_jobs_run_in_order_of_their_due_times():
    now = 0.0
    timetable = Timetable(
        [step(lambda: None, name, every) for name, every in (("a", 5), ("b", 2), ("c", 3))],
        lambda: now,
    )
    assert names_of(timetable, 3) == ["a", "b", "c"]

    now = 6.0
    timetable.bring_job_forward("c")
    assert names_of(timetable, 3) == ["b", "c", "a"]


def test_job_brought_forward_repeatedly_runs_once_more():
    now = 0.0
    timetable = Timetable([step(lambda: None, "a", 50), step(lambda: None, "b", 1)], lambda: now)
    assert names_of(timetable, 2) == ["a", "b"]
    for _ in range(10):
        timetable.bring_job_forward("a")

    now = 1.0
    assert names_of(timetable, 2) == ["a", "b"]
    timetable.close_timetable()
    assert names_of(timetable, 1) == [None]


def test_job_runs_only_once_after_several_missed_periods():
    now = 0.0
    timetable = Timetable([step(lambda: None, "a", 1), step(lambda: None, "b", 70)], lambda: now)
    assert names_of(timetable, 2) == ["a", "b"]

    now = 69.5
    assert names_of(timetable, 1) == ["a"]
    now = 70.2
    assert names_of(timetable, 1) == ["b"]


# --- a worker that is stuck ---


def test_worker_without_progress_is_reported_as_stuck():
    now = 0.0
    liveness = JobLiveness(lambda: now)
    assert liveness.find_stuck_reason() is None
    liveness.start_monitoring_jobs([step(lambda: None, every_seconds=1)])

    now = STUCK_SECONDS
    assert liveness.find_stuck_reason() is None
    now = STUCK_SECONDS + 1
    assert liveness.find_stuck_reason() == "the daemon's worker has made no progress for 181 s"
    liveness.mark_progress()
    assert (liveness.find_stuck_reason(), liveness.get_silent_jobs()) == (None, [])


def test_worker_that_has_ended_is_not_reported_as_stuck():
    now = 0.0
    liveness = JobLiveness(lambda: now)
    liveness.start_monitoring_jobs([step(lambda: None)])
    liveness.stop_monitoring_jobs()

    now = STUCK_SECONDS + 1
    assert (liveness.find_stuck_reason(), liveness.get_silent_jobs()) == (None, [])
