"""Folds a history under several systems in parallel, each in its own process."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from threading import current_thread, main_thread
from typing import Any

from lab.backtest.measurement import MeasurementPlan, measure
from lab.backtest.results import Measured
from lab.backtest.system_columns import SystemColumn
from oracle.errors import FatalError
from oracle.queries.event_history import History
from oracle.systems.registry import get_policy

# A process takes a second or two to start; shorter histories are faster without one.
ALONE_BELOW = 30_000
# Interval of progress reports, in seconds.
_GLANCE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """The common inputs of all columns, and the maximum number of processes."""

    history: History
    asked: MeasurementPlan
    jobs: int = 1


def measure_all(
    columns: Sequence[SystemColumn],
    bench: WorkerPool,
    told: Callable[[int], None] = lambda _: None,
) -> list[Measured]:
    """Measure every column; the results are in the order of the columns.

    `on_progress` is called regularly with the number of events folded for all columns together.
    The number of processes does not change the results.

    Raises:
        FatalError: a worker process ended before its work was done.
        ValueError: no such policy as a column names.
    """
    if bench.jobs == 1 or len(columns) == 1 or bench.history.folded_count < ALONE_BELOW:
        return [_alone(column, bench, told, place) for place, column in enumerate(columns)]
    return _together(columns, bench, told)


def _alone(
    column: SystemColumn, bench: WorkerPool, told: Callable[[int], None], before: int
) -> Measured:
    base = before * bench.history.folded_count
    policy = get_policy(column.policy, column.tuning)
    return measure(column, policy, bench.history, bench.asked, lambda done: told(base + done))


def _together(
    columns: Sequence[SystemColumn], bench: WorkerPool, told: Callable[[int], None]
) -> list[Measured]:
    # Spawned rather than forked, so that workers inherit no state on any platform.
    context = get_context("spawn")
    # The number of events folded per column; the last entry signals workers to stop.
    folded = context.Array("Q", len(columns) + 1)
    workers = min(bench.jobs, len(columns))
    with ProcessPoolExecutor(workers, context, _begin, (folded, bench)) as pool:
        with without_interrupts():
            working = [pool.submit(_measured, place, each) for place, each in enumerate(columns)]
        try:
            _attend(working, lambda: told(sum(folded[:-1])))
            return [each.result() for each in working]
        except BrokenProcessPool:
            raise FatalError(
                "a process ended before its work was done, perhaps for want of memory: "
                "--jobs 1 needs the least"
            ) from None
        finally:
            folded[-1] = 1
            pool.shutdown(cancel_futures=True)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in processes that are started within this context.

    The parent process handles the signal and stops them.
    """
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _attend(working: Sequence[Future[Measured]], glance: Callable[[], None]) -> None:
    """Wait for all futures, or for the first that fails."""
    waiting: set[Future[Measured]] = set(working)
    while waiting:
        done, waiting = wait(waiting, timeout=_GLANCE_SECONDS)
        glance()
        for each in done:
            each.result()


class _StoppedError(Exception):
    """The result of this column is not needed any more."""


@dataclass(slots=True)
class _Post:
    """The inputs of a worker process."""

    folded: Any
    bench: WorkerPool


_posts: list[_Post] = []


def _begin(folded: Any, bench: WorkerPool) -> None:  # noqa: ANN401 - ctypes' array has no type
    """Initialise a worker process."""
    _posts.append(_Post(folded, bench))


def _measured(place: int, column: SystemColumn) -> Measured:
    """Measure one column in a worker process."""
    post = _posts[-1]

    def told(done: int) -> None:
        if post.folded[-1]:
            raise _StoppedError
        post.folded[place] = done

    policy = get_policy(column.policy, column.tuning)
    return measure(column, policy, post.bench.history, post.bench.asked, told)
