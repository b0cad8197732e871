"""How a feed beside the chain stands, and what of an answer rests on it: that has no proof."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oracle.domain.blocks import Position
from oracle.domain.feed_rows import FeedFault, is_of_feed, row_of
from oracle.indexer.feeds.feed_faults import HOLDING
from oracle.store.database import UnitOfWork
from oracle.store.raw.feed_repository import FeedCursor


@dataclass(frozen=True, slots=True)
class FeedView:
    """How far the feed was read: rows folded, rows that wait, and faults that nobody accepted."""

    cursor: FeedCursor
    folded: int
    waiting: int
    faults: tuple[FeedFault, ...]

    @property
    def is_held(self) -> bool:
        """Whether nothing is published for a fault of it."""
        return any(one.kind in HOLDING for one in self.faults)


def feed_view(uow: UnitOfWork) -> FeedView | None:
    """Return how the feed stands; None: this database never read one."""
    cursor = uow.feed.cursor()
    if cursor is None:
        return None
    folded, waiting = uow.feed.counts()
    return FeedView(cursor, folded, waiting, tuple(uow.feed.faults(is_open=True)))


def feed_lines(seen: FeedView | None) -> Iterator[tuple[str, str]]:
    """Say how far the feed was read; what is wrong with it is a finding of the health."""
    if seen is None:
        return
    yield (
        "feed proof",
        "none: nobody can prove what a feed told, or what it left out",
    )
    first = "no row yet" if seen.cursor.first_id is None else f"from row {seen.cursor.first_id}"
    rows = f"{seen.folded} rows folded, {seen.waiting} waiting"
    yield "feed", f"{first}, settled to {seen.cursor.settled_id}, {rows}"


def feed_answer(seen: FeedView | None) -> dict[str, Any] | None:
    """Say it for programs."""
    if seen is None:
        return None
    at = seen.cursor
    return {
        "proof": "none",
        "stream": at.stream,
        "first_id": at.first_id,
        "settled_id": at.settled_id,
        "highest_id": at.highest_id,
        "settled_to": at.settled_to,
        "asked_at": at.asked_at,
        "folded_rows": seen.folded,
        "waiting_rows": seen.waiting,
        "held": seen.is_held,
        "faults": [fault_answer(one) for one in seen.faults],
    }


def fault_answer(fault: FeedFault) -> dict[str, Any]:
    """Say what is wrong with a row, for programs."""
    return {
        "kind": fault.kind,
        "stream": fault.stream,
        "row": fault.row,
        "found_at": fault.found_at,
        "detail": fault.detail,
        "accepted_at": fault.accepted_at,
    }


def origin_of(at: Position) -> Mapping[str, object]:
    """Return where something was said, and by whom: a feed's row is no log, and has no proof."""
    if not is_of_feed(at):
        return {"block": at.block, "log": at.log}
    stream, row = row_of(at)
    return {"block": at.block, "log": None, "feed": [stream, row], "proof": "none"}
