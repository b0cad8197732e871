"""Lets an operator continue a feed after faults: accept them, or start a new stream.

Stored rows stay: a new stream has another number, and its rows are stored beside the old ones
(docs/explanation/feed.md#resolving-faults).
"""

from dataclasses import replace

from oracle.domain.feed_rows import FeedFault
from oracle.errors import InputError
from oracle.indexer.feeds.feed_faults import STOPPING_KINDS
from oracle.store.database import UnitOfWork


def accept_feed_faults(
    uow: UnitOfWork, first_row_after: int | None, now: int | None
) -> list[FeedFault]:
    """Accept all open faults and return them.

    `first_row_after`: id of the row after which a new stream begins; None: the stream continues.
    `now`: time of the decision in unix seconds; None: nothing is changed.

    Raises:
        InputError: there is nothing to accept, or the stream stopped and needs `first_row_after`.
    """
    cursor, faults = uow.feed.get_cursor(), uow.feed.list_faults(is_open=True)
    if cursor is None:
        raise InputError("no feed was read yet; there is nothing to accept")
    stopping_fault = next((fault for fault in faults if fault.kind in STOPPING_KINDS), None)
    if stopping_fault is not None and first_row_after is None:
        raise InputError(
            f"{stopping_fault.kind}: the stream has to be restarted; give the row after which it "
            "starts with --from ID"
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
            whole_at=0,
        )
        uow.feed.move_cursor(new_cursor, cursor.polls)
    return faults
