"""The daemon job that indexes blocks and updates the health of the index."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from oracle.chain.verification.refused_blocks import BlockRefusedError
from oracle.daemon.compose import Index
from oracle.daemon.daemon_health import DaemonHealth, record_window_metrics
from oracle.daemon.maintenance_jobs import MaintenanceJobs, find_unsound_block_reason
from oracle.daemon.rules_switch import RulesSwitcher
from oracle.daemon.scheduler import TickFacts
from oracle.domain.health import Condition
from oracle.errors import TransientError
from oracle.indexer.block_confirmation import get_confirmation_obstacle, get_refusal
from oracle.indexer.block_hooks import get_max_header_depth, group_note_numbers_by_hook
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.loop import IngestResult, IngestState, ingest_next_window
from oracle.indexer.reorgs.finality_halt import HaltChanged
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.reporting.readiness import find_first_unread_block
from oracle.telemetry.indexer_metrics import REFUSED

# The daemon is not ready if no second provider has confirmed a block for this many seconds.
UNCONFIRMED_SECONDS = 300.0


@dataclass(slots=True)
class IndexJob:
    """Indexes one window of blocks per tick.

    `wait` waits for some seconds within a tick. It is set in a process that exits when everything
    is done (`run --once`), and None in a daemon, where another tick follows.
    """

    index: Index
    ingest: IngestState
    maintenance: MaintenanceJobs
    health: DaemonHealth
    switcher: RulesSwitcher
    wait: Callable[[float], object] | None = None
    _is_switch_checked: bool = False

    def run_tick(self) -> TickFacts:
        """Repair or reread older blocks, index the next window, or rewind after a fork."""
        index = self.index
        with index.store.read_transaction() as uow:
            is_halted = uow.halts.find_halt_reason() is not None
        backfill_facts = None if is_halted else self.maintenance.backfill_index_scope()
        if backfill_facts is not None:
            return backfill_facts
        try:
            reread_facts, reread_error = (None, None) if is_halted else self._reread_blocks()
            if reread_facts is not None:
                return reread_facts
            result = ingest_next_window(index.chain, index.store, index.folder, self.ingest)
            if isinstance(result, CommittedWindow):
                self.health.record_folded_block(result.cursor)
                record_window_metrics(result)
            elif isinstance(result, RewindResult):
                self.health.record_folded_block(result.ancestor)
        finally:
            # Health is also updated after a failure, because the lag keeps growing.
            self._update_health()
            self.maintenance.store_endpoint_findings()
        if not is_halted and (result is not None or not self._is_switch_checked):
            self._switch_rules_if_due()
        if result is not None:
            return describe_index_tick(result)
        if reread_error is not None:
            raise reread_error
        return self._wait_for_fork_confirmation()

    def _switch_rules_if_due(self) -> None:
        """At the head, switch to the rules in force if the database uses other rules.

        Raises:
            RulesSwitchedError: the database was switched.
        """
        if not self._is_at_head():
            return
        self._is_switch_checked = True
        refusal_reason = self.switcher.switch_rules_if_due()
        if refusal_reason is None:
            self.health.clear_condition(Condition.RULES_NOT_FOLLOWED)
        else:
            self.health.set_condition(Condition.RULES_NOT_FOLLOWED, refusal_reason)

    def _is_at_head(self) -> bool:
        """Return whether the index is close enough to the head for building reports."""
        lag_blocks = self.health.lag_blocks
        return lag_blocks is not None and lag_blocks <= get_max_header_depth(
            self.index.folder.hooks
        )

    def _reread_blocks(self) -> tuple[TickFacts, TransientError | None]:
        """Reread blocks that can now be verified at a higher level.

        Returns the facts of the tick, and the error if no endpoint responded. Such an error does
        not stop indexing, because the endpoints may no longer have these old blocks. However,
        nothing is reported until the blocks are reread.

        Raises:
            BlockRefusedError: a block is refused, because an endpoint's data about it contradict
                each other and no endpoint proves the block; indexing stops.
        """
        try:
            return self.maintenance.reread_blocks(), None
        except TransientError as error:
            with self.index.store.read_transaction() as uow:
                refusal = get_refusal(uow)
            if refusal is not None:
                raise BlockRefusedError(refusal) from error
            return None, error

    def _update_health(self) -> None:
        health, maintenance = self.health, self.maintenance
        if self.ingest.heads is not None:
            health.record_heads(self.ingest.heads)
        with self.index.store.read_transaction() as uow:
            health.halt_reason = uow.halts.find_halt_reason()
            health.first_gap = (
                None if maintenance.scope_backfill.is_complete else find_first_unread_block(uow)
            )
            refusal = get_refusal(uow)
            confirmation_obstacle = get_confirmation_obstacle(uow)
        health.refusal_reason = None if refusal is None else refusal.reason
        REFUSED.set(refusal is not None)
        unconfirmed_since = self.ingest.unconfirmed_since
        now = self.ingest.clock()
        is_unconfirmed_too_long = (
            unconfirmed_since is not None and now - unconfirmed_since > UNCONFIRMED_SECONDS
        )
        if confirmation_obstacle is not None and is_unconfirmed_too_long:
            health.set_condition(Condition.WAITING_WITNESS, confirmation_obstacle)
        else:
            health.clear_condition(Condition.WAITING_WITNESS)
        health.unsure_reason = (
            maintenance.find_unreportable_state_reason()
            or find_unsound_block_reason(
                self.index, is_running=True, audit_obstacle=maintenance.audit_obstacle
            )
        )
        fork_watch = self.ingest.fork_watch
        health.is_fork_in_doubt = fork_watch.is_pending()
        health.dispute = fork_watch.get_long_dispute(self.ingest.clock())

    def _wait_for_fork_confirmation(self) -> TickFacts:
        """Wait until a fork that one endpoint reported can be confirmed.

        Nothing is done if `wait` is None.
        """
        if self.wait is None or not self.ingest.fork_watch.is_pending():
            return None
        seconds = self.ingest.fork_watch.get_seconds_until_poll(self.ingest.clock())
        self.wait(seconds)
        return {"did": "waited", "seconds": round(seconds, 1), "for": "a fork to be sure"}


def describe_index_tick(result: IngestResult) -> Mapping[str, object]:
    """Return the log fields of a tick that changed something."""
    if isinstance(result, HaltChanged):
        action = "halted" if result.is_active else "resumed"
        return {"did": action, "halt": result.name, "reason": result.reason}
    if isinstance(result, RewindResult):
        return {
            "did": "rewound",
            "to": result.ancestor.number,
            "depth": result.depth,
            "logs": result.log_count,
            "reports": result.report_count,
            "endpoints": list(result.endpoints),
        }
    return dict(_iter_window_log_fields(result))


def _iter_window_log_fields(window: CommittedWindow) -> Iterator[tuple[str, object]]:
    yield "did", "indexed"
    yield "blocks", f"{window.blocks.first}..{window.blocks.last}"
    yield "behind", window.newest_number - window.cursor.number
    yield "logs", window.log_count
    yield "events", sum(window.event_counts.values())
    yield from group_note_numbers_by_hook(window.notes).items()
    milliseconds = 1000 * (window.fetch_seconds + window.fold_seconds + window.commit_seconds)
    yield "ms", round(milliseconds, 1)
