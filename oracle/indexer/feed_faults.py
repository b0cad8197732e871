"""Classifies the faults of a feed, finds those that block reading or reports, and accepts them.

After a fault, an operator decides how the feed continues: either the operator accepts the fault,
or a new stream begins. A new stream has another number, and its rows are stored in addition to the
old rows. See docs/explanation/feed.md#faults and docs/explanation/feed.md#resolving-faults.
"""

from collections.abc import Iterable
from dataclasses import replace

from oracle.domain.feed_rows import FeedFault, FeedRow
from oracle.errors import InputError
from oracle.store.database import UnitOfWork

# A row was added to, changed in, or removed from the settled part of the feed.
LATE, CHANGED, VANISHED = "late_row", "changed_row", "vanished_row"
# The feed does not continue at the row where reading stopped. Reading resumes only after an
# operator runs `feed accept --from`.
WENT_BACK, GAP = "went_back", "gap_by_retention"
# A row of a known kind cannot be decoded. It is stored but does not affect the state.
BAD_ROW = "bad_row"
# The two feeds have different rows with the same id, or a row is missing from one of them.
DISAGREE = "disagree"

STOPPING_KINDS = frozenset({WENT_BACK, GAP})
# No report is published while a fault of these kinds exists. A BAD_ROW is listed, but does not
# prevent publishing.
HOLDING_KINDS = frozenset({LATE, CHANGED, VANISHED, DISAGREE}) | STOPPING_KINDS

# From 2026-08-06 to 2026-08-11, the relay reported every abort reason above 4 as reason 1
# (timeout).
_ABORT_REASONS = ('"abort_reason":1', *(f'"abort_reason":{number}' for number in range(5, 11)))


def find_fault_blocking_publication(uow: UnitOfWork) -> FeedFault | None:
    """Return the first fault that prevents publishing, or None if there is none."""
    return next(
        (fault for fault in uow.feed.list_faults(is_open=True) if fault.kind in HOLDING_KINDS),
        None,
    )


def find_fault_blocking_reads(uow: UnitOfWork) -> FeedFault | None:
    """Return the fault that prevents further reading, or None if there is none."""
    return next(
        (fault for fault in uow.feed.list_faults(is_open=True) if fault.kind in STOPPING_KINDS),
        None,
    )


def record_faults(uow: UnitOfWork, faults: Iterable[FeedFault]) -> tuple[FeedFault, ...]:
    """Store faults, and return those that are new."""
    known_keys = {
        (fault.kind, fault.stream, fault.row) for fault in uow.feed.list_faults(is_open=False)
    }
    new_faults = [
        fault for fault in faults if (fault.kind, fault.stream, fault.row) not in known_keys
    ]
    uow.feed.record_faults(new_faults)
    return tuple(new_faults)


def format_fault(fault: FeedFault) -> str:
    """Format a line that describes a fault and the command to accept it."""
    command_argument = " --from ID" if fault.kind in STOPPING_KINDS else ""
    command = f"qos-oracle feed accept{command_argument}"
    return f"{fault.kind} at row {fault.row}: {fault.detail}; to accept it, run `{command}`"


def is_corrected_abort_reason(old_row: FeedRow, new_row: FeedRow) -> bool:
    """Return whether only a wrong timeout was replaced by the true abort reason.

    Everything else in the row must be unchanged. See
    docs/explanation/feed.md#rewritten-abort-reasons.
    """
    if old_row.kind != "TaskEndAborted" or not _are_rows_equal_except_args(old_row, new_row):
        return False
    old_args, new_args = ("".join(row.args.split()) for row in (old_row, new_row))
    return any(
        old_args.replace(_ABORT_REASONS[0], real_reason) == new_args
        for real_reason in _ABORT_REASONS[1:]
    )


def _are_rows_equal_except_args(first_row: FeedRow, second_row: FeedRow) -> bool:
    return (first_row.id, first_row.kind, first_row.node, first_row.task) == (
        second_row.id,
        second_row.kind,
        second_row.node,
        second_row.task,
    )


def compare_feed_rows(
    stored_rows: Iterable[FeedRow], served_rows: Iterable[FeedRow]
) -> tuple[list[tuple[FeedRow, FeedRow]], list[FeedRow], list[FeedRow]]:
    """Compare a feed's stored rows with the rows that it serves, by id.

    Returns the pairs (stored, served) of rows that differ, the rows that are only stored, and the
    rows that are only served.
    """
    stored_row_by_id = {row.id: row for row in stored_rows}
    served_row_by_id = {row.id: row for row in served_rows}
    shared_ids = sorted(stored_row_by_id.keys() & served_row_by_id.keys())
    changed_rows = [
        (stored_row_by_id[row_id], served_row_by_id[row_id])
        for row_id in shared_ids
        if stored_row_by_id[row_id].hash != served_row_by_id[row_id].hash
    ]
    missing_rows = [
        stored_row_by_id[row_id]
        for row_id in sorted(stored_row_by_id.keys() - served_row_by_id.keys())
    ]
    added_rows = [
        served_row_by_id[row_id]
        for row_id in sorted(served_row_by_id.keys() - stored_row_by_id.keys())
    ]
    return changed_rows, missing_rows, added_rows


def accept_feed_faults(
    uow: UnitOfWork, first_row_after: int | None, now: int | None
) -> list[FeedFault]:
    """Accept all open faults and return them.

    `first_row_after` is the id of the row after which a new stream begins, or None if the stream
    continues. `now` is the time of the decision in unix seconds, or None for a dry run.

    Raises:
        InputError: there is no open fault, or reading has stopped and `first_row_after` is
            required.
    """
    cursor = uow.feed.get_cursor()
    faults = uow.feed.list_faults(is_open=True)
    if cursor is None:
        raise InputError("no feed has been read yet; there is nothing to accept")
    stopping_fault = next((fault for fault in faults if fault.kind in STOPPING_KINDS), None)
    if stopping_fault is not None and first_row_after is None:
        raise InputError(
            f"{stopping_fault.kind}: the stream must be restarted; use --from ID to give the row "
            "after which the new stream starts"
        )
    if first_row_after is None and not faults:
        raise InputError("the feed has no open fault; there is nothing to accept")
    if now is None:
        return faults
    uow.feed.accept_faults(now)
    if first_row_after is not None:
        new_cursor = replace(
            cursor,
            stream=cursor.stream + 1,
            settled_id=first_row_after,
            highest_id=first_row_after,
            compared_id=first_row_after,
            first_id=None,
            fully_polled_at=0,
        )
        uow.feed.move_cursor(new_cursor, cursor.polls)
    return faults
