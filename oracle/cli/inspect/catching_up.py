"""Estimates the time that a daemon needs to catch up, by measurement while `status` runs."""

import time
from collections.abc import Callable

from oracle.domain.blocks import BlockRef
from oracle.queries.status_models import CatchingUp
from oracle.store.database import Store

# The indexer commits about once per second; a shorter time would see no new block or one window.
_MIN_WATCH_SECONDS = 2.0


def measure_catch_up(
    store: Store,
    start_block: BlockRef,
    started_at: float,
    head_number: int,
    sleep: Callable[[float], None],
    now: int,
) -> CatchingUp:
    """Measure how far the cursor advances from `start_block` in a few seconds.

    `started_at` is the time at which `start_block` was read, on the monotonic clock. `head_number`
    is the newest block. `now` is in unix seconds of this machine's clock.
    """
    sleep(max(0.0, started_at + _MIN_WATCH_SECONDS - time.monotonic()))
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
    block_number = start_block.number if cursor is None else cursor.number
    blocks_left, blocks_folded = (
        max(0, head_number - block_number),
        max(0, block_number - start_block.number),
    )
    seconds = time.monotonic() - started_at
    return CatchingUp(
        blocks_left=blocks_left,
        blocks_per_second=blocks_folded / seconds,
        watched_seconds=seconds,
        until=now + round(blocks_left * seconds / blocks_folded) if blocks_folded else None,
    )
