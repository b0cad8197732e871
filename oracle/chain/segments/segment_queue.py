"""Prepares the next ranges while the last is committed, and returns them in order.

Ranges are prepared by workers if there are workers and enough history is left, otherwise by
threads of this process. The length of the queue is limited, so that a slow database also slows
down fetching. See docs/explanation/segments.md#a-range.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import DecodedEvents
from oracle.chain.segments.ordering import SegmentCoordinator
from oracle.chain.segments.pending import (
    PendingRange,
    SegmentWorkers,
    make_completed_future,
    make_failed_future,
    run_synchronously,
)
from oracle.chain.segments.process_pool import WorkerDiedError, WorkerStartError
from oracle.chain.segments.segment import RefusedSegmentError, SegmentError
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import VerificationLevel
from oracle.domain.logs import LogTable
from oracle.errors import FatalError, OracleError, TransientError
from oracle.rpc.background import run_in_background
from oracle.telemetry.indexer_metrics import SEGMENTS
from oracle.telemetry.logger import get_logger


def can_join_windows(window: BlockWindow, next_window: BlockWindow) -> bool:
    """Return whether the next window directly follows, with the same level and endpoint.

    Level and endpoint must be the same, because the coverage stores one of each per window.
    """
    is_next = next_window.range.first == window.range.last + 1
    is_same_origin = (next_window.level, next_window.endpoint) == (window.level, window.endpoint)
    is_linked = next_window.first_parent == window.last.hash
    are_decoded = window.decoded is not None and next_window.decoded is not None
    return is_next and is_same_origin and is_linked and are_decoded


def join_windows(windows: Sequence[BlockWindow]) -> BlockWindow:
    """Join consecutive windows into one, to be committed in one transaction.

    The stored data does not depend on the size of a transaction
    (docs/explanation/segments.md#one-transaction).
    """
    first_window = windows[0]
    last_window = windows[-1]
    if len(windows) == 1:
        return first_window
    return BlockWindow(
        BlockRange(first_window.range.first, last_window.range.last),
        first_window.first_parent,
        last_window.last,
        list(chain.from_iterable(window.headers for window in windows)),
        LogTable.concatenate(window.logs for window in windows),
        list(chain.from_iterable(window.calls for window in windows)),
        first_window.level,
        first_window.endpoint,
        tuple(chain.from_iterable(window.proven for window in windows)),
        _merge_decoded_events(
            [window.decoded for window in windows if window.decoded is not None]
        ),
    )


def _merge_decoded_events(parts: Sequence[DecodedEvents]) -> DecodedEvents:
    return DecodedEvents(
        list(chain.from_iterable(part.events for part in parts)),
        list(chain.from_iterable(part.contract_events for part in parts)),
        list(chain.from_iterable(part.dead_letters for part in parts)),
    )


# The number of windows that threads prepare concurrently.
DEFAULT_DEPTH = 4
# The number of requests to queue beyond one per worker.
_EXTRA_REQUESTS = 2
# A range with fewer blocks is read without workers, because starting a worker takes longer than it
# saves.
MIN_WORKER_BLOCKS = 2_000
# A request that takes longer than this counts as lost, and its worker is terminated.
_REQUEST_TIMEOUT_SECONDS = 120.0
# A range is split in two after this many workers died while preparing it.
_MAX_WORKER_DEATHS = 2
# Finished windows are merged until they contain this many logs, because each commit is expensive.
_MAX_JOINED_LOGS = 12_000

WindowFetch = Callable[[BlockRange], BlockWindow]
RangeCut = Callable[[BlockRange], BlockRange]


class SegmentQueue:
    """Prefetches block windows in threads or workers, and returns them in block order.

    `cut_range` limits the size of a range, and `fetch_window` fetches a range in a thread. The
    threads are daemon threads, so that the exit does not wait for their requests.
    """

    def __init__(
        self, fetch_window: WindowFetch, cut_range: RangeCut, depth: int = DEFAULT_DEPTH
    ) -> None:
        self._fetch_window = fetch_window
        self._cut_range = cut_range
        self._depth = depth
        self.workers: SegmentWorkers | None = None
        self._pending_ranges: deque[PendingRange] = deque()
        # The last block of the most recently returned window, and the range after it if that range
        # failed.
        self._last_returned = -1
        self._failed_range: BlockRange | None = None
        # True once the use of workers has been logged.
        self._is_logged = False

    def take_window(
        self, blocks: BlockRange, max_blocks: int | None = None, *, prefer_workers: bool = False
    ) -> BlockWindow:
        """Return the window starting at `blocks.first`, and prepare the ranges after it.

        Ranges are prepared up to `blocks.last`. The window has at most about `max_blocks` blocks.
        With `prefer_workers`, workers are used if there are any; requests that are running are
        continued in any case. A larger window that is already fetched is returned even if the
        caller requests fewer blocks than before, so that it does not have to be fetched again.

        If a range fails with a transient error, the ranges after it are kept, and only the failed
        range is fetched again.

        Raises:
            OracleError: the error that `fetch_window` raised for this window.
            FatalError: two workers died while preparing the same single block.
        """
        # Running workers continue to the end, because starting them is expensive.
        is_requesting = any(
            pending_range.request is not None for pending_range in self._pending_ranges
        )
        uses_workers = (prefer_workers or is_requesting) and self._can_use_workers()
        if max_blocks is not None and not uses_workers:
            blocks = blocks.take_first(max_blocks)
        if self._pending_ranges and not self._continues_queue(blocks):
            self.discard_pending()
        if self.workers is not None:
            self.workers.store_ready_ranges(blocks.first, self._pending_ranges)
        block_count = len(blocks) if max_blocks is None else max_blocks
        self._fill_queue(blocks, block_count, use_workers=uses_workers)
        window = self._join_ready_windows(self._wait_for_first_window(), max_blocks)
        self._last_returned = window.range.last
        return window

    def discard_pending(self) -> None:
        """Discard all prepared ranges and the results of running requests."""
        for pending_range in self._pending_ranges:
            self._cancel_request(pending_range)
        if self._pending_ranges and self.workers is not None:
            self.workers.discard_all_ranges()
        self._pending_ranges.clear()
        self._last_returned, self._failed_range = -1, None

    def _can_use_workers(self) -> bool:
        return self.workers is not None and self.workers.coordinator.can_prepare_ranges()

    def _continues_queue(self, blocks: BlockRange) -> bool:
        following_blocks = self._failed_range or self._pending_ranges[0].blocks
        is_next = blocks.first == self._last_returned + 1
        return following_blocks.first == blocks.first and (
            is_next or following_blocks.last <= blocks.last
        )

    # --- pending ranges ---

    def _fill_queue(self, blocks: BlockRange, max_blocks: int, *, use_workers: bool) -> None:
        failed_range, self._failed_range = self._failed_range, None
        if (
            failed_range is not None
            and self._pending_ranges
            and failed_range.first == blocks.first
        ):
            # Later ranges are still pending, so this one is fetched in a thread.
            repeated_request = (
                self._submit_request(PendingRange(failed_range)) if use_workers else None
            )
            self._pending_ranges.appendleft(
                repeated_request or self._fetch_range_locally(failed_range, is_only_range=False)
            )
        next_block = (
            self._pending_ranges[-1].blocks.last + 1 if self._pending_ranges else blocks.first
        )
        while next_block <= blocks.last and len(
            self._pending_ranges
        ) < self._get_max_pending_ranges(use_workers):
            next_range = self._cut_range(
                BlockRange(next_block, blocks.last).take_first(max_blocks)
            )
            pending_range = self._restore_range(next_block, blocks.last) if use_workers else None
            if pending_range is None and use_workers:
                pending_range = self._submit_request(PendingRange(next_range))
            if pending_range is None and use_workers and self._pending_ranges:
                # No endpoint accepts another request right now.
                return
            is_only_range = not self._pending_ranges and next_range.last == blocks.last
            self._pending_ranges.append(
                pending_range or self._fetch_range_locally(next_range, is_only_range=is_only_range)
            )
            next_block = self._pending_ranges[-1].blocks.last + 1

    def _get_max_pending_ranges(self, use_workers: bool) -> int:  # noqa: FBT001  # of this file
        if self.workers is None or not use_workers:
            return self._depth
        return self.workers.executor.worker_count + _EXTRA_REQUESTS

    def _submit_request(self, pending_range: PendingRange) -> PendingRange | None:
        """Request a range from a worker and return it, or None if no request is possible."""
        request = (
            None
            if self.workers is None
            else self.workers.coordinator.create_segment_request(pending_range.blocks)
        )
        if request is None or self.workers is None:
            return None
        if not self._is_logged:
            self._is_logged = True
            worker_count = self.workers.executor.worker_count
            get_logger().info("segment_workers_started", workers=worker_count)
        answer_future = self.workers.executor.submit(request)
        return PendingRange(
            pending_range.blocks,
            request=request,
            worker_answer=answer_future,
            worker_deaths=pending_range.worker_deaths,
        )

    def _restore_range(self, first_block: int, last_block: int) -> PendingRange | None:
        if self.workers is None:
            return None
        return self.workers.restore_range(first_block, last_block)

    def _fetch_range_locally(self, blocks: BlockRange, *, is_only_range: bool) -> PendingRange:
        if not is_only_range:
            window_future = run_in_background(
                lambda: self._fetch_window(blocks), f"read ahead {blocks.first}"
            )
            return PendingRange(blocks, window_future)
        # Nothing else can be fetched in parallel, so a thread would only cost time.
        return PendingRange(blocks, run_synchronously(lambda: self._fetch_window(blocks)))

    def _cancel_request(self, pending_range: PendingRange) -> None:
        if pending_range.worker_answer is not None and pending_range.request is not None:
            pending_range.worker_answer.cancel()
            if self.workers is not None:
                self.workers.coordinator.release_reserved_calls(pending_range.request)

    # --- the next window ---

    def _wait_for_first_window(self) -> BlockWindow:
        """Wait for the first window, retrying as needed, and return it."""
        while True:
            pending_range = self._pending_ranges[0]
            try:
                window = self._collect_window(pending_range)
            except TransientError:
                self._failed_range = self._pending_ranges.popleft().blocks
                raise
            except BaseException:
                self.discard_pending()
                raise
            if window is not None:
                self._pending_ranges.popleft()
                return window

    def _collect_window(self, pending_range: PendingRange) -> BlockWindow | None:
        """Return the window of a range, or None if its preparation was restarted.

        Raises:
            OracleError: the error of `fetch_window`, or no worker can prepare the range.
        """
        if pending_range.local_window is not None:
            return pending_range.local_window.result()
        window = None
        try:
            window = self._wait_for_answer(pending_range)
        except RefusedSegmentError as refusal:
            self._retry_range_locally(pending_range, refusal)
        except WorkerStartError as error:
            self._disable_workers(error)
        except (TimeoutError, WorkerDiedError, SegmentError) as error:
            self._repeat_lost_request(pending_range, error)
        else:
            SEGMENTS.labels("recalled" if pending_range.is_restored else "taken").inc()
        return window

    def _wait_for_answer(self, pending_range: PendingRange) -> BlockWindow:
        if (
            self.workers is None
            or pending_range.request is None
            or pending_range.worker_answer is None
        ):
            raise RefusedSegmentError("the workers were disabled")
        answer = pending_range.worker_answer.result(_REQUEST_TIMEOUT_SECONDS)
        return self.workers.coordinator.accept_answer(
            pending_range.request, answer, is_restored=pending_range.is_restored
        )

    def _retry_range_locally(
        self, pending_range: PendingRange, error: RefusedSegmentError
    ) -> None:
        """Fetch a refused range in this process.

        Any error is then reported as usual.
        """
        SEGMENTS.labels("refused").inc()
        if self.workers is not None:
            self.workers.discard_range(pending_range)
        first_block = pending_range.blocks.first
        get_logger().debug("segment_refused", first=first_block, reason=str(error))
        self._pending_ranges[0] = self._fetch_range_locally(
            pending_range.blocks, is_only_range=False
        )

    def _join_ready_windows(self, window: BlockWindow, max_blocks: int | None) -> BlockWindow:
        """Join a window with the ready windows after it, up to the size of one commit."""
        windows = [window]
        log_count = len(window.logs)
        while (
            self._pending_ranges
            and self._pending_ranges[0].is_ready()
            and log_count < _MAX_JOINED_LOGS
        ):
            pending_range = self._pending_ranges[0]
            if (
                max_blocks is not None
                and pending_range.blocks.last - windows[0].range.first >= max_blocks
            ):
                break
            try:
                following_window = self._collect_window(pending_range)
            except OracleError as error:
                # The error concerns only this range, so the windows before it are still returned.
                self._pending_ranges[0] = PendingRange(
                    pending_range.blocks, make_failed_future(error)
                )
                break
            if following_window is None:
                break
            if not can_join_windows(windows[-1], following_window):
                self._pending_ranges[0] = PendingRange(
                    pending_range.blocks, make_completed_future(following_window)
                )
                break
            self._pending_ranges.popleft()
            windows.append(following_window)
            log_count += len(following_window.logs)
        return join_windows(windows)

    # --- lost requests and missing workers ---

    def _repeat_lost_request(self, pending_range: PendingRange, error: Exception) -> None:
        """Repeat a request whose worker died, hung or returned an invalid answer.

        The range is not read in this process, because it might crash the writer as well.
        """
        SEGMENTS.labels("lost").inc()
        if self.workers is not None:
            self.workers.discard_range(pending_range)
        blocks = pending_range.blocks
        worker_deaths = pending_range.worker_deaths + 1
        reason = str(error) or "no answer in time"
        get_logger().warning(
            "segment_worker_failed",
            first=blocks.first,
            last=blocks.last,
            times=worker_deaths,
            reason=reason,
        )
        if self.workers is not None and pending_range.worker_answer is not None:
            self.workers.executor.abort_request(pending_range.worker_answer)
            self._cancel_request(pending_range)
        block_ranges = [blocks]
        kept_deaths = worker_deaths
        if worker_deaths >= _MAX_WORKER_DEATHS:
            if len(blocks) == 1:
                raise FatalError(
                    f"block {blocks.first}: {worker_deaths} workers failed to prepare this block: "
                    f"{reason}"
                )
            block_ranges = list(blocks.iter_chunks((len(blocks) + 1) // 2))
            kept_deaths = 0
        requests = [
            self._submit_request(PendingRange(block_range, worker_deaths=kept_deaths))
            for block_range in block_ranges
        ]
        if any(request is None for request in requests):
            raise TransientError(f"blocks {blocks.first} to {blocks.last}: {reason}")
        self._pending_ranges.popleft()
        self._pending_ranges.extendleft(
            request for request in reversed(requests) if request is not None
        )

    def _disable_workers(self, error: WorkerStartError) -> None:
        """Stop using workers, and prepare all later ranges in this process.

        This is done if workers cannot start.
        """
        get_logger().error("segment_workers_unavailable", reason=str(error))
        if self.workers is not None:
            self.workers.executor.close()
        self.workers = None


def build_verification_queue(
    workers: SegmentWorkers, level: VerificationLevel, endpoint: str | None
) -> SegmentQueue:
    """Build a queue that verifies blocks up to a level, storing no answers on disk."""
    coordinator = workers.coordinator
    window_source = coordinator.window_source
    queue = SegmentQueue(
        lambda blocks: window_source.fetch_verified_window(blocks, level, endpoint, None),
        lambda blocks: window_source.limit_range_to_one_fetch(blocks, level),
    )
    verifying_coordinator = SegmentCoordinator(
        coordinator.plan,
        coordinator.endpoints,
        window_source,
        coordinator.worker_count,
        level,
        endpoint,
    )
    queue.workers = SegmentWorkers(workers.executor, verifying_coordinator)
    return queue
