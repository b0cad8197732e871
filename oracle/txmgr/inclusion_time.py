"""Estimates how long a transaction takes to be included; a call that would be late is not signed.

A call that lands after its deadline reverts and costs its gas.
"""

from itertools import pairwise

from oracle.store.database import UnitOfWork
from oracle.txmgr.context import TxContext

# How many of the last landed transactions and of the newest blocks are measured.
_LANDED, _BLOCKS = 20, 64
# No transaction is expected in the very next block.
_LEAST_BLOCKS = 2


def why_too_late(
    context: TxContext, uow: UnitOfWork, deadline: int | None, now: int
) -> str | None:
    """Return why a call cannot land by its deadline (chain time) any more, or None if it may."""
    if deadline is None:
        return None
    if now > deadline:
        return "its deadline passed"
    margin = margin_seconds(context, uow)
    if now + margin <= deadline:
        return None
    return f"its deadline is {deadline - now} s away, and to land may take {margin} s"


def margin_seconds(context: TxContext, uow: UnitOfWork) -> int:
    """Return how long before a deadline nothing is signed for it, in seconds of chain time.

    The margin covers as many blocks as all but the slowest twentieth of the last landed
    transactions took, from the first broadcast to inclusion, and two at least. It is at most
    `max_margin_seconds`, because after a week of high fees every call with a deadline would end,
    and nothing would be measured any more.
    """
    landed = sorted(uow.outbox.slots.blocks_to_land(context.account, _LANDED))
    slow = landed[(len(landed) - 1) * 19 // 20] if landed else 0
    seconds = _seconds_of(uow, max(_LEAST_BLOCKS, slow))
    return min(seconds, context.sending.most_margin_seconds)


def _seconds_of(uow: UnitOfWork, blocks: int) -> int:
    """Return how long so many blocks take, at the 75th percentile of recent block times."""
    newest = uow.blocks.newest()
    known = [] if newest is None else uow.blocks.between(newest.number - _BLOCKS, newest.number)
    gaps = sorted(
        -(-(new.time - old.time) // (new.number - old.number)) for old, new in pairwise(known)
    )
    slow = gaps[(len(gaps) - 1) * 3 // 4] if gaps else 1
    # Block times are in whole seconds, even if blocks come more often.
    return blocks * max(1, slow)
