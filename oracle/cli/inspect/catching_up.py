"""Estimate of the time a daemon needs to catch up, measured while `status` runs."""

import time
from collections.abc import Callable

from oracle.domain.blocks import BlockRef
from oracle.queries.status_models import CatchingUp
from oracle.store.database import Store

# The indexer commits about once per second: a shorter time would see no block, or one window.
_LOOK_SECONDS = 2.0


def watch_catching_up(
    store: Store,
    before: BlockRef,
    since: float,
    head: int,
    sleep: Callable[[float], None],
    now: int,
) -> CatchingUp:
    """Measure how far the cursor advances from `start_block` in a few seconds.

    `started_at` is the time at which `start_block` was read, on the monotonic clock. `head_number`
    is the newest block. `now` is in unix seconds of this machine's clock.
    """
    sleep(max(0.0, since + _LOOK_SECONDS - time.monotonic()))
    with store.reading() as uow:
        cursor = uow.cursor.get()
    number = before.number if cursor is None else cursor.number
    left, folded = max(0, head - number), max(0, number - before.number)
    seconds = time.monotonic() - since
    return CatchingUp(
        blocks_left=left,
        blocks_per_second=folded / seconds,
        watched_seconds=seconds,
        until=now + round(left * seconds / folded) if folded else None,
    )
