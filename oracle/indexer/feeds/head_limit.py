"""Limits how far the chain is read to the time up to which the feed is settled.

A block is folded once every row of an earlier time is settled: a later row could not be placed
before it any more (docs/explanation/feed.md#one-order).
"""

from dataclasses import dataclass, replace

from oracle.chain.heads import Heads
from oracle.chain.protocols import ChainReader
from oracle.domain.blocks import BlockRef
from oracle.errors import TransientError
from oracle.store.database import Store


@dataclass(slots=True)
class FeedHeadLimit:
    """Provides the chain's heads, limited by the progress of the feed."""

    store: Store
    _newest: BlockRef | None = None

    def of(self, chain: ChainReader) -> Heads:
        """Return the chain's heads, with the newest block at most as late as the settled feed.

        Raises:
            TransientError: the feed was never read, or is settled up to no block yet; or the chain
                does not return a header.
        """
        with self.store.reading() as uow:
            known, cursor = uow.feed.cursor(), uow.cursor.get()
        if known is None or not known.settled_to:
            raise TransientError("the feed was not read yet: no block is folded before")
        heads = chain.heads()
        if heads.latest.time <= known.settled_to:
            return heads
        lowest = 0 if cursor is None else cursor.number
        newest = self._highest(chain, lowest, heads.latest, known.settled_to)
        self._newest = newest
        safe = heads.safe if heads.safe is None or heads.safe.number <= newest.number else newest
        final = heads.final if heads.final.number <= newest.number else newest
        return replace(heads, latest=newest, safe=safe, final=final)

    def _highest(self, chain: ChainReader, low: int, above: BlockRef, until: int) -> BlockRef:
        """Return the highest block from `low_number` on whose time is at most `max_time`."""
        known = self._newest
        if known is not None and low < known.number < above.number:
            low = known.number
        found, high = chain.header_up_to(low), above.number
        if found.time > until:
            raise TransientError("the feed is not settled up to the first block yet")
        while high - low > 1:
            height = (low + high) // 2
            middle = chain.header_up_to(height)
            if middle.time <= until:
                found, low = middle, height
            else:
                high = middle.number
        return found
