"""Prepares the next ranges while the last one is committed, and returns them in order.

Ranges are prepared by workers if there are workers and enough history is left, otherwise in
threads of this process. The queue is bounded, so that a slow database slows down fetching.
See docs/explanation/segments.md#a-range.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain

import structlog

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.profiles.event_reader import Decoded
from oracle.chain.segments.ordering import SegmentOrdering
from oracle.chain.segments.pending import PendingRange, Workers, done, failed, given
from oracle.chain.segments.process_pool import NoWorkersError, WorkerDiedError
from oracle.chain.segments.segment import RefusedSegmentError, SegmentError
from oracle.domain.blocks import BlockRange
from oracle.domain.coverage import Level
from oracle.domain.log_table import LogTable
from oracle.errors import FatalError, OracleError, TransientError
from oracle.rpc.background import in_background
from oracle.telemetry.indexer_metrics import SEGMENTS


def is_continued(window: BlockWindow, following: BlockWindow) -> bool:
    """Return whether the second window continues the first, with equal level and endpoint.

    A window has one level and one endpoint, which are stored in the coverage ledger.
    """
    is_next = following.range.first == window.range.last + 1
    is_alike = (following.level, following.endpoint) == (window.level, window.endpoint)
    is_linked = following.first_parent == window.last.hash
    are_decoded = window.decoded is not None and following.decoded is not None
    return is_next and is_alike and is_linked and are_decoded


def joined(windows: Sequence[BlockWindow]) -> BlockWindow:
    """Join consecutive windows into one, to be committed together.

    The size of a transaction does not affect the stored data
    (docs/explanation/segments.md#one-transaction).
    """
    first, last = windows[0], windows[-1]
    if len(windows) == 1:
        return first
    return BlockWindow(
        BlockRange(first.range.first, last.range.last),
        first.first_parent,
        last.last,
        list(chain.from_iterable(one.headers for one in windows)),
        LogTable.joined(one.logs for one in windows),
        list(chain.from_iterable(one.calls for one in windows)),
        first.level,
        first.endpoint,
        tuple(chain.from_iterable(one.proven for one in windows)),
        _merge_decoded([one.decoded for one in windows if one.decoded is not None]),
    )


def _merge_decoded(parts: Sequence[Decoded]) -> Decoded:
    return Decoded(
        list(chain.from_iterable(part.events for part in parts)),
        list(chain.from_iterable(part.contract_events for part in parts)),
        list(chain.from_iterable(part.dead for part in parts)),
    )


# Windows prepared in threads; and the number of orders beyond the number of workers.
DEPTH, _MORE_THAN_WORKERS = 4, 2
# A shorter history is read without workers: starting one costs more than it saves.
LEAST_BLOCKS = 2_000
# Timeout after which an order counts as lost, and its worker is ended.
_DEADLINE_SECONDS = 120.0
# A range is split in two after this many workers died of it.
_DEATHS = 2
# Ready windows are joined up to this many logs, because each commit is expensive.
_TOGETHER = 12_000

Fetch = Callable[[BlockRange], BlockWindow]
Cut = Callable[[BlockRange], BlockRange]


class SegmentQueue:
    """Returns windows in order; `cut_range` sizes ranges, `fetch_window` fetches them in threads.

    The threads are daemon threads: stopping does not wait for their requests.
    """

    def __init__(self, fetch: Fetch, cut: Cut, depth: int = DEPTH) -> None:
        self._fetch = fetch
        self._cut = cut
        self._depth = depth
        self.workers: Workers | None = None
        self._waiting: deque[PendingRange] = deque()
        # The last block of the last returned window; and the range that failed since.
        self._given = -1
        self._failed: BlockRange | None = None
        # Whether the use of workers was logged.
        self._is_told = False

    def take(
        self, blocks: BlockRange, most: int | None = None, *, elsewhere: bool = False
    ) -> BlockWindow:
        """Return the window that begins at `blocks.first`, and prepare on up to `blocks.last`.

        The window has at most about `max_blocks` blocks. `prefers_workers`: use workers, if there
        are any; running ones continue in any case. A caller that requests fewer blocks than before
        still gets the larger window that was already fetched, once, so that it is not fetched
        again.

        If a range fails with a transient error, the ranges after it are kept, and only the failed
        one is fetched again.

        Raises:
            OracleError: the error that `fetch_window` raised for this window.
            FatalError: two workers died of one and the same block.
        """
        # Running workers continue to the end, because starting them is expensive.
        is_ordering = any(pending.order is not None for pending in self._waiting)
        uses_workers = (elsewhere or is_ordering) and self._may_order()
        if most is not None and not uses_workers:
            blocks = BlockRange(blocks.first, min(blocks.last, blocks.first + most - 1))
        if self._waiting and not self._is_in_window(blocks):
            self.drop()
        if self.workers is not None:
            self.workers.keep_ready(blocks.first, self._waiting)
        wanted = len(blocks) if most is None else most
        self._fill(blocks, wanted, uses_workers=uses_workers)
        window = self._with_following(self._due(), most)
        self._given = window.range.last
        return window

    def drop(self) -> None:
        """Discard all prepared ranges; running requests are dropped."""
        for pending in self._waiting:
            self._forget(pending)
        if self._waiting and self.workers is not None:
            self.workers.discard_all()
        self._waiting.clear()
        self._given, self._failed = -1, None

    def _may_order(self) -> bool:
        return self.workers is not None and self.workers.ordering.is_possible()

    def _is_in_window(self, blocks: BlockRange) -> bool:
        following = self._failed or self._waiting[0].part
        goes_on = blocks.first == self._given + 1
        return following.first == blocks.first and (goes_on or following.last <= blocks.last)

    # --- pending ranges ---

    def _fill(self, blocks: BlockRange, most: int, *, uses_workers: bool) -> None:
        again, self._failed = self._failed, None
        if again is not None and self._waiting and again.first == blocks.first:
            # Fetched in its own thread, as before, because later ranges are pending too.
            ordered = self._ordered(PendingRange(again)) if uses_workers else None
            self._waiting.appendleft(ordered or self._begun_here(again, alone=False))
        following = self._waiting[-1].part.last + 1 if self._waiting else blocks.first
        while following <= blocks.last and len(self._waiting) < self._most_waiting(uses_workers):
            part = self._cut(BlockRange(following, min(blocks.last, following + most - 1)))
            pending = self._recalled(following, blocks.last) if uses_workers else None
            if pending is None and uses_workers:
                pending = self._ordered(PendingRange(part))
            if pending is None and uses_workers and self._waiting:
                # No endpoint may take a further order now.
                return
            alone = not self._waiting and part.last == blocks.last
            self._waiting.append(pending or self._begun_here(part, alone=alone))
            following = self._waiting[-1].part.last + 1

    def _most_waiting(self, uses_workers: bool) -> int:  # noqa: FBT001  # of this file
        if self.workers is None or not uses_workers:
            return self._depth
        return self.workers.executor.workers + _MORE_THAN_WORKERS

    def _ordered(self, pending: PendingRange) -> PendingRange | None:
        """Have a worker prepare a range; return None if it cannot be ordered now."""
        order = None if self.workers is None else self.workers.ordering.order(pending.part)
        if order is None or self.workers is None:
            return None
        if not self._is_told:
            self._is_told = True
            workers = self.workers.executor.workers
            structlog.get_logger().info("segment_workers_started", workers=workers)
        there = self.workers.executor.submit(order)
        return PendingRange(pending.part, order=order, there=there, deaths=pending.deaths)

    def _recalled(self, first: int, last: int) -> PendingRange | None:
        return None if self.workers is None else self.workers.recalled(first, last)

    def _begun_here(self, part: BlockRange, *, alone: bool) -> PendingRange:
        if not alone:
            future = in_background(lambda: self._fetch(part), f"read ahead {part.first}")
            return PendingRange(part, future)
        # There is no other range to fetch in parallel, so a thread would only cost time.
        return PendingRange(part, done(lambda: self._fetch(part)))

    def _forget(self, pending: PendingRange) -> None:
        if pending.there is not None and pending.order is not None:
            pending.there.cancel()
            if self.workers is not None:
                self.workers.ordering.forget(pending.order)

    # --- the next window ---

    def _due(self) -> BlockWindow:
        """Return the first window; wait and retry as needed."""
        while True:
            pending = self._waiting[0]
            try:
                window = self._taken(pending)
            except TransientError:
                self._failed = self._waiting.popleft().part
                raise
            except BaseException:
                self.drop()
                raise
            if window is not None:
                self._waiting.popleft()
                return window

    def _taken(self, pending: PendingRange) -> BlockWindow | None:
        """Return the window of a range, or None if it had to be started again in another way.

        Raises:
            OracleError: the error of `fetch_window`, or no worker can prepare the range.
        """
        if pending.here is not None:
            return pending.here.result()
        window = None
        try:
            window = self._answered(pending)
        except RefusedSegmentError as refused:
            self._refused(pending, refused)
        except NoWorkersError as error:
            self._go_on_alone(error)
        except (TimeoutError, WorkerDiedError, SegmentError) as error:
            self._lost(pending, error)
        else:
            SEGMENTS.labels("recalled" if pending.is_recalled else "taken").inc()
        return window

    def _answered(self, pending: PendingRange) -> BlockWindow:
        if self.workers is None or pending.order is None or pending.there is None:
            raise RefusedSegmentError("there are no workers any more")
        given = pending.there.result(_DEADLINE_SECONDS)
        return self.workers.ordering.accept(pending.order, given, is_recalled=pending.is_recalled)

    def _refused(self, pending: PendingRange, refused: RefusedSegmentError) -> None:
        """Fetch a refused range in this process, which reports any error as usual."""
        SEGMENTS.labels("refused").inc()
        if self.workers is not None:
            self.workers.discard(pending)
        first = pending.part.first
        structlog.get_logger().debug("segment_refused", first=first, reason=str(refused))
        self._waiting[0] = self._begun_here(pending.part, alone=False)

    def _with_following(self, window: BlockWindow, most: int | None) -> BlockWindow:
        """Join the ready windows that follow, up to what is worth one commit."""
        windows, logs = [window], len(window.logs)
        while self._waiting and self._waiting[0].is_ready() and logs < _TOGETHER:
            pending = self._waiting[0]
            if most is not None and pending.part.last - windows[0].range.first >= most:
                break
            try:
                following = self._taken(pending)
            except OracleError as error:
                # The error belongs to this range, not to the windows before it.
                self._waiting[0] = PendingRange(pending.part, failed(error))
                break
            if following is None:
                break
            if not is_continued(windows[-1], following):
                self._waiting[0] = PendingRange(pending.part, given(following))
                break
            self._waiting.popleft()
            windows.append(following)
            logs += len(following.logs)
        return joined(windows)

    # --- lost orders and missing workers ---

    def _lost(self, pending: PendingRange, error: Exception) -> None:
        """Repeat an order whose worker died, hung or gave an invalid answer.

        The range is not read in this process, because it might crash the writer too.
        """
        SEGMENTS.labels("lost").inc()
        if self.workers is not None:
            self.workers.discard(pending)
        part, deaths = pending.part, pending.deaths + 1
        reason = str(error) or "no answer in time"
        structlog.get_logger().warning(
            "segment_worker_failed", first=part.first, last=part.last, times=deaths, reason=reason
        )
        if self.workers is not None and pending.there is not None:
            self.workers.executor.give_up(pending.there)
            self._forget(pending)
        parts, kept = [part], deaths
        if deaths >= _DEATHS:
            if len(part) == 1:
                raise FatalError(f"workers end at block {part.first}, {deaths} of them: {reason}")
            parts, kept = list(part.chunks((len(part) + 1) // 2)), 0
        again = [self._ordered(PendingRange(each, deaths=kept)) for each in parts]
        if any(one is None for one in again):
            raise TransientError(f"blocks {part.first} to {part.last}: {reason}")
        self._waiting.popleft()
        self._waiting.extendleft(one for one in reversed(again) if one is not None)

    def _go_on_alone(self, error: NoWorkersError) -> None:
        """Prepare all ranges in this process from now on, more slowly."""
        structlog.get_logger().error("segment_workers_unavailable", reason=str(error))
        if self.workers is not None:
            self.workers.executor.close()
        self.workers = None


def verified_by(workers: Workers, level: Level, endpoint: str | None) -> SegmentQueue:
    """Return a queue that verifies blocks up to a level; its answers are not stored on disk."""
    usual = workers.ordering
    windows = usual.windows
    queue = SegmentQueue(
        lambda blocks: windows.verified(blocks, level, endpoint, None),
        lambda blocks: windows.cut_verified(blocks, level),
    )
    ordering = SegmentOrdering(
        usual.plan, usual.endpoints, windows, usual.workers, level, endpoint
    )
    queue.workers = Workers(workers.executor, ordering)
    return queue
