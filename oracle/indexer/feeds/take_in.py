"""Ingests one poll of a feed: rows, faults, settled times and cursor, in one transaction.

See docs/explanation/feed.md#polling.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from oracle.chain.feed.feed_client import FeedAnswer
from oracle.chain.feed.relay_reader import why_unreadable
from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.feeds.feed_faults import (
    BAD,
    CHANGED,
    GAP,
    VANISHED,
    WENT_BACK,
    differences,
    is_repair,
    noted,
    stopping,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.raw.feed_repository import FeedCursor

# Rows settled in one transaction; the others wait for the next one.
MOST_AT_ONCE = 10_000  # fewer than the repository gives at once


class FeedSettings(Protocol):
    """The settings of `[feed]` that decide which rows are stored, and when."""

    @property
    def settle_seconds(self) -> int:
        """How long the order of a row may still change, by the clock of the feed."""
        ...

    @property
    def start_id(self) -> int:
        """The row after which a new database begins."""
        ...

    @property
    def drift_seconds(self) -> int:
        """Maximum difference between the feed's clock and the local one, in seconds."""
        ...


@dataclass(frozen=True, slots=True)
class FeedTaken:
    """Result of one poll: numbers of new and of settled rows, and new faults."""

    rows: int = 0
    settled: int = 0
    faults: tuple[FeedFault, ...] = ()


def next_start(store: Store, settings: FeedSettings, *, reads_on: bool = False) -> int | None:
    """Return the id after which to poll; None if the feed stopped and needs an operator.

    The last settled row is requested again each time: it must still be there, unchanged.
    `is_continuation`: the previous poll did not reach the end.
    """
    with store.reading() as uow:
        if stopping(uow) is not None:
            return None
        cursor = _cursor(uow, settings)
        return cursor.highest_id if reads_on else _start(uow, cursor)


def take_in(
    store: Store, answer: FeedAnswer, settings: FeedSettings, our_time: float
) -> FeedTaken | None:
    """Store the rows of a poll; None if the reader has moved on since.

    Raises:
        TransientError: the feed's clock is wrong; nothing was stored.
        FatalError: another process wrote into the database.
    """
    if abs(answer.now - our_time) > settings.drift_seconds:
        raise TransientError(
            f"the feed's clock is {answer.now - our_time:+.0f} s from ours: nothing of it is "
            "taken in (feed.drift_seconds)"
        )
    with store.transaction() as uow:
        cursor = _cursor(uow, settings)
        here = (_start(uow, cursor), cursor.highest_id)
        if stopping(uow) is not None or answer.start not in here:
            return None
        return _ingest_page(uow, cursor, answer, settings)


def _cursor(uow: UnitOfWork, settings: FeedSettings) -> FeedCursor:
    start = settings.start_id
    new = FeedCursor(settled_id=start, highest_id=start, compared_id=start)
    return uow.feed.cursor() or new


def _start(uow: UnitOfWork, cursor: FeedCursor) -> int:
    anchor = uow.feed.between(cursor.stream, cursor.settled_id, cursor.settled_id)
    return cursor.settled_id - 1 if anchor else cursor.settled_id


def _ingest_page(
    uow: UnitOfWork, cursor: FeedCursor, answer: FeedAnswer, settings: FeedSettings
) -> FeedTaken:
    # The stored clock of the feed never goes back, even if the feed's own clock does.
    now = max(answer.now, cursor.asked_at)
    rows = [
        replace(row, stream=cursor.stream, seen_from=cursor.whole_at or now, seen_to=now)
        for row in answer.rows
    ]
    stop = _why_stopped(cursor, answer, now)
    if stop is not None:
        return FeedTaken(faults=noted(uow, [stop]))
    known = uow.feed.between(cursor.stream, answer.start + 1, _reach(cursor, answer))
    changed, missing, new = differences(known, rows)
    faults = [*_changes(uow, changed, now), *_gone(missing, now)]
    faults += [_fault(BAD, row, now, why) for row in new if (why := why_unreadable(row))]
    uow.feed.append(new)
    cursor = _moved(cursor, new, now)
    if answer.is_whole:
        cursor = replace(cursor, whole_at=now)
    settled, cursor = _settle(uow, cursor, settings, is_whole=answer.is_whole)
    uow.feed.move(cursor, cursor.polls)
    return FeedTaken(len(new), settled, noted(uow, faults))


