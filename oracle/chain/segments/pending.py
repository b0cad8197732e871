"""Ranges that are under way, and who works on them; what waits for its turn is kept on disk."""

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
    """A range that is under way: in a thread of ours, or as an order that somebody works on.

    `deaths`: of so many workers at it. `has_waited`: something else was committed while it was
    there. `is_staged`: it is on disk. `is_recalled`: it comes from there.
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
        """Tell whether a worker is done with it, however that ended."""
        return self.there is not None and self.there.done()

    def answer(self) -> bytes | None:
        """Return what a worker has answered; None: nothing yet, or it has failed."""
        if self.there is None or not self.there.done() or self.there.cancelled():
            return None
        return None if self.there.exception() else self.there.result()


@dataclass(slots=True)
class Workers:
    """Who prepares ranges elsewhere, and what is known on our side of it.

    `stage` None: what is ready does not outlive a crash.
    """

    executor: SegmentExecutor
    ordering: SegmentOrdering
    stage: SegmentStage | None = None

    def keep_ready(self, first: int, waiting: Iterable[PendingRange]) -> None:
        """Write down what is ready and has waited; throw away what lies below block `first`."""
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
        """Return what an earlier run has left of the range from this block on, up to `last`."""
        found = None if self.stage is None else self.stage.take(first, last)
        if found is None:
            return None
        there: Future[bytes] = Future()
        there.set_result(found.given)
        part = BlockRange(found.order.first, found.order.last)
        return PendingRange(part, order=found.order, there=there, is_staged=True, is_recalled=True)

    def discard(self, pending: PendingRange) -> None:
        """Throw away what is on disk of this range."""
        if pending.is_staged and self.stage is not None:
            self.stage.discard(pending.part.first)

    def discard_all(self) -> None:
        """Throw away whatever is on disk."""
        if self.stage is not None:
            self.stage.clear()


def done(work: Callable[[], BlockWindow]) -> Future[BlockWindow]:
    """Do it now; whoever takes the window raises what it raises."""
    future: Future[BlockWindow] = Future()
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001  # see above
        future.set_exception(error)
    return future


def given(window: BlockWindow) -> Future[BlockWindow]:
    """Return a window that is there already."""
    future: Future[BlockWindow] = Future()
    future.set_result(window)
    return future


def failed(error: OracleError) -> Future[BlockWindow]:
    """Return a window that failed, for who comes to it."""
    future: Future[BlockWindow] = Future()
    future.set_exception(error)
    return future
