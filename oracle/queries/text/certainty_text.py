"""What `status` says of how sure the index is: what the chain's headers prove, and what waits."""

from oracle.chain.source import ChainSource
from oracle.domain.coverage import IngestScope, Level
from oracle.indexer.audit.unproven_history import why_unproven
from oracle.store.database import Store


def told_of_surety(store: Store, source: ChainSource, scope: IngestScope) -> list[tuple[str, str]]:
    """Say what can be proven of history now, and how many blocks were read below that."""
    return [*_witnesses(source), *_proof(store, source, scope)]


def _witnesses(source: ChainSource) -> list[tuple[str, str]]:
    """Say that nobody could contradict, where that is so: a whole chain may be made up."""
    if len(source.endpoint_names()) > 1:
        return []
    told = "there is one endpoint, and a chain of its own making would fit itself"
    return [("witness", f"unwitnessed: {told}; name a second in [chain] endpoints")]


def _proof(store: Store, source: ChainSource, scope: IngestScope) -> list[tuple[str, str]]:
    with store.reading() as uow:
        unproven = why_unproven(source, uow, scope)
    if unproven is not None:
        return [("UNPROVEN", unproven)]
    level = source.level_of_history()
    if level < Level.BLOOMED:
        told = "the headers prove nothing of it yet, or [verify] does not ask for it"
        return [("proof", f"history rests on endpoints' words: {told}")]
    with store.reading() as uow:
        cursor = uow.cursor.get()
        final = -1 if cursor is None or cursor.final_number is None else cursor.final_number
        below = uow.coverage.blocks_below(scope.id, level, 0, final)
    told = f"every block of history can be read as {level.name.lower()}"
    if not below:
        return [("proof", told)]
    return [
        (
            "UNPROVEN",
            f"{below} blocks are below what can be reached: {told}; `run` reads them again",
        )
    ]
