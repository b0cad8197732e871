"""Counts the database for `/metrics` on a background thread, without delaying the main loop."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.dispatch.dispatch_calls import STARTS
from oracle.dispatch.downloads import wanted_downloads
from oracle.indexer.folder import Folder
from oracle.queries.status import statistics
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.systems.crynux.predownload import requests_of
from oracle.telemetry import integrity_metrics
from oracle.telemetry.integrity_metrics import IntegrityStatistics
from oracle.telemetry.metrics import DispatchStatistics, IndexStatistics

# A poll waits this long for a result; a slower result is collected by a later poll. The first
# poll waits longer, because `/metrics` has no values before it.
_FIRST_WAIT_SECONDS, _WAIT_SECONDS = 2.0, 0.05
# The pause after a count, as a multiple of its duration: with many nodes and years of coverage a
# count takes seconds of the processor that also folds.
_BACKOFF = 20


_Counted = tuple[IndexStatistics | None, IntegrityStatistics | None]


@dataclass(slots=True)
class DatabaseCount:
    """Counts the database on a thread of its own; the longer a count takes, the rarer they are.

    `clock` returns seconds from an arbitrary origin.
    """

    store: Store
    folder: Folder
    clock: Callable[[], float]
    _call: BackgroundCall[_Counted] = field(
        default_factory=lambda: BackgroundCall(_FIRST_WAIT_SECONDS)
    )
    _began: float = 0.0
    _again: float = 0.0

    def turn(self, balance_wei: int | None) -> IndexStatistics | None:
        """Start a count if one is due; return the index statistics finished since the last call.

        Integrity statistics are exported here; the returned ones are for the caller to export.
        `balance_wei` is included in them.

        Raises:
            TransientError: the database cannot be read.
        """
        if not self._call.is_out:
            if self.clock() < self._again:
                return None
            self._began = self.clock()
            self._call.begin(lambda: self._counted(balance_wei), "statistics")
        ended = self._call.take()
        self._call.wait_seconds = _WAIT_SECONDS
        if ended is None:
            return None
        now = self.clock()
        self._again = now + _BACKOFF * (now - self._began)
        counted, integrity = ended.result()
        if integrity is not None:
            integrity_metrics.show(integrity)
        return counted

    def _counted(self, balance_wei: int | None) -> _Counted:
        counted = statistics(self.store, self.folder.rules, balance_wei)
        return counted, integrity_statistics(self.store, self.folder)


def dispatch_statistics(store: Store, balance_wei: int | None) -> DispatchStatistics:
    """Count the waiting tasks and the draws as of the cursor, and the failed starts."""
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
    """Count the download requests of the last day by state."""
    requested = (one.state for node in uow.nodes.asked() for one in requests_of(node, time))
    return Counter({"planned": len(wanted_downloads(uow))}) + Counter(requested)


def integrity_statistics(store: Store, folder: Folder) -> IntegrityStatistics | None:
    """Count the integrity figures in one snapshot, or return None if nothing is indexed yet."""
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
