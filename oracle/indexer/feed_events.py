"""Assigns the rows of a feed to blocks, and decodes them to events of these blocks.

A row belongs to the first block whose time is later than the row's time, and precedes all events
of this block. The state as of a block therefore contains the chain's events up to this block, and
the feed's rows with an earlier time. A row cannot be assigned to a block that is already folded.
Therefore the chain is only read up to the time until which the feed's rows are settled, that is,
can no longer change (docs/explanation/feed.md#order-with-the-chain).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from typing_extensions import override

from oracle.chain.feed.relay_reader import (
    CONTEXT_IDS,
    SEARCH_IDS,
    FeedSpan,
    RelayReader,
    collect_start_row_ids,
    collect_submitted_results,
    find_scored_task,
)
from oracle.chain.profiles.event_reader import DecodedEvents, EventReader
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.feed_rows import FeedRow
from oracle.errors import TransientError
from oracle.indexer.block_hooks import BlockHook
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import Stamp

if TYPE_CHECKING:
    from oracle.chain.heads import Heads
    from oracle.chain.source import ChainSource


def merge_feed_events(
    uow: UnitOfWork, reader: EventReader, decoded_events: DecodedEvents, blocks: BlockRange
) -> DecodedEvents:
    """Return the chain's and the feed's events in these blocks, sorted by position."""
    if reader.feed is None:
        return decoded_events
    feed_events: list[DomainEvent] = []
    feed_rows = uow.feed.list_rows_of_blocks(blocks.first, blocks.last)
    for stream, rows in groupby(feed_rows, key=attrgetter("stream")):
        feed_events += reader.feed.decode_span(
            _build_feed_span(uow, stream, list(rows), reader.feed)
        )
    if not feed_events:
        return decoded_events
    # Positions sort rows by stream, then by id, because the ids of a later stream may start low
    # again.
    return replace(
        decoded_events, events=sorted([*decoded_events.events, *feed_events], key=attrgetter("at"))
    )


def _build_feed_span(
    uow: UnitOfWork, stream: int, rows: Sequence[FeedRow], reader: RelayReader
) -> FeedSpan:
    """Build a span from these rows and nearby rows.

    If a group has fewer rows than members, many more of the earlier rows are added to the span.
    """
    narrow_span = _build_feed_span_from_row(uow, stream, rows, rows[0].id - CONTEXT_IDS)
    if not reader.has_silent_members(narrow_span):
        return narrow_span
    wide_span = _build_feed_span_from_row(uow, stream, rows, rows[0].id - 2 * SEARCH_IDS)
    start_rows = uow.feed.list_rows_for_tasks(
        stream, _list_scored_tasks(wide_span.context_rows), "TaskStarted"
    )
    return replace(wide_span, start_id_by_task=collect_start_row_ids(start_rows))


def _build_feed_span_from_row(
    uow: UnitOfWork, stream: int, rows: Sequence[FeedRow], first_row: int
) -> FeedSpan:
    context_rows = uow.feed.list_canonical_rows(stream, first_row, rows[-1].id + CONTEXT_IDS)
    score_rows = uow.feed.list_rows_for_tasks(
        stream, _list_scored_tasks(context_rows), "TaskScoreReady"
    )
    return FeedSpan(rows, context_rows, collect_submitted_results(score_rows))


def _list_scored_tasks(rows: Sequence[FeedRow]) -> list[str]:
    return sorted({task for row in rows if (task := find_scored_task(row)) is not None})


class FeedHook(BlockHook):
    """Assigns feed rows to blocks before a window is folded, and unassigns them in a rewind."""

    def __init__(self, start_block: int) -> None:
        """Create the hook for one feed.

        The hook needs all headers from the start block on, to assign rows to blocks by their time.
        """
        self.first_block = start_block

    @override
    def on_window(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last_block: BlockRef, newest_block: int
    ) -> None:
        rows = iter(uow.feed.list_rows_without_block(last_block.time))
        cursor = uow.cursor.get()
        row = next(rows, None)
        for header in headers:
            if cursor is not None and header.number <= cursor.number:
                continue
            rows_with_block: list[FeedRow] = []
            while row is not None and (row.time or 0) < header.time:
                rows_with_block.append(row)
                row = next(rows, None)
            uow.feed.assign_block(header.number, rows_with_block)

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor_number: int, stamp: Stamp) -> None:
        uow.feed.unassign_blocks_above(ancestor_number)


@dataclass(slots=True)
class FeedHeadLimit:
    """Limits the heads of the chain to the time up to which the feed is settled."""

    store: Store
    _last_newest_block: BlockRef | None = None

    def get_heads(self, chain: "ChainSource") -> "Heads":
        """Return the chain's heads, limited to the settled time of the feed.

        Raises:
            TransientError: the feed was never read, it is not settled up to any block yet, or the
                chain source returns no header.
        """
        with self.store.read_transaction() as uow:
            feed_cursor = uow.feed.get_cursor()
            cursor = uow.cursor.get()
        if feed_cursor is None or not feed_cursor.settled_to:
            raise TransientError(
                "the feed has not been read yet; no block is folded before the first poll"
            )
        heads = chain.fetch_heads()
        if heads.latest.time <= feed_cursor.settled_to:
            return heads
        lowest_number = 0 if cursor is None else cursor.number
        newest_block = self._find_highest_block(
            chain, lowest_number, heads.latest, feed_cursor.settled_to
        )
        self._last_newest_block = newest_block
        safe_block = (
            heads.safe
            if heads.safe is None or heads.safe.number <= newest_block.number
            else newest_block
        )
        final_block = heads.final if heads.final.number <= newest_block.number else newest_block
        return replace(heads, latest=newest_block, safe=safe_block, final=final_block)

    def _find_highest_block(
        self, chain: "ChainSource", low_number: int, upper_block: BlockRef, max_time: int
    ) -> BlockRef:
        """Find the highest block at or above `low_number` with a time up to `max_time`."""
        previous_newest_block = self._last_newest_block
        if (
            previous_newest_block is not None
            and low_number < previous_newest_block.number < upper_block.number
        ):
            low_number = previous_newest_block.number
        highest_block = chain.fetch_header_at_or_below(low_number)
        high_number = upper_block.number
        if highest_block.time > max_time:
            raise TransientError("the feed has not reached the first block to index yet")
        while high_number - low_number > 1:
            middle_number = (low_number + high_number) // 2
            middle_block = chain.fetch_header_at_or_below(middle_number)
            if middle_block.time <= max_time:
                highest_block, low_number = middle_block, middle_number
            else:
                high_number = middle_block.number
        return highest_block
