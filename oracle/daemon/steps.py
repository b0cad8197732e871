"""The daemon's loops: each turn is one service's step, and what to say about it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from oracle.chain.verification.refused_blocks import RefusalError
from oracle.daemon.app import App
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.daemon_health import DaemonHealth, count_window
from oracle.daemon.feed_steps import FeedSteps, feed_steps
from oracle.daemon.lease.lease_keeper import renew
from oracle.daemon.maintenance_steps import (
    BACKGROUND_SECONDS,
    MaintenanceSteps,
    OutboxStatistics,
    balance_at,
    why_unaudited,
)
from oracle.daemon.step_facts import Facts, done_facts, turn_facts
from oracle.dispatch.dispatch_calls import DispatchContext
from oracle.dispatch.probe_planner import plan_next
from oracle.domain.health import Condition
from oracle.errors import TransientError
from oracle.indexer.block_confirmation import unconfirmed_reason
from oracle.indexer.feeds.head_limit import FeedHeadLimit
from oracle.indexer.loop import IngestState, WindowCommitted, index_next
from oracle.indexer.refused_block import refusal_in
from oracle.indexer.reorgs.reorg import Rewound
from oracle.kickouts.kickout_planner import plan_kick
from oracle.queries.contract_view import AccountBalance
from oracle.queries.endpoint_view import refresh_endpoint_views
from oracle.queries.stats import DatabaseCount, dispatch_statistics
from oracle.quorum.key_watch import watch_key
from oracle.reporting.readiness import first_gap, why_waiting
from oracle.reporting.report_planner import plan_push
from oracle.reporting.reporting_context import ReportingContext
from oracle.telemetry import metrics
from oracle.telemetry.indexer_metrics import REFUSED
from oracle.txmgr.attribution import why_unproven
from oracle.txmgr.manager import TransactionManager
from oracle.txmgr.nonce_sync import reconcile
from oracle.txmgr.signing_queue import backoff_reason

STATISTICS_SECONDS = 10.0
RECONCILE_SECONDS = 300.0
# A second provider may be silent for so long before the daemon is not ready.
UNCONFIRMED_SECONDS = 300.0
# How often to see whether an endpoint is due, each is once an hour, or one that was late has told.
PROBE_SECONDS = 10.0


@dataclass(slots=True)
class DaemonSteps:
    """What the loops share; `reporter` None: no report is sent; `starts` None: none is started."""

    app: App
    epoch: int
    watch: DaemonHealth
    reporter: ReporterContexts | None = None
    starts: DispatchContext | None = None
    # Whether our nonces were found to be the chain's; nothing is sent before.
    is_reconciled: bool = False
    ingest: IngestState = field(default_factory=IngestState)
    # How to wait inside a turn; None: the next turn comes by itself.
    wait: Callable[[float], object] | None = None
    integrity: MaintenanceSteps = field(init=False)
    feed: FeedSteps | None = field(init=False)
    sent: OutboxStatistics = field(default_factory=OutboxStatistics)
    _database: DatabaseCount = field(init=False)

    def __post_init__(self) -> None:
        self._database = DatabaseCount(self.app.store, self.app.folder, self.ingest.clock)
        self.integrity = MaintenanceSteps(
            self.app, self.epoch, self.ingest, self.watch.liveness.mark_progress
        )
        self.feed = feed_steps(self.app, self.watch, lambda: self._patience)
        self.ingest.confirms_safe = self.app.config.oracle.level == "safe"
        self.ingest.limit = None if self.feed is None else FeedHeadLimit(self.app.store)

    def index(self) -> Facts:
        """Take in one window, or go back over a fork."""
        app = self.app
        with app.store.reading() as uow:
            is_halted = uow.halts.reason() is not None
        backfilled = None if is_halted else self.integrity.backfill_scope()
        if backfilled is not None:
            return backfilled
        try:
            reread, unread = (None, None) if is_halted else self._reread()
            if reread is not None:
                return reread
            done = index_next(app.chain, app.store, app.folder, self.ingest)
            if isinstance(done, WindowCommitted):
                self.watch.folded_to(done.cursor)
                count_window(done)
            elif isinstance(done, Rewound):
                self.watch.folded_to(done.ancestor)
        finally:
            # Where nothing can be written, the lag grows all the same.
            self._show()
            self.integrity.keep_trust()
        if done is not None:
            return turn_facts(done)
        if unread is not None:
            raise unread
        return self._waited()

    def _reread(self) -> tuple[Facts, TransientError | None]:
        """Read again what can be read more surely; the error of who does not give it now.

        Nobody may have those blocks any more: the head goes on all the same, and nothing is
        reported meanwhile. Where a block is refused, it does not.

        Raises:
            TransientError: what is said of a block cannot be true, and nobody proves it.
        """
        try:
            return self.integrity.reread(), None
        except TransientError as error:
            with self.app.store.reading() as uow:
                refusal = refusal_in(uow)
            if refusal is not None:
                raise RefusalError(refusal) from error
            return None, error

    def _show(self) -> None:
        """Let the HTTP server know how it stands."""
        if self.ingest.heads is not None:
            self.watch.saw(self.ingest.heads)
        with self.app.store.reading() as uow:
            self.watch.halt = uow.halts.reason()
            self.watch.gap = None if self.integrity.scope_backfill.is_sound else first_gap(uow)
            refusal = refusal_in(uow)
            unconfirmed = unconfirmed_reason(uow)
        self.watch.refused = None if refusal is None else refusal.words
        REFUSED.set(refusal is not None)
        since, now = self.ingest.unconfirmed_since, self.ingest.clock()
        is_late = since is not None and now - since > UNCONFIRMED_SECONDS
        if unconfirmed is not None and is_late:
            self.watch.raise_condition(Condition.WAITING_WITNESS, unconfirmed)
        else:
            self.watch.clear_condition(Condition.WAITING_WITNESS)
        self.watch.unsure = self.integrity.why_unsure() or why_unaudited(self.app, is_running=True)
        fork_watch = self.ingest.fork_watch
        self.watch.is_in_doubt = fork_watch.is_open()
        self.watch.dispute = fork_watch.held_up(self.ingest.clock())

    def _waited(self) -> Facts:
        """Where nobody comes back to it, wait until the only endpoint may be asked again."""
        if self.wait is None or not self.ingest.fork_watch.is_open():
            return None
        seconds = self.ingest.fork_watch.seconds_left(self.ingest.clock())
        self.wait(seconds)
        return {"did": "waited", "seconds": round(seconds, 1), "for": "a fork to be sure"}

    def audit(self) -> Facts:
        """Ask a second endpoint about what one gave us; while a halt is active, nothing."""
        if self.watch.halt is not None:
            return None
        self.integrity.auditor.wait_seconds = self._patience
        return self.integrity.audit()

    def probe(self) -> Facts:
        """Look at an endpoint that was not looked at for an hour."""
        self.app.prober.background_call.wait_seconds = self._patience
        return self.app.prober.turn()

    def compare_counters(self) -> Facts:
        """Compare what the contracts count with what we counted."""
        self.integrity.counters.background_call.wait_seconds = self._patience
        return self.integrity.compare()

    @property
    def _patience(self) -> float | None:
        """How long a turn waits for what is asked beside the work.

        Where nobody comes back to it, until it is there.
        """
        return None if self.wait is not None else BACKGROUND_SECONDS

    def publish(self) -> Facts:
        """Plan, or take the next step towards the chain."""
        reporter, heads = self.reporter, self.ingest.heads
        if reporter is None or heads is None:
            return None
        if not self.is_reconciled:
            self.compare()
        if self.integrity.why_unsure() is not None:
            return None
        reporting, kickouts = reporter.reporting, reporter.kickouts
        self._wait_for_report(reporting)
        alarm = watch_key(reporter.quorum, heads)
        if alarm is not None:
            return done_facts(alarm)
        manager = self._transmitter()
        sent = None if manager is None else manager.step(heads)
        return done_facts(sent or plan_push(reporting, heads) or plan_kick(kickouts, heads))

    def _wait_for_report(self, context: ReportingContext) -> None:
        """Let `/readyz` know why no report goes, and the log when that changes."""
        reason = why_waiting(context)
        if reason is not None and reason != self.watch.held:
            structlog.get_logger().warning("report_waiting", reason=reason)
        self.watch.held = reason

    def dispatch(self) -> Facts:
        """Start what was drawn: plan, or take the next step with all that can be taken along."""
        starts, heads = self.starts, self.ingest.heads
        if starts is None or heads is None or self.integrity.why_unsure() is not None:
            return None
        if not self.is_reconciled:
            self.compare()
        manager = TransactionManager(starts.tx)
        return done_facts(plan_next(starts, heads) or manager.step(heads))

    def confirm(self) -> Facts:
        """Look for what was sent."""
        heads = self.ingest.heads
        if heads is None:
            return None
        done = [manager.confirm(heads) for manager in self._managers()]
        return done_facts(next((step for step in done if step is not None), None))

    def compare(self) -> Facts:
        """Compare our nonces with the chain's.

        A difference that a person has to solve ends a start, and whoever comes once; in a daemon
        that runs the sender is paused.
        """
        managers = self._managers()
        for manager in managers:
            if self.wait is not None:
                reconcile(manager.context)
            else:
                reporter = self.reporter
                is_ours = reporter is not None and manager.context is reporter.tx
                rest = reporter.back_off_signer if reporter is not None and is_ours else None
                manager.sync_nonces(is_running=self.is_reconciled, if_known=rest)
        self.is_reconciled = self.reporter is not None or bool(managers)
        self._show_pauses()
        return None

    def _show_pauses(self) -> None:
        """Let `/readyz` know whose calls wait for a person, who has not said so himself."""
        whys = [f(one.context) for one in self._managers() for f in (backoff_reason, why_unproven)]
        self.watch.paused = [why for why in whys if why is not None]

    @property
    def unproven(self) -> list[str]:
        """Which used nonces show no receipt of ours: what became of them nobody can prove."""
        return [why for one in self._managers() if (why := why_unproven(one.context)) is not None]

    def _managers(self) -> list[TransactionManager]:
        dispatcher = None if self.starts is None else TransactionManager(self.starts.tx)
        return [one for one in (self._transmitter(), dispatcher) if one is not None]

    def _transmitter(self) -> TransactionManager | None:
        """Return who sends reports, where that is we; a reporter may only sign."""
        if self.reporter is None or not self.reporter.tx.publisher.has_payer:
            return None
        return TransactionManager(self.reporter.tx)

    def keep_lease(self) -> Facts:
        """Hold the lease for another while."""
        renew(self.app.store, self.epoch)
        return None

    def count(self) -> Facts:
        """Count the database for `/metrics`; note how the endpoints are, for other processes."""
        transmitter = self._transmitter()
        self._show_pauses()
        self.watch.endpoints = refresh_endpoint_views(self.app.source, self.app.facts)
        self.app.facts.flush(self.epoch)
        balance = balance_at(None if transmitter is None else transmitter.context)
        counted = self._database.turn(balance)
        if counted is not None:
            metrics.show(replace(counted, dispatch=self._dispatching()))
        at_work = {one.context.role: one.context for one in self._managers()}
        reporter = None if transmitter is None else self.reporter
        plans = None if reporter is None else reporter.reporting
        self.watch.counted(self.sent.count(at_work, self.ingest.heads, plans))
        return None

    def _dispatching(self) -> metrics.DispatchStatistics | None:
        if self.app.dispatch_settings is None:
            return None
        starts = None if self.starts is None else self.starts.tx
        left = balance_at(starts)
        if starts is not None and left is not None:
            self.watch.dispatcher = AccountBalance(
                address=starts.account.address, balance_wei=left
            )
        return dispatch_statistics(self.app.store, left)
