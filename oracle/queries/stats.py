"""Counts the database for `/metrics`: beside the work, which it must not keep waiting."""

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

# So long a turn waits for what is counted; what takes longer is looked for in a later one. The
# first one waits longer: until then `/metrics` says nothing.
_FIRST_WAIT_SECONDS, _WAIT_SECONDS = 2.0, 0.05
# What counting took is followed by so many times as long without it: many nodes and years of
# coverage take seconds of the processor that folds.
_BACKOFF = 20


_Counted = tuple[IndexStatistics | None, IntegrityStatistics | None]


@dataclass(slots=True)
class DatabaseCount:
    """Counts the database on a thread of its own, the more rarely the longer it takes.

    `clock` counts seconds, from anywhere.
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
        """Begin to count where it is time; show and return what was counted since the last turn.

        What is returned is the caller's to show. `balance_wei` is told along.

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
