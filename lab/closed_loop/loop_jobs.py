"""Runs several closed loops, in parallel processes if more than one is allowed."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from typing_extensions import override

from lab.backtest.system_columns import SystemColumn
from lab.backtest.worker_pool import ignore_interrupts
from lab.closed_loop.closed_loop import run_closed_loop
from lab.closed_loop.loop_plan import Cast, LoopPlan
from lab.closed_loop.loop_result import LoopResult
from oracle.errors import FatalError


class LoopJob:
    """One closed loop to run: the system, the plan, and a function that builds the cast.

    Jobs with the same system name, plan and function are equal. `build_cast` must be picklable.
    """

    __slots__ = ("_key", "cast", "column", "plan")

    def __init__(
        self, column: SystemColumn, plan: LoopPlan, build_cast: Callable[[LoopPlan], Cast]
    ) -> None:
        self.column, self.plan, self.cast = column, plan, build_cast
        self._key = (column.name, plan, build_cast)

    @override
    def __hash__(self) -> int:
        return hash(self._key)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, LoopJob) and self._key == other._key


def run_jobs(
    jobs: Sequence[LoopJob],
    processes: int,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> list[LoopResult]:
    """Run every job and return the results in the order of the jobs.

    `on_progress` is called after each job with the number of finished jobs and the total number of
    jobs. The results do not depend on the number of processes.

    Raises:
        ValueError: a system cannot be simulated.
        FatalError: a worker process ended before its work was done.
    """
    results = []
    if processes <= 1 or len(jobs) <= 1:
        for job in jobs:
            results.append(_run_job(job))
            on_progress(len(results), len(jobs))
        return results
    context = get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), context) as pool:
        with ignore_interrupts():
            futures = [pool.submit(_run_job, job) for job in jobs]
        try:
            for future in futures:
                results.append(future.result())
                on_progress(len(results), len(jobs))
        except BrokenProcessPool:
            raise FatalError(
                "a worker process died, possibly out of memory; try --jobs 1"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
    return results


def _run_job(job: LoopJob) -> LoopResult:
    return run_closed_loop(job.column, job.plan, job.cast(job.plan))
