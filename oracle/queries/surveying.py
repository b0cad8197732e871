"""Counts for the metrics how sure we are of what the database holds."""

from oracle.indexer.folder import Folder
from oracle.store.database import Store
from oracle.telemetry.integrity_metrics import IntegrityCensus


def integrity_census(store: Store, folder: Folder) -> IntegrityCensus | None:
    """Count, as of one snapshot; None: nothing is indexed yet."""
    scope = folder.scope.id
    with store.reading() as uow:
        cursor, identity = uow.cursor.get(), uow.identity.get()
        if cursor is None or identity is None:
            return None
        covered = uow.coverage.blocks_by_level(scope)
        return IntegrityCensus(
            covered=covered,
            audited=uow.coverage.audited_blocks(scope),
            uncovered=max(0, cursor.number - identity.start_block + 1 - sum(covered.values())),
            dead_letters=uow.dead_letters.count_open(),
            suspect=uow.facts.quarantine.blocks(scope),
        )
