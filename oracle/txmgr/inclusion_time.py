"""Estimates how long a transaction takes to be included; a call that would be late is not signed.

A call that lands after its deadline reverts and costs its gas.
"""

from itertools import pairwise

from oracle.store.database import UnitOfWork
from oracle.txmgr.context import AccountContext

# How many of the last landed transactions and of the newest blocks are measured.
_LANDED_SAMPLE, _BLOCK_SAMPLE = 20, 64
# No transaction is expected in the very next block.
_MIN_BLOCKS = 2


def deadline_obstacle(
    context: AccountContext, uow: UnitOfWork, deadline: int | None, now: int
) -> str | None:
    """Return why a call cannot land by its deadline (chain time) any more, or None if it may."""
    if deadline is None:
        return None
    if now > deadline:
        return "its deadline passed"
    margin_s = compute_margin_seconds(context, uow)
    if now + margin_s <= deadline:
        return None
    return f"its deadline is in {deadline - now} s, but landing may take {margin_s} s"


def compute_margin_seconds(context: AccountContext, uow: UnitOfWork) -> int:
    """Return how many seconds of chain time before its deadline a call is no longer signed.

    The margin covers as many blocks as all but the slowest twentieth of the last landed
    transactions took, from the first broadcast to inclusion, and two at least. It is at most
    `max_margin_seconds`, because after a week of high fees every call with a deadline would end,
    and nothing would be measured any more.
    """
    inclusion_blocks = sorted(
        uow.outbox.slots.list_landing_block_counts(context.account, _LANDED_SAMPLE)
    )
    slow_blocks = (
        inclusion_blocks[(len(inclusion_blocks) - 1) * 19 // 20] if inclusion_blocks else 0
    )
    seconds = _estimate_seconds(uow, max(_MIN_BLOCKS, slow_blocks))
    return min(seconds, context.send_settings.max_margin_seconds)


def _estimate_seconds(uow: UnitOfWork, blocks: int) -> int:
    """Return how many seconds `blocks` blocks take, at the 75th percentile of recent times."""
    newest = uow.blocks.get_newest()
    recent_blocks = (
        []
        if newest is None
        else uow.blocks.list_canonical(newest.number - _BLOCK_SAMPLE, newest.number)
    )
    gaps = sorted(
        -(-(new.time - old.time) // (new.number - old.number))
        for old, new in pairwise(recent_blocks)
    )
    slow_gap = gaps[(len(gaps) - 1) * 3 // 4] if gaps else 1
    # Block times are in whole seconds, even if blocks come more often.
    return blocks * max(1, slow_gap)
