"""Reports blocks of history that are unproven although [verify] requires a proof.

On a chain whose headers prove nothing the required level cannot be reached. The missing level
counts as a failure until a second endpoint agrees on every block, or an operator lowers the level.
A chain that is too short to be judged is exempt.
"""

from oracle.chain.source import ChainSource
from oracle.domain.coverage import IngestScope
from oracle.indexer.audit.quarantine_liars import count_usable_witnesses
from oracle.store.database import UnitOfWork


def unproven_history_reason(
    source: ChainSource, uow: UnitOfWork, scope: IngestScope, *, max_unaudited: int = 0
) -> str | None:
    """Return which blocks are unproven and how to resolve that, or None if there are none.

    Up to `max_unaudited` blocks may wait for the audit if a second witness can audit them.
    """
    shortfall, cursor = source.find_level_shortfall(), uow.cursor.get()
    if shortfall is None or cursor is None or cursor.final_number is None:
        return None
    final_number = min(cursor.final_number, cursor.number)
    unaudited_blocks = uow.coverage.count_unaudited_blocks_below_level(
        scope.id, shortfall.unproven_below, final_number
    )
    has_second = count_usable_witnesses(source) > 1
    if unaudited_blocks <= (max_unaudited if has_second else 0):
        return None
    explanation = (
        "no second endpoint has confirmed them yet"
        if has_second
        else "there is no second endpoint"
    )
    advice = "wait for the audit" if has_second else "add a second one to [chain] endpoints"
    unsupported = ", ".join(shortfall.unsupported_features)
    return (
        f"{unaudited_blocks} blocks are unproven and rest on a single endpoint, because "
        f"{explanation} and the chain's headers ({unsupported}) do not "
        f'allow the proof that verify.history = "{shortfall.wanted_level.name.lower()}" '
        f"requires; {advice}, or lower the requirement with "
        f'verify.history = "{shortfall.reachable_level.name.lower()}"'
    )
