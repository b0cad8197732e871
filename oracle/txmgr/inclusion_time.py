"""How long our transactions take into a block: what cannot make its deadline is not signed.

A call that comes after its deadline reverts and costs its gas.
"""

from itertools import pairwise

from oracle.store.database import UnitOfWork
from oracle.txmgr.context import TxContext

# What landed last is measured, and at what pace the newest blocks came.
_LANDED, _BLOCKS = 20, 64
# No transaction is counted on to be in the very next block.
_LEAST_BLOCKS = 2


def why_too_late(
    context: TxContext, uow: UnitOfWork, deadline: int | None, now: int
) -> str | None:
    """Tell why a call cannot land any more by its deadline, in chain time; None: it may."""
    if deadline is None:
        return None
    if now > deadline:
        return "its deadline passed"
    margin = margin_seconds(context, uow)
    if now + margin <= deadline:
        return None
    return f"its deadline is {deadline - now} s away, and to land may take {margin} s"


def margin_seconds(context: TxContext, uow: UnitOfWork) -> int:
    """Return for how long before a deadline nothing is signed for it, in seconds of the chain.

    As many blocks as all but the slowest twentieth of what landed last took, from the first
    sending to its block; two at least. Never more than `most_margin_seconds`: else a dear week
    would end all that has a deadline, and nothing would be measured any more.
    """
    landed = sorted(uow.outbox.slots.blocks_to_land(context.account, _LANDED))
    slow = landed[(len(landed) - 1) * 19 // 20] if landed else 0
    seconds = _seconds_of(uow, max(_LEAST_BLOCKS, slow))
    return min(seconds, context.sending.most_margin_seconds)


def _seconds_of(uow: UnitOfWork, blocks: int) -> int:
    """Return how long so many blocks take: as all but the longest quarter of the newest did."""
    newest = uow.blocks.newest()
    known = [] if newest is None else uow.blocks.between(newest.number - _BLOCKS, newest.number)
    gaps = sorted(
        -(-(new.time - old.time) // (new.number - old.number)) for old, new in pairwise(known)
    )
    slow = gaps[(len(gaps) - 1) * 3 // 4] if gaps else 1
    # Times are in whole seconds, also where blocks are not.
    return blocks * max(1, slow)
