"""Stores polled rows of a feed, and compares settled rows with later reads and other feeds.

The rows, faults, settled times and cursor of a poll are stored in one transaction
(docs/explanation/feed.md#polling). Because no feed is trusted, differences are stored and reported
for an operator to decide about (docs/explanation/feed.md#two-feeds).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from oracle.chain.feed.feed_client import FeedPoll
from oracle.chain.feed.relay_reader import find_unreadable_reason
from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.domain.ids import Hash
from oracle.errors import TransientError
from oracle.indexer.feed_faults import (
    BAD_ROW,
    CHANGED,
    DISAGREE,
    GAP,
    LATE,
    VANISHED,
    WENT_BACK,
    compare_feed_rows,
    find_fault_blocking_reads,
    is_corrected_abort_reason,
    record_faults,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.raw.feed_repository import FeedCursor

# Maximum number of rows that one transaction settles; the next one settles the rest. It must be
# lower than the number of rows that the repository returns at once.
MAX_SETTLED_ROWS = 10_000


class FeedSettings(Protocol):
    """The settings of `[feed]` for storing and settling rows."""

    @property
    def settle_seconds(self) -> int:
        """The time in which the order of new rows may still change.

        It is in seconds of the feed's clock.
        """
        ...

    @property
    def start_id(self) -> int:
        """The id after which a new database starts to read."""
        ...

    @property
    def drift_seconds(self) -> int:
        """By how many seconds the feed's clock and the local clock may differ."""
        ...


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll, with counts of new and settled rows, and new faults."""

    row_count: int = 0
    settled_count: int = 0
    faults: tuple[FeedFault, ...] = ()


def get_next_poll_start_id(
    store: Store, settings: FeedSettings, *, is_continuation: bool = False
) -> int | None:
    """Return the id after which to poll next, or None while a fault blocks reading.

    An operator has to accept such a fault. Each poll requests the last settled row again, to check
    that this row still exists unchanged. `is_continuation` is whether the previous poll did not
    reach the end of the feed.
    """
    with store.read_transaction() as uow:
        if find_fault_blocking_reads(uow) is not None:
            return None
        cursor = _get_feed_cursor(uow, settings)
        return cursor.highest_id if is_continuation else _get_poll_start_id(uow, cursor)


def ingest_poll_response(
    store: Store, response: FeedPoll, settings: FeedSettings, local_time: float
) -> PollResult | None:
    """Store the rows of a poll.

    Return None if reading has stopped or moved on since the poll.

    Raises:
        TransientError: the feed's clock is wrong; nothing was stored.
        FatalError: another process wrote into the database.
    """
    if abs(response.feed_time - local_time) > settings.drift_seconds:
        raise TransientError(
            "the feed's clock differs from this host's clock by "
            f"{response.feed_time - local_time:+.0f} s, more than feed.drift_seconds; the feed's "
            "rows are not ingested"
        )
    with store.transaction() as uow:
        cursor = _get_feed_cursor(uow, settings)
        expected_start_ids = (_get_poll_start_id(uow, cursor), cursor.highest_id)
        if (
            find_fault_blocking_reads(uow) is not None
            or response.start_id not in expected_start_ids
        ):
            return None
        return _ingest_page(uow, cursor, response, settings)


def _get_feed_cursor(uow: UnitOfWork, settings: FeedSettings) -> FeedCursor:
    start_id = settings.start_id
    new_cursor = FeedCursor(settled_id=start_id, highest_id=start_id, compared_id=start_id)
    return uow.feed.get_cursor() or new_cursor


def _get_poll_start_id(uow: UnitOfWork, cursor: FeedCursor) -> int:
    last_settled_rows = uow.feed.list_canonical_rows(
        cursor.stream, cursor.settled_id, cursor.settled_id
    )
    return cursor.settled_id - 1 if last_settled_rows else cursor.settled_id


def _ingest_page(
    uow: UnitOfWork, cursor: FeedCursor, response: FeedPoll, settings: FeedSettings
) -> PollResult:
    # The feed's stored time must never go back, even if its clock does.
    now = max(response.feed_time, cursor.polled_at)
    rows = [
        replace(row, stream=cursor.stream, seen_from=cursor.fully_polled_at or now, seen_to=now)
        for row in response.rows
    ]
    stop_fault = _find_continuity_fault(cursor, response, now)
    if stop_fault is not None:
        return PollResult(faults=record_faults(uow, [stop_fault]))
    stored_rows = uow.feed.list_canonical_rows(
        cursor.stream, response.start_id + 1, _compute_expected_last_id(cursor, response)
    )
    changed_rows, missing_rows, added_rows = compare_feed_rows(stored_rows, rows)
    # The new version of a changed row is kept as evidence but not used.
    uow.feed.append([served_row for _, served_row in changed_rows], canonical=False)
    faults = _build_changed_row_faults(changed_rows, now)
    faults += [
        _build_row_fault(
            VANISHED, row, now, "an earlier response contained the row; this one does not"
        )
        for row in missing_rows
    ]
    faults += [
        _build_row_fault(BAD_ROW, row, now, reason)
        for row in added_rows
        if (reason := find_unreadable_reason(row))
    ]
    uow.feed.append(added_rows)
    cursor = _advance_feed_cursor(cursor, added_rows, now)
    if response.is_complete:
        cursor = replace(cursor, fully_polled_at=now)
    settled_count, cursor = _settle_rows(uow, cursor, settings, is_complete=response.is_complete)
    uow.feed.move_cursor(cursor, cursor.polls)
    return PollResult(len(added_rows), settled_count, record_faults(uow, faults))


def _compute_expected_last_id(cursor: FeedCursor, response: FeedPoll) -> int:
    """Compute the highest id that the feed must return unless a row has disappeared."""
    if response.is_complete:
        return max(cursor.highest_id, response.rows[-1].id if response.rows else 0)
    return response.rows[-1].id if response.rows else response.start_id


def _find_continuity_fault(cursor: FeedCursor, response: FeedPoll, now: int) -> FeedFault | None:
    """Return a fault if the stream does not continue where reading stopped, else None."""
    is_anchored = response.start_id < cursor.settled_id
    if response.newest_id is not None and response.newest_id < cursor.settled_id:
        fault_detail = (
            f"the newest row is {response.newest_id}, below the settled row {cursor.settled_id}"
        )
        return FeedFault(WENT_BACK, cursor.stream, cursor.settled_id, now, fault_detail)
    if is_anchored and response.rows and response.rows[0].id > cursor.settled_id:
        fault_detail = (
            f"row {cursor.settled_id} is missing; the first row is {response.rows[0].id}"
        )
        return FeedFault(GAP, cursor.stream, cursor.settled_id, now, fault_detail)
    return None


def _build_changed_row_faults(
    changed_rows: Sequence[tuple[FeedRow, FeedRow]], now: int
) -> list[FeedFault]:
    """Build a fault for each changed row.

    Rows are given as pairs (stored, served).
    """
    return [
        _build_row_fault(
            CHANGED,
            stored_row,
            now,
            f"the hash of the row changed from {stored_row.hash} to {served_row.hash}",
        )
        for stored_row, served_row in changed_rows
        if not is_corrected_abort_reason(stored_row, served_row)
    ]


def _build_row_fault(kind: str, row: FeedRow, now: int, detail: str) -> FeedFault:
    return FeedFault(kind, row.stream, row.id, now, detail)


def _advance_feed_cursor(
    cursor: FeedCursor, added_rows: Sequence[FeedRow], now: int
) -> FeedCursor:
    if not added_rows:
        return replace(cursor, polled_at=now, changed_at=cursor.changed_at or now)
    first_id = added_rows[0].id if cursor.first_id is None else cursor.first_id
    highest_id = max(cursor.highest_id, added_rows[-1].id)
    return replace(cursor, polled_at=now, changed_at=now, highest_id=highest_id, first_id=first_id)


def _settle_rows(
    uow: UnitOfWork, cursor: FeedCursor, settings: FeedSettings, *, is_complete: bool
) -> tuple[int, FeedCursor]:
    """Settle the rows whose order can no longer change, by giving them times.

    Returns the number of these rows, and the new cursor.
    """
    unsettled_rows = uow.feed.list_unsettled_rows(cursor.stream)
    last_id = unsettled_rows[-1].id if unsettled_rows else cursor.highest_id
    witness_by_row_id = uow.feed.get_witness_time_by_row_id(cursor.settled_id, last_id)
    time_by_id: dict[int, int] = {}
    row_time = cursor.row_time
    settled_time = cursor.polled_at if is_complete else cursor.settled_to
    for row in unsettled_rows:
        settled_row_time = max(_get_row_time(row, witness_by_row_id), row_time)
        if (
            cursor.polled_at - row.seen_to < settings.settle_seconds
            or len(time_by_id) == MAX_SETTLED_ROWS
        ):
            settled_time = settled_row_time
            break
        time_by_id[row.id] = row_time = settled_row_time
    uow.feed.set_times(cursor.stream, time_by_id)
    first_unread_time = uow.feed.find_next_witness_time(cursor.highest_id)
    settled_time = max(
        settled_time if first_unread_time is None else min(settled_time, first_unread_time),
        cursor.settled_to,
    )
    settled_id = max(time_by_id, default=cursor.settled_id)
    new_cursor = replace(cursor, settled_id=settled_id, row_time=row_time, settled_to=settled_time)
    return len(time_by_id), new_cursor


def _get_row_time(row: FeedRow, witness_by_row_id: Mapping[int, tuple[Hash, int]]) -> int:
    """Return the time of a row.

    It is the time in an imported witness file, or else that of the local clock.
    """
    witnessed_hash, witnessed_time = witness_by_row_id.get(row.id, (None, 0))
    return witnessed_time if witnessed_hash == row.hash else row.seen_to


# Number of the newest settled rows that are requested again.
REREAD_ROWS = 5_000


def get_reread_start_id(cursor: FeedCursor) -> int:
    """Return the id after which settled rows are requested again."""
    return max(0, cursor.settled_id - REREAD_ROWS)


def ingest_reread_response(store: Store, response: FeedPoll) -> tuple[FeedFault, ...]:
    """Compare settled rows with what the feed returns now, and return new faults.

    Rows before the feed's first row are not compared, because a relay may delete old rows. A row
    that was added late is stored as evidence but not folded, because later rows are settled.
    """
    with store.transaction() as uow:
        cursor = uow.feed.get_cursor()
        if cursor is None:
            return ()
        # The response's time has not been compared with the local clock, so it is not stored.
        now = cursor.polled_at
        served_rows = _select_rows_up_to(response, cursor.settled_id, cursor.stream, now)
        first_id = served_rows[0].id if served_rows else cursor.settled_id
        # Rows above the response's last id may have been settled since the request, so they are
        # not compared.
        last_id = min(
            cursor.settled_id, response.rows[-1].id if served_rows else cursor.settled_id
        )
        stored_rows = uow.feed.list_canonical_rows(cursor.stream, first_id, last_id)
        changed_rows, missing_rows, late_rows = compare_feed_rows(stored_rows, served_rows)
        uow.feed.append(
            [*(served_row for _, served_row in changed_rows), *late_rows], canonical=False
        )
        faults = [
            _build_row_fault(
                LATE, row, now, "the row appeared after the rows up to its id were settled"
            )
            for row in late_rows
            if row.id > (cursor.first_id or 0)
        ]
        faults += _build_changed_row_faults(changed_rows, now)
        faults += [
            _build_row_fault(VANISHED, row, now, "the feed no longer returns the row")
            for row in missing_rows
        ]
        uow.feed.move_cursor(replace(cursor, reread_at=now), cursor.polls)
        return record_faults(uow, faults)


def compare_with_second_feed(store: Store, response: FeedPoll, name: str) -> tuple[FeedFault, ...]:
    """Compare the stored rows with a second feed, and return the differences.

    Only rows up to the last row that both feeds have are compared, because it is no fault if one
    of the feeds lags behind.
    """
    with store.transaction() as uow:
        cursor = uow.feed.get_cursor()
        if cursor is None or response.start_id != cursor.compared_id or not response.rows:
            return ()
        served_rows = _select_rows_up_to(
            response, cursor.settled_id, cursor.stream, cursor.polled_at
        )
        last_id = min(cursor.settled_id, response.rows[-1].id)
        stored_rows = uow.feed.list_canonical_rows(cursor.stream, response.start_id + 1, last_id)
        changed_rows, missing_rows, added_rows = compare_feed_rows(stored_rows, served_rows)
        now = cursor.polled_at
        faults = [
            _build_row_fault(
                DISAGREE,
                stored_row,
                now,
                f"hash {stored_row.hash} here, {served_row.hash} at {name}",
            )
            for stored_row, served_row in changed_rows
            if not (
                is_corrected_abort_reason(stored_row, served_row)
                or is_corrected_abort_reason(served_row, stored_row)
            )
        ]
        faults += [
            _build_row_fault(DISAGREE, row, now, f"{name} does not have the row")
            for row in missing_rows
        ]
        faults += [
            _build_row_fault(DISAGREE, row, now, f"only {name} has the row") for row in added_rows
        ]
        uow.feed.move_cursor(replace(cursor, compared_id=last_id), cursor.polls)
        return record_faults(uow, faults)


def _select_rows_up_to(response: FeedPoll, last_id: int, stream: int, now: int) -> list[FeedRow]:
    row_values = {"stream": stream, "seen_from": now, "seen_to": now}
    return [replace(row, **row_values) for row in response.rows if row.id <= last_id]  # type: ignore[arg-type]
