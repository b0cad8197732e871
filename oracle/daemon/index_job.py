"""The daemon's job that indexes blocks and updates the health of the index."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from oracle.chain.verification.refused_blocks import RefusalError
from oracle.daemon.compose import Index
from oracle.daemon.daemon_health import DaemonHealth, count_window
from oracle.daemon.maintenance_jobs import MaintenanceJobs, unaudited_reason
from oracle.daemon.scheduler import Facts
from oracle.domain.health import Condition
from oracle.errors import TransientError
from oracle.indexer.block_confirmation import unconfirmed_reason
from oracle.indexer.block_hooks import numbers_by_name
from oracle.indexer.commit import WindowCommitted
from oracle.indexer.loop import Done, IngestState, index_next
from oracle.indexer.refused_block import refusal_in
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.reorg import Rewound
from oracle.reporting.readiness import first_gap
from oracle.telemetry.indexer_metrics import REFUSED

# How long a second provider may be silent before the daemon is not ready.
UNCONFIRMED_SECONDS = 300.0


@dataclass(slots=True)
class IndexJob:
    """Indexes one window per tick; `wait` blocks inside a tick, None: another tick follows."""

    index: Index
    ingest: IngestState
    maintenance: MaintenanceJobs
    health: DaemonHealth
    wait: Callable[[float], object] | None = None

    def tick(self) -> Facts:
        """Repair older blocks, else index one window, or rewind a fork."""
        index = self.index
        with index.store.reading() as uow:
            is_halted = uow.halts.reason() is not None
        backfilled = None if is_halted else self.maintenance.backfill_scope()
        if backfilled is not None:
            return backfilled
        try:
            reread, unread = (None, None) if is_halted else self._reread()
            if reread is not None:
                return reread
            done = index_next(index.chain, index.store, index.folder, self.ingest)
            if isinstance(done, WindowCommitted):
                self.health.folded_to(done.cursor)
                count_window(done)
            elif isinstance(done, Rewound):
                self.health.folded_to(done.ancestor)
        finally:
            # The lag grows even if nothing can be written.
            self._show()
            self.maintenance.keep_trust()
        if done is not None:
            return indexed_facts(done)
        if unread is not None:
            raise unread
        return self._wait_for_fork()

    def _reread(self) -> tuple[Facts, TransientError | None]:
        """Reread blocks that can be verified better; return the error of a silent endpoint.

        Possibly no endpoint has those blocks any more. The head goes on all the same, and nothing
        is reported meanwhile; if a block is refused, the head stops.

        Raises:
            TransientError: an endpoint's data about a block is inconsistent, and no endpoint
                proves
                it.
        """
        try:
            return self.maintenance.reread(), None
        except TransientError as error:
            with self.index.store.reading() as uow:
                refusal = refusal_in(uow)
            if refusal is not None:
                raise RefusalError(refusal) from error
            return None, error

    def _show(self) -> None:
        """Update the health of the index."""
        health, maintenance = self.health, self.maintenance
        if self.ingest.heads is not None:
            health.saw(self.ingest.heads)
        with self.index.store.reading() as uow:
            health.halt = uow.halts.reason()
            health.gap = None if maintenance.scope_backfill.is_sound else first_gap(uow)
            refusal = refusal_in(uow)
            unconfirmed = unconfirmed_reason(uow)
        health.refused = None if refusal is None else refusal.words
        REFUSED.set(refusal is not None)
        since, now = self.ingest.unconfirmed_since, self.ingest.clock()
        is_late = since is not None and now - since > UNCONFIRMED_SECONDS
        if unconfirmed is not None and is_late:
            health.raise_condition(Condition.WAITING_WITNESS, unconfirmed)
        else:
            health.clear_condition(Condition.WAITING_WITNESS)
        health.unsure = maintenance.why_unsure() or unaudited_reason(self.index, is_running=True)
        fork_watch = self.ingest.fork_watch
        health.is_in_doubt = fork_watch.is_open()
        health.dispute = fork_watch.held_up(self.ingest.clock())

    def _wait_for_fork(self) -> Facts:
        """Wait, if no tick follows, until the only endpoint may confirm a fork."""
        if self.wait is None or not self.ingest.fork_watch.is_open():
            return None
        seconds = self.ingest.fork_watch.seconds_left(self.ingest.clock())
        self.wait(seconds)
        return {"did": "waited", "seconds": round(seconds, 1), "for": "a fork to be sure"}


def indexed_facts(done: Done) -> Mapping[str, object]:
    """Return the log facts of a tick that changed something."""
    if isinstance(done, HaltChanged):
        did = "halted" if done.is_closed else "resumed"
        return {"did": did, "halt": done.name, "reason": done.reason}
    if isinstance(done, Rewound):
        return {
            "did": "rewound",
            "to": done.ancestor.number,
            "depth": done.depth,
            "logs": done.logs,
            "reports": done.reports,
            "endpoints": list(done.endpoints),
        }
    return dict(_window_facts(done))


def _window_facts(done: WindowCommitted) -> Iterator[tuple[str, object]]:
    yield "did", "indexed"
    yield "blocks", f"{done.blocks.first}..{done.blocks.last}"
    yield "behind", done.newest - done.cursor.number
    yield "logs", done.logs
    yield "events", sum(done.events.values())
    yield from numbers_by_name(done.notes).items()
    milliseconds = 1000 * (done.fetch_seconds + done.fold_seconds + done.commit_seconds)
    yield "ms", round(milliseconds, 1)
