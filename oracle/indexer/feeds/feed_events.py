"""Places a feed's rows in the order of the chain, and reads them back as events of those blocks.

A row belongs to the first block with a later time than its own, before all events of that block:
the state as of a block has the chain's events up to it, and the feed's rows before its time
(docs/explanation/feed.md#one-order).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter

from typing_extensions import override

from oracle.chain.feed.relay_reader import (
    AROUND,
    REACH,
    FeedSpan,
    RelayReader,
    scored_task,
    scores_in,
    starts_in,
)
from oracle.chain.profiles.event_reader import Decoded
from oracle.chain.protocols import LogReader
from oracle.domain.blocks import BlockRange, BlockRef
from oracle.domain.events.network_events import DomainEvent
from oracle.domain.feed_rows import FeedRow
from oracle.indexer.block_hooks import BlockHook
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp


def with_feed(uow: UnitOfWork, reader: LogReader, said: Decoded, blocks: BlockRange) -> Decoded:
    """Return the events of the chain and the feed in these blocks, in one order."""
    if reader.feed is None:
        return said
    beside: list[DomainEvent] = []
    placed = uow.feed.placed(blocks.first, blocks.last)
    for stream, rows in groupby(placed, key=attrgetter("stream")):
        beside += reader.feed.read(_span_of(uow, stream, list(rows), reader.feed))
    if not beside:
        return said
    # A later stream begins with low ids again, but its rows are later all the same.
    return replace(said, events=sorted([*said.events, *beside], key=attrgetter("at")))


def _span_of(
    uow: UnitOfWork, stream: int, rows: Sequence[FeedRow], reader: RelayReader
) -> FeedSpan:
    """Return the rows with their surroundings; far more of them if a group shows too few."""
    near = _span_from(uow, stream, rows, rows[0].id - AROUND)
    if not reader.has_silent_members(near):
        return near
    far = _span_from(uow, stream, rows, rows[0].id - 2 * REACH)
    starts = uow.feed.of_tasks(stream, _scored_tasks(far.around), "TaskStarted")
    return replace(far, starts=starts_in(starts))


def _span_from(uow: UnitOfWork, stream: int, rows: Sequence[FeedRow], first: int) -> FeedSpan:
    around = uow.feed.between(stream, first, rows[-1].id + AROUND)
    scores = uow.feed.of_tasks(stream, _scored_tasks(around), "TaskScoreReady")
    return FeedSpan(rows, around, scores_in(scores))


def _scored_tasks(rows: Sequence[FeedRow]) -> list[str]:
    return sorted({task for row in rows if (task := scored_task(row)) is not None})


class FeedHook(BlockHook):
    """Assigns feed rows to blocks before a window is folded, and undoes that on a rewind."""

    def __init__(self, start_block: int) -> None:
        """Require every header from the start block on, whose times place the rows."""
        self.first_block = start_block

    @override
    def passed_over(
        self, uow: UnitOfWork, headers: Sequence[BlockRef], last: BlockRef, newest: int
    ) -> None:
        rows, cursor = iter(uow.feed.unplaced(last.time)), uow.cursor.get()
        row = next(rows, None)
        for header in headers:
            if cursor is not None and header.number <= cursor.number:
                continue
            here: list[FeedRow] = []
            while row is not None and (row.time or 0) < header.time:
                here.append(row)
                row = next(rows, None)
            uow.feed.place(header.number, here)

    @override
    def rewound(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        uow.feed.unplace_above(ancestor)
