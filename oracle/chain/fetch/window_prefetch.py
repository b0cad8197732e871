"""Fetches the next windows in parallel while the last one is being committed, in order.

Bounded: at most DEPTH windows wait or are under way, so that a slow database slows the fetching.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from oracle.chain.fetch.fetcher import BlockWindow
from oracle.domain.blocks import BlockRange
from oracle.errors import TransientError
from oracle.rpc.background import in_background

DEPTH = 4

Fetch = Callable[[BlockRange], BlockWindow]
Cut = Callable[[BlockRange], BlockRange]


class WindowPrefetch:
    """Gives windows in order; `cut` sizes the next range, `fetch` gets it, in a thread.

    The threads are the operating system's to end: whoever stops does not wait for an answer.
    """

    def __init__(self, fetch: Fetch, cut: Cut, depth: int = DEPTH) -> None:
        self._fetch = fetch
        self._cut = cut
        self._depth = depth
        self._waiting: deque[tuple[BlockRange, Future[BlockWindow]]] = deque()
        # Where the window given last ends; and the one that failed since.
        self._given = -1
        self._failed: BlockRange | None = None

    def take(self, blocks: BlockRange) -> BlockWindow:
        """Return the window that begins at `blocks.first`, and fetch on up to `blocks.last`.

        Whoever goes on with less at a time than before gets what was fetched already, once more
        as much as before: it would have to be fetched again.

        Where one fails that may be had later, those behind it stay, and it alone is fetched again.

        Raises:
            OracleError: what `fetch` raised for this window.
        """
        if self._waiting and not self._fits(blocks):
            self.drop()
        self._fill(blocks)
        part, under_way = self._waiting[0]
        try:
            window = under_way.result()
        except TransientError:
            self._waiting.popleft()
            self._failed = part
            raise
        except BaseException:
            self.drop()
            raise
        self._waiting.popleft()
        self._given = window.range.last
        return window

    def drop(self) -> None:
        """Forget what was read ahead; what is under way ends unheard."""
        self._waiting.clear()
        self._given, self._failed = -1, None

    def _fits(self, blocks: BlockRange) -> bool:
        following = self._failed or self._waiting[0][0]
        goes_on = blocks.first == self._given + 1
        return following.first == blocks.first and (goes_on or following.last <= blocks.last)

    def _fill(self, blocks: BlockRange) -> None:
        failed, self._failed = self._failed, None
        if failed is not None and self._waiting and failed.first == blocks.first:
            # A thread of its own, as before: those behind it are under way too.
            self._waiting.appendleft((failed, self._start(failed, alone=False)))
        following = self._waiting[-1][0].last + 1 if self._waiting else blocks.first
        while following <= blocks.last and len(self._waiting) < self._depth:
            part = self._cut(BlockRange(following, blocks.last))
            alone = not self._waiting and part.last == blocks.last
            self._waiting.append((part, self._start(part, alone=alone)))
            following = part.last + 1

    def _start(self, part: BlockRange, *, alone: bool) -> Future[BlockWindow]:
        if not alone:
            return in_background(lambda: self._fetch(part), f"read ahead {part.first}")
        # Nothing to be parallel with: a thread would only cost time.
        future: Future[BlockWindow] = Future()
        try:
            future.set_result(self._fetch(part))
        except BaseException as error:  # noqa: BLE001  # whoever takes the window raises it
            future.set_exception(error)
        return future
