"""Counts what dispatching has to do, for `/metrics`."""

from collections import Counter

from oracle.dispatch.dispatch_calls import STARTS
from oracle.dispatch.downloads import wanted_downloads
from oracle.indexer.folder import Folder
from oracle.store.database import Store, UnitOfWork
from oracle.systems.crynux.predownload import requests_of
from oracle.telemetry.integrity_metrics import IntegrityStatistics
from oracle.telemetry.metrics import DispatchStatistics


def dispatch_statistics(store: Store, balance_wei: int | None) -> DispatchStatistics:
    """Count the waiting tasks and the draws as of the cursor, and the starts that failed."""
    with store.reading() as uow:
        cursor = uow.cursor.get()
        active = uow.draws.active()
        oldest = min((draw.seed_block for draw in active), default=None)
        return DispatchStatistics(
            waiting=uow.tasks.count_waiting(),
            active=len(active),
            oldest_blocks=0 if oldest is None or cursor is None else cursor.number - oldest,
            failures=uow.outbox.intents.failures(STARTS),
            downloads=_downloads(uow, 0 if cursor is None else cursor.time),
            balance_wei=balance_wei,
        )


def _downloads(uow: UnitOfWork, time: int) -> Counter[str]:
    """Count the requests of the last day by how they stand."""
    requested = (one.state for node in uow.nodes.asked() for one in requests_of(node, time))
    return Counter({"planned": len(wanted_downloads(uow))}) + Counter(requested)


def integrity_statistics(store: Store, folder: Folder) -> IntegrityStatistics | None:
    """Count, as of one snapshot; None: nothing is indexed yet."""
    scope = folder.scope.id
    with store.reading() as uow:
        cursor, identity = uow.cursor.get(), uow.identity.get()
        if cursor is None or identity is None:
            return None
        covered = uow.coverage.blocks_by_level(scope)
        return IntegrityStatistics(
            covered=covered,
            audited=uow.coverage.audited_blocks(scope),
            uncovered=max(0, cursor.number - identity.start_block + 1 - sum(covered.values())),
            dead_letters=uow.dead_letters.count_open(),
            suspect=uow.facts.quarantine.blocks(scope),
        )
