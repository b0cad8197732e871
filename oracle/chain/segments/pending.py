"""Ranges in preparation, and the workers that prepare them; finished ranges are kept on disk."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.chain.segments.order import SegmentOrder
from oracle.chain.segments.ordering import SegmentOrdering
from oracle.chain.segments.process_pool import SegmentExecutor
from oracle.chain.segments.staging import SegmentStage
from oracle.domain.blocks import BlockRange
from oracle.errors import OracleError


@dataclass(slots=True)
class PendingRange:
    """A range in preparation, in a thread of this process or as an order to a worker.

    `worker_deaths` counts workers that died of it. `has_waited`: another window was committed
    while it was ready. `is_staged`: it is on disk. `is_restored`: it was loaded from there.
    """

    part: BlockRange
    here: Future[BlockWindow] | None = None
    order: SegmentOrder | None = None
    there: Future[bytes] | None = None
    deaths: int = 0
    has_waited: bool = False
    is_staged: bool = False
    is_recalled: bool = False

    def is_ready(self) -> bool:
        """Return whether a worker has finished it, successfully or not."""
        return self.there is not None and self.there.done()

    def answer(self) -> bytes | None:
        """Return the worker's answer, or None if it is pending or failed."""
        if self.there is None or not self.there.done() or self.there.cancelled():
            return None
        return None if self.there.exception() else self.there.result()


@dataclass(slots=True)
class Workers:
    """The executor of orders, and the writer's side of it.

    Without a `stage`, finished ranges do not survive a crash.
    """

    executor: SegmentExecutor
    ordering: SegmentOrdering
    stage: SegmentStage | None = None

    def keep_ready(self, first: int, waiting: Iterable[PendingRange]) -> None:
        """Store finished ranges that have waited; discard those below `first_block`."""
        if self.stage is None:
            return
        self.stage.discard_below(first)
        for pending in waiting:
            answer = None if pending.is_staged else pending.answer()
            if pending.has_waited and answer is not None and pending.order is not None:
                self.stage.keep(pending.order, answer)
                pending.is_staged = True
            pending.has_waited = True

    def recalled(self, first: int, last: int) -> PendingRange | None:
        """Load what an earlier run stored of the range from `first_block`, up to `last_block`."""
        found = None if self.stage is None else self.stage.take(first, last)
        if found is None:
            return None
        there: Future[bytes] = Future()
        there.set_result(found.given)
        part = BlockRange(found.order.first, found.order.last)
        return PendingRange(part, order=found.order, there=there, is_staged=True, is_recalled=True)

    def discard(self, pending: PendingRange) -> None:
        """Discard the stored answer of this range."""
        if pending.is_staged and self.stage is not None:
            self.stage.discard(pending.part.first)

    def discard_all(self) -> None:
        """Discard all stored answers."""
        if self.stage is not None:
            self.stage.clear()


def done(work: Callable[[], BlockWindow]) -> Future[BlockWindow]:
    """Run the function now; its result or exception is in the returned future."""
    future: Future[BlockWindow] = Future()
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001  # see above
        future.set_exception(error)
    return future


def given(window: BlockWindow) -> Future[BlockWindow]:
    """Return a completed future with this window."""
    future: Future[BlockWindow] = Future()
    future.set_result(window)
    return future


def failed(error: OracleError) -> Future[BlockWindow]:
    """Return a failed future, which raises the error when its window is taken."""
    future: Future[BlockWindow] = Future()
    future.set_exception(error)
    return future
