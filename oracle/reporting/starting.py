"""Whether the fold knows enough to report from (publishing.md 3.5, start-up; case F50)."""

from oracle.bindings.qos_oracle import ContractStatus
from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_HASH
from oracle.store.database import UnitOfWork
from oracle.txmgr.context import TxContext


def why_blind(
    context: TxContext, uow: UnitOfWork, heads: Heads, standing: ContractStatus
) -> str | None:
    """Tell why nothing may be reported from what is folded now; None: it may.

    The contract's head is read twice, from the logs and by a call: both must say the same round.
    """
    if not context.is_at_head(uow, heads):
        return "the database is behind the head"
    hole = first_hole(uow)
    if hole is not None:
        return f"block {hole} was never read: `qos-oracle resync gaps`"
    newest = uow.rounds.accepted(1)
    folded = (newest[-1].round, newest[-1].digest) if newest else (0, ZERO_HASH)
    if folded != (standing.head.round, standing.last_report):
        return f"the logs tell of round {folded[0]}, the contract of {standing.head.round}"
    return None


def first_hole(uow: UnitOfWork) -> int | None:
    """Return the lowest block up to the folded one that was never read; None: there is none."""
    identity, cursor, scope = uow.identity.get(), uow.cursor.get(), uow.coverage.current()
    if identity is None or cursor is None or scope is None:
        return None
    holes = uow.coverage.holes(scope.id, identity.start_block, cursor.number)
    return holes[0].first if holes else None