def _reach(cursor: FeedCursor, answer: FeedAnswer) -> int:
    """Return the highest id that an unchanged feed would have returned."""
    if answer.is_whole:
        return max(cursor.highest_id, answer.rows[-1].id if answer.rows else 0)
    return answer.rows[-1].id if answer.rows else answer.start


def _why_stopped(cursor: FeedCursor, answer: FeedAnswer, now: int) -> FeedFault | None:
    """Return the fault if the stream is not where reading stopped, else None."""
    is_anchored = answer.start < cursor.settled_id
    if answer.newest is not None and answer.newest < cursor.settled_id:
        detail = f"its newest row is {answer.newest}, and we have read up to {cursor.settled_id}"
        return FeedFault(WENT_BACK, cursor.stream, cursor.settled_id, now, detail)
    if is_anchored and answer.rows and answer.rows[0].id > cursor.settled_id:
        detail = f"row {cursor.settled_id} is gone, and its first row is {answer.rows[0].id} now"
        return FeedFault(GAP, cursor.stream, cursor.settled_id, now, detail)
    return None


def _changes(
    uow: UnitOfWork, changed: Sequence[tuple[FeedRow, FeedRow]], now: int
) -> list[FeedFault]:
    """Store the new version of changed rows as non-canonical; return their faults."""
    uow.feed.append([theirs for _, theirs in changed], canonical=False)
    return [
        _fault(CHANGED, ours, now, f"it was {ours.hash}, and is told as {theirs.hash} now")
        for ours, theirs in changed
        if not is_repair(ours, theirs)
    ]


def _gone(missing: Sequence[FeedRow], now: int) -> list[FeedFault]:
    return [_fault(VANISHED, row, now, "it was there, and is told no more") for row in missing]


def _fault(kind: str, row: FeedRow, now: int, detail: str) -> FeedFault:
    return FeedFault(kind, row.stream, row.id, now, detail)


def _moved(cursor: FeedCursor, new: Sequence[FeedRow], now: int) -> FeedCursor:
    if not new:
        return replace(cursor, asked_at=now, changed_at=cursor.changed_at or now)
    first = new[0].id if cursor.first_id is None else cursor.first_id
    highest = max(cursor.highest_id, new[-1].id)
    return replace(cursor, asked_at=now, changed_at=now, highest_id=highest, first_id=first)


def _settle(
    uow: UnitOfWork, cursor: FeedCursor, settings: FeedSettings, *, is_whole: bool
) -> tuple[int, FeedCursor]:
    """Give times to rows whose order is fixed; return their number and the new cursor."""
    waiting = uow.feed.unsettled(cursor.stream)
    last = waiting[-1].id if waiting else cursor.highest_id
    witnessed = uow.feed.witnessed(cursor.settled_id, last)
    times: dict[int, int] = {}
    row_time, until = cursor.row_time, cursor.asked_at if is_whole else cursor.settled_to
    for row in waiting:
        time = max(_time_of(row, witnessed), row_time)
        if cursor.asked_at - row.seen_to < settings.settle_seconds or len(times) == MOST_AT_ONCE:
            until = time
            break
        times[row.id] = row_time = time
    uow.feed.settle(cursor.stream, times)
    unread = uow.feed.witnessed_above(cursor.highest_id)
    until = max(until if unread is None else min(until, unread), cursor.settled_to)
    settled_id = max(times, default=cursor.settled_id)
    moved = replace(cursor, settled_id=settled_id, row_time=row_time, settled_to=until)
    return len(times), moved


def _time_of(row: FeedRow, witnessed: Mapping[int, tuple[Hash, int]]) -> int:
    """Return the time of the row: another reader's if it is known, else the local one."""
    hash_, time = witnessed.get(row.id, (None, 0))
    return time if hash_ == row.hash else row.seen_to
