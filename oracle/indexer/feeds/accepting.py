"""An operator's decision to read a feed on: its faults are accepted, or a new stream begins.

Stored rows stay: a new stream has another number, and its rows are stored beside the old ones
(docs/explanation/feed.md#a-persons-word).
"""

from dataclasses import replace

from oracle.domain.feed_rows import FeedFault
from oracle.errors import InputError
from oracle.indexer.feeds.feed_faults import STOPPING
from oracle.store.database import UnitOfWork


def accept(uow: UnitOfWork, begin_after: int | None, now: int | None) -> list[FeedFault]:
    """Accept every open fault and return them; `first_row_after` starts a new stream.

    The new stream begins after that row. With `now` None nothing is changed.

    Raises:
        InputError: there is nothing to accept, or the stream stopped and has to begin anew.
    """
    cursor, faults = uow.feed.cursor(), uow.feed.faults(is_open=True)
    if cursor is None:
        raise InputError("no feed was read yet: there is nothing to accept")
    stopped = next((one for one in faults if one.kind in STOPPING), None)
    if stopped is not None and begin_after is None:
        raise InputError(
            f"{stopped.kind}: the stream has to begin anew; --from ID says after which row"
        )
    if begin_after is None and not faults:
        raise InputError("the feed has no fault that is open")
    if now is None:
        return faults
    uow.feed.accept(now)
    if begin_after is not None:
        anew = replace(
            cursor,
            stream=cursor.stream + 1,
            settled_id=begin_after,
            highest_id=begin_after,
            compared_id=begin_after,
            first_id=None,
            whole_at=0,
        )
        uow.feed.move(anew, cursor.polls)
    return faults
