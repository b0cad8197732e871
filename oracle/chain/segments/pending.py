"""Tracks the ranges being prepared, and stores finished ranges on disk."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.segments.ordering import SegmentCoordinator
from oracle.chain.segments.process_pool import SegmentExecutor
from oracle.chain.segments.segment_request import SegmentRequest
from oracle.chain.segments.staging import SegmentStage
from oracle.domain.blocks import BlockRange
from oracle.errors import OracleError


@dataclass(slots=True)
class PendingRange:
    """A range that a worker, or a thread of this process, is preparing.

    `worker_deaths` is the number of workers that died while they prepared the range. `has_waited`
    is whether another window was committed since the range was requested. `is_staged` is whether
    the answer is stored on disk, and `is_restored` whether the answer was loaded from disk.
    """

    blocks: BlockRange
    local_window: Future[BlockWindow] | None = None
    request: SegmentRequest | None = None
    worker_answer: Future[bytes] | None = None
    worker_deaths: int = 0
    has_waited: bool = False
    is_staged: bool = False
    is_restored: bool = False

    def is_ready(self) -> bool:
        """Return whether a worker has finished the range, successfully or not."""
        return self.worker_answer is not None and self.worker_answer.done()

    def get_answer(self) -> bytes | None:
        """Return the worker's answer, or None if it is pending or has failed."""
        if (
            self.worker_answer is None
            or not self.worker_answer.done()
            or self.worker_answer.cancelled()
        ):
            return None
        return None if self.worker_answer.exception() else self.worker_answer.result()


@dataclass(slots=True)
class SegmentWorkers:
    """The executor and the coordinator of requests, and the stage for stored answers.

    The executor runs the requests that the coordinator creates. If `stage` is None, finished
    ranges are lost in a crash.
    """

    executor: SegmentExecutor
    coordinator: SegmentCoordinator
    stage: SegmentStage | None = None

    def store_ready_ranges(self, first_block: int, pending_ranges: Iterable[PendingRange]) -> None:
        """Store the finished ranges that were pending at the previous call.

        Stored ranges below `first_block` are discarded.
        """
        if self.stage is None:
            return
        self.stage.discard_segments_below(first_block)
        for pending_range in pending_ranges:
            answer = None if pending_range.is_staged else pending_range.get_answer()
            if (
                pending_range.has_waited
                and answer is not None
                and pending_range.request is not None
            ):
                self.stage.store_answer(pending_range.request, answer)
                pending_range.is_staged = True
            pending_range.has_waited = True

    def restore_range(self, first_block: int, last_block: int) -> PendingRange | None:
        """Restore the stored range that begins at `first_block`.

        The result is None if there is none. A range that ends above `last_block` is not returned.
        """
        staged_answer = (
            None if self.stage is None else self.stage.load_segment(first_block, last_block)
        )
        if staged_answer is None:
            return None
        answer_future: Future[bytes] = Future()
        answer_future.set_result(staged_answer.answer)
        blocks = BlockRange(staged_answer.request.first, staged_answer.request.last)
        return PendingRange(
            blocks,
            request=staged_answer.request,
            worker_answer=answer_future,
            is_staged=True,
            is_restored=True,
        )

    def discard_range(self, pending_range: PendingRange) -> None:
        """Discard the stored answer for this range."""
        if pending_range.is_staged and self.stage is not None:
            self.stage.discard_segment(pending_range.blocks.first)

    def discard_all_ranges(self) -> None:
        """Discard all stored answers."""
        if self.stage is not None:
            self.stage.clear()


def run_synchronously(fetch_window: Callable[[], BlockWindow]) -> Future[BlockWindow]:
    """Run a function in this thread, and return a future with its result or exception."""
    future: Future[BlockWindow] = Future()
    try:
        future.set_result(fetch_window())
    except BaseException as error:  # noqa: BLE001  # see above
        future.set_exception(error)
    return future


def make_completed_future(window: BlockWindow) -> Future[BlockWindow]:
    future: Future[BlockWindow] = Future()
    future.set_result(window)
    return future


def make_failed_future(error: OracleError) -> Future[BlockWindow]:
    """Create a future that has failed with this error."""
    future: Future[BlockWindow] = Future()
    future.set_exception(error)
    return future
