"""The part of `status` on how far the history is proven, and what limits the proof."""

from oracle.chain.source import ChainSource
from oracle.domain.coverage import IngestScope, Level
from oracle.domain.health import Condition, HealthFinding
from oracle.indexer.audit.unproven_history import why_unproven
from oracle.queries.text.human_numbers import blocks
from oracle.store.database import Store

Line = tuple[str, str]


def certainty_of(
    store: Store, source: ChainSource, scope: IngestScope
) -> tuple[list[HealthFinding], list[Line]]:
    """Return findings on unproven history, and lines on the proof that is possible now."""
    found, lines = _proof(store, source, scope)
    return found, [*_witnesses(source), *lines]


def _witnesses(source: ChainSource) -> list[Line]:
    """Return a warning if no second provider exists, because a single one could forge the chain."""
    if len(set(source.providers().values())) > 1:
        return []
    count = len(source.providers())
    one = "one endpoint" if count == 1 else f"one provider ({count} endpoints)"
    told = f"there is {one}, and a chain of its own making would fit itself"
    return [("witness", f"unwitnessed: {told}; name a second in [chain] endpoints")]


def _proof(
    store: Store, source: ChainSource, scope: IngestScope
) -> tuple[list[HealthFinding], list[Line]]:
    with store.reading() as uow:
        unproven = why_unproven(source, uow, scope)
    if unproven is not None:
        return [HealthFinding(Condition.UNPROVEN, unproven)], []
    level = source.level_of_history()
    if level < Level.BLOOMED:
        told = "the headers prove nothing of it yet, or [verify] does not ask for it"
        return [], [("proof", f"history rests on endpoints' words: {told}")]
    with store.reading() as uow:
        cursor = uow.cursor.get()
        final = -1 if cursor is None or cursor.final_number is None else cursor.final_number
        below = uow.coverage.blocks_below(scope.id, level, 0, final)
    told = f"every block of history can be read as {level.name.lower()}"
    if not below:
        return [], [("proof", told)]
    unreached = f"{blocks(below)} below what can be reached: {told}; `run` reads them again"
    return [HealthFinding(Condition.UNPROVEN, unreached)], []
