"""Compares settled rows with what the feed returns for them now, and with a second feed.

No feed is trusted: differences are stored, reported, and left to an operator
(docs/explanation/feed.md#two-feeds).
"""

from collections.abc import Sequence
from dataclasses import replace

from oracle.chain.feed.feed_client import FeedPoll
from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.indexer.feeds.feed_faults import (
    CHANGED,
    DISAGREE,
    LATE,
    VANISHED,
    compare_feed_rows,
    is_corrected_abort_reason,
    record_faults,
)
from oracle.store.database import Store
from oracle.store.raw.feed_repository import FeedCursor

# Number of newest settled rows that are requested again.
REREAD_ROWS = 5_000


def get_reread_start(cursor: FeedCursor) -> int:
    """Return the id above which settled rows are requested again."""
    return max(0, cursor.settled_id - REREAD_ROWS)


def ingest_reread(store: Store, response: FeedPoll) -> tuple[FeedFault, ...]:
    """Compare settled rows with the feed's current ones; return new faults.

    Rows below the feed's first row do not count, because a relay may delete rows by age. A late
    row is stored as evidence but not folded, because later rows are settled already.
    """
    with store.transaction() as uow:
        cursor = uow.feed.get_cursor()
        if cursor is None:
            return ()
        # The response's own clock was not compared with the local one, so it is not stored.
        now = cursor.asked_at
        served_rows = _rows_up_to(response, cursor.settled_id, cursor.stream, now)
        first_id = served_rows[0].id if served_rows else cursor.settled_id
        stored_rows = uow.feed.list_canonical(
            cursor.stream, first_id, _last_covered_id(response, served_rows, cursor)
        )
        changed, missing, late_rows = compare_feed_rows(stored_rows, served_rows)
        uow.feed.append([*(served_row for _, served_row in changed), *late_rows], canonical=False)
        late_rows = [row for row in late_rows if row.id > (cursor.first_id or 0)]
        faults = [
            _build_fault(LATE, row, now, "it came after its place was settled")
            for row in late_rows
        ]
        faults += [
            _build_fault(
                CHANGED,
                stored_row,
                now,
                f"it was {stored_row.hash}, and is told as {served_row.hash} now",
            )
            for stored_row, served_row in changed
            if not is_corrected_abort_reason(stored_row, served_row)
        ]
        faults += [_build_fault(VANISHED, row, now, "it is told no more") for row in missing]
        uow.feed.move_cursor(replace(cursor, reread_at=now), cursor.polls)
        return record_faults(uow, faults)


def ingest_comparison(store: Store, response: FeedPoll, name: str) -> tuple[FeedFault, ...]:
    """Compare settled rows with a second feed's; return new faults.

    Rows are compared up to the last row that both feeds have, because lagging behind is no fault.
    """
    with store.transaction() as uow:
        cursor = uow.feed.get_cursor()
        if cursor is None or response.start_id != cursor.compared_id or not response.rows:
            return ()
        served_rows = _rows_up_to(response, cursor.settled_id, cursor.stream, cursor.asked_at)
        last_id = min(cursor.settled_id, response.rows[-1].id)
        stored_rows = uow.feed.list_canonical(cursor.stream, response.start_id + 1, last_id)
        changed, missing, added = compare_feed_rows(stored_rows, served_rows)
        now = cursor.asked_at
        faults = [
            _build_fault(
                DISAGREE, stored_row, now, f"{stored_row.hash} here, {served_row.hash} at {name}"
            )
            for stored_row, served_row in changed
            if not (
                is_corrected_abort_reason(stored_row, served_row)
                or is_corrected_abort_reason(served_row, stored_row)
            )
        ]
        faults += [_build_fault(DISAGREE, row, now, f"{name} lacks it") for row in missing]
        faults += [_build_fault(DISAGREE, row, now, f"only {name} has it") for row in added]
        uow.feed.move_cursor(replace(cursor, compared_id=last_id), cursor.polls)
        return record_faults(uow, faults)


def _rows_up_to(response: FeedPoll, last_id: int, stream: int, now: int) -> list[FeedRow]:
    row_values = {"stream": stream, "seen_from": now, "seen_to": now}
    return [replace(row, **row_values) for row in response.rows if row.id <= last_id]  # type: ignore[arg-type]


def _last_covered_id(
    response: FeedPoll, served_rows: Sequence[FeedRow], cursor: FeedCursor
) -> int:
    """Return the last id that the response covers; later rows may have settled meanwhile."""
    return min(cursor.settled_id, response.rows[-1].id) if served_rows else cursor.settled_id


def _build_fault(kind: str, row: FeedRow, now: int, detail: str) -> FeedFault:
    return FeedFault(kind, row.stream, row.id, now, detail)
