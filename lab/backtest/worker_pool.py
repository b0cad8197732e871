"""Processes a history under several systems in parallel, with one process per system."""

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from threading import current_thread, main_thread
from typing import Any

from lab.backtest.event_history import History
from lab.backtest.measurement import MeasurementPlan, measure_system
from lab.backtest.results import Measurement
from lab.backtest.system_columns import SystemColumn
from oracle.errors import FatalError
from oracle.systems.registry import get_policy

# Starting a worker takes a second or two. For a shorter history, this takes longer than it saves.
MIN_PARALLEL_EVENTS = 30_000
# Seconds between progress reports.
_PROGRESS_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class MeasurementTask:
    """The inputs that all columns share, and the maximum number of processes."""

    history: History
    plan: MeasurementPlan
    max_processes: int = 1


def measure_all_columns(
    columns: Sequence[SystemColumn],
    task: MeasurementTask,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Measurement]:
    """Measure every column, and return the results in column order.

    `on_progress` is called regularly with the number of events folded for all columns together.
    The results do not depend on the number of processes.

    Raises:
        FatalError: a worker process ended before its work was done.
        ValueError: the policy of a column does not exist.
    """
    if (
        task.max_processes == 1
        or len(columns) == 1
        or task.history.folded_count < MIN_PARALLEL_EVENTS
    ):
        return [
            _measure_in_current_process(column, task, on_progress, column_index)
            for column_index, column in enumerate(columns)
        ]
    return _measure_in_parallel(columns, task, on_progress)


def _measure_in_current_process(
    column: SystemColumn,
    task: MeasurementTask,
    on_progress: Callable[[int], None],
    column_index: int,
) -> Measurement:
    events_before = column_index * task.history.folded_count
    policy = get_policy(column.policy, column.policy_changes)
    return measure_system(
        column,
        policy,
        task.history,
        task.plan,
        lambda event_count: on_progress(events_before + event_count),
    )


def _measure_in_parallel(
    columns: Sequence[SystemColumn], task: MeasurementTask, on_progress: Callable[[int], None]
) -> list[Measurement]:
    # Workers are spawned instead of forked, so that they inherit no state on any platform.
    context = get_context("spawn")
    # Number of folded events per column. The last entry is set to 1 to stop the workers.
    folded_counts = context.Array("Q", len(columns) + 1)
    worker_count = min(task.max_processes, len(columns))
    with ProcessPoolExecutor(
        worker_count, context, _initialize_worker, (folded_counts, task)
    ) as pool:
        with ignore_interrupts():
            futures = [
                pool.submit(_measure_in_worker, column_index, column)
                for column_index, column in enumerate(columns)
            ]
        try:
            _wait_for_results(futures, lambda: on_progress(sum(folded_counts[:-1])))
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise FatalError(
                "a worker process died, possibly out of memory; try --jobs 1"
            ) from None
        finally:
            folded_counts[-1] = 1
            pool.shutdown(cancel_futures=True)


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Let worker processes started within this context ignore Ctrl-C.

    The parent process handles the signal and stops the workers.
    """
    if current_thread() is not main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _wait_for_results(futures: Sequence[Future[Measurement]], on_tick: Callable[[], None]) -> None:
    """Wait for all futures, and raise the exception of the first that fails."""
    unfinished_futures: set[Future[Measurement]] = set(futures)
    while unfinished_futures:
        finished_futures, unfinished_futures = wait(unfinished_futures, timeout=_PROGRESS_SECONDS)
        on_tick()
        for future in finished_futures:
            future.result()


class _CancelledError(Exception):
    """The parent process no longer needs the result of this column."""


@dataclass(slots=True)
class _WorkerContext:
    """The data that a worker process keeps between columns."""

    folded_counts: Any
    task: MeasurementTask


_worker_contexts: list[_WorkerContext] = []


def _initialize_worker(folded_counts: Any, task: MeasurementTask) -> None:  # noqa: ANN401 - ctypes' array has no type
    """Store the shared inputs in a new worker process."""
    _worker_contexts.append(_WorkerContext(folded_counts, task))


def _measure_in_worker(column_index: int, column: SystemColumn) -> Measurement:
    context = _worker_contexts[-1]

    def report_progress(event_count: int) -> None:
        if context.folded_counts[-1]:
            raise _CancelledError
        context.folded_counts[column_index] = event_count

    policy = get_policy(column.policy, column.policy_changes)
    return measure_system(column, policy, context.task.history, context.task.plan, report_progress)
