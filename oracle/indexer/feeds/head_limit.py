"""Limits how far the chain is read to the time up to which the feed is settled.

A block is folded only once every row with an earlier time is settled, because a row cannot be
placed before a folded block (docs/explanation/feed.md#order-with-the-chain).
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
    _last_newest: BlockRef | None = None

    def get_heads(self, chain: ChainReader) -> Heads:
        """Return the chain's heads, limited to blocks up to the time to which the feed is settled.

        Raises:
            TransientError: the feed was never read, or is not settled up to any block yet; or the
                chain does not return a header.
        """
        with self.store.read_transaction() as uow:
            feed_cursor, cursor = uow.feed.get_cursor(), uow.cursor.get()
        if feed_cursor is None or not feed_cursor.settled_to:
            raise TransientError(
                "the feed was not read yet; no block is folded before its first poll"
            )
        heads = chain.fetch_heads()
        if heads.latest.time <= feed_cursor.settled_to:
            return heads
        lowest = 0 if cursor is None else cursor.number
        newest = self._find_highest_block(chain, lowest, heads.latest, feed_cursor.settled_to)
        self._last_newest = newest
        safe = heads.safe if heads.safe is None or heads.safe.number <= newest.number else newest
        final = heads.final if heads.final.number <= newest.number else newest
        return replace(heads, latest=newest, safe=safe, final=final)

    def _find_highest_block(
        self, chain: ChainReader, low_number: int, upper_block: BlockRef, max_time: int
    ) -> BlockRef:
        """Return the highest block from `low_number` on whose time is at most `max_time`."""
        previous_newest = self._last_newest
        if (
            previous_newest is not None
            and low_number < previous_newest.number < upper_block.number
        ):
            low_number = previous_newest.number
        highest_block, high_number = chain.fetch_header_at_or_below(low_number), upper_block.number
        if highest_block.time > max_time:
            raise TransientError("the feed has not reached the first block to index yet")
        while high_number - low_number > 1:
            height = (low_number + high_number) // 2
            middle_block = chain.fetch_header_at_or_below(height)
            if middle_block.time <= max_time:
                highest_block, low_number = middle_block, height
            else:
                high_number = middle_block.number
        return highest_block
