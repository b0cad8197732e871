"""Requests old rows again, from the feed and from a second feed, and compares them.

No feed is trusted: differences are stored, reported, and left to an operator
(docs/explanation/feed.md#two-feeds).
"""

from collections.abc import Sequence
from dataclasses import replace

from oracle.chain.feed.feed_client import FeedAnswer
from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.indexer.feeds.feed_faults import (
    CHANGED,
    DISAGREE,
    LATE,
    VANISHED,
    differences,
    is_repair,
    noted,
)
from oracle.store.database import Store
from oracle.store.raw.feed_repository import FeedCursor

# Number of newest settled rows that are requested again.
REREAD_IDS = 5_000


def reread_start(cursor: FeedCursor) -> int:
    """Return the id above which settled rows are requested again."""
    return max(0, cursor.settled_id - REREAD_IDS)


def take_reread(store: Store, answer: FeedAnswer) -> tuple[FeedFault, ...]:
    """Compare settled rows with the feed's current ones; return new faults.

    Rows below the feed's first one were deleted by age, as a relay may do. A late row is stored as
    evidence but not folded, because its place has passed.
    """
    with store.transaction() as uow:
        cursor = uow.feed.cursor()
        if cursor is None:
            return ()
        # The response's own clock was not compared with the local one, so it is not stored.
        now = cursor.asked_at
        told = _within(answer, cursor.settled_id, cursor.stream, now)
        first = told[0].id if told else cursor.settled_id
        known = uow.feed.between(cursor.stream, first, _last(answer, told, cursor))
        changed, missing, late = differences(known, told)
        uow.feed.append([*(theirs for _, theirs in changed), *late], canonical=False)
        late = [row for row in late if row.id > (cursor.first_id or 0)]
        found = [_fault(LATE, row, now, "it came after its place was settled") for row in late]
        found += [
            _fault(CHANGED, ours, now, f"it was {ours.hash}, and is told as {theirs.hash} now")
            for ours, theirs in changed
            if not is_repair(ours, theirs)
        ]
        found += [_fault(VANISHED, row, now, "it is told no more") for row in missing]
        uow.feed.move(replace(cursor, reread_at=now), cursor.polls)
        return noted(uow, found)


def take_comparison(store: Store, answer: FeedAnswer, name: str) -> tuple[FeedFault, ...]:
    """Compare settled rows with a second feed's; return new faults.

    Rows are compared as far as both feeds have come: lagging behind is not a fault.
    """
    with store.transaction() as uow:
        cursor = uow.feed.cursor()
        if cursor is None or answer.start != cursor.compared_id or not answer.rows:
            return ()
        told = _within(answer, cursor.settled_id, cursor.stream, cursor.asked_at)
        last = min(cursor.settled_id, answer.rows[-1].id)
        known = uow.feed.between(cursor.stream, answer.start + 1, last)
        changed, missing, new = differences(known, told)
        now = cursor.asked_at
        found = [
            _fault(DISAGREE, ours, now, f"{ours.hash} here, {theirs.hash} at {name}")
            for ours, theirs in changed
            if not (is_repair(ours, theirs) or is_repair(theirs, ours))
        ]
        found += [_fault(DISAGREE, row, now, f"{name} lacks it") for row in missing]
        found += [_fault(DISAGREE, row, now, f"only {name} has it") for row in new]
        uow.feed.move(replace(cursor, compared_id=last), cursor.polls)
        return noted(uow, found)


def _within(answer: FeedAnswer, last: int, stream: int, now: int) -> list[FeedRow]:
    seen = {"stream": stream, "seen_from": now, "seen_to": now}
    return [replace(row, **seen) for row in answer.rows if row.id <= last]  # type: ignore[arg-type]


def _last(answer: FeedAnswer, told: Sequence[FeedRow], cursor: FeedCursor) -> int:
    """Return the last id that the response covers: later rows may have settled since."""
    return min(cursor.settled_id, answer.rows[-1].id) if told else cursor.settled_id


def _fault(kind: str, row: FeedRow, now: int, detail: str) -> FeedFault:
    return FeedFault(kind, row.stream, row.id, now, detail)
