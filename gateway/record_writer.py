"""Writes the records that must survive a restart, in batches on a separate thread.

See docs/explanation/gateway.md#persistence-and-restarts.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from gateway import gateway_metrics
from gateway.draw_seeds import DrawEpoch
from gateway.gateway_records import SESSION_ENDING_KINDS, ReportedOutcome
from gateway.gateway_rules import GatewayRules
from oracle.errors import FatalError, OracleError
from oracle.store.database import Store
from oracle.store.gateway_repositories import StoredCheck, StoredEpoch, StoredOutcome
from oracle.systems.pocket.relay_outcomes import OutcomeKind
from oracle.telemetry.logger import get_logger
from oracle.telemetry.logging_setup import is_power_of_two

_WRITE_INTERVAL_SECONDS = 0.5
# Maximum number of rows per transaction, so that each transaction is short.
_MAX_BATCH_ROWS = 20_000
# Maximum number of rows that wait for an unavailable database. If there are more, the oldest are
# dropped.
_MAX_WAITING_ROWS = 1_000_000
_PRUNE_INTERVAL_MS = 60_000
# Kind with which a passed check is stored among the outcomes. A client cannot report this kind.
CHECK_PASSED = "check_passed"
_SESSION_KINDS = sorted(kind.value for kind in SESSION_ENDING_KINDS)
_WINDOW_KINDS = [
    *sorted(kind.value for kind in OutcomeKind if kind not in SESSION_ENDING_KINDS),
    CHECK_PASSED,
]

# The row of an outcome, without its number and without the time at which it was reported.
_OutcomeRow = tuple[int, str, str, str, float | None, str, str | None]


class RecordWriter:
    """Queues records from any thread, and writes them.

    `failure` is the reason why the records cannot be written, or None. When writing has ended for
    good, because another process took over the database or the writer crashed, `on_lost` is called
    from the writer's thread, and `end_reason` has the reason.
    """

    def __init__(
        self, store: Store, rules: GatewayRules, next_number: int, on_lost: Callable[[], None]
    ) -> None:
        self.failure: str | None = None
        self.end_reason: str | None = None
        self._store = store
        self._rules = rules
        # Number of the next outcome, and lowest number of an outcome that is not stored yet.
        self._next_number = self._next_unstored = next_number
        # (Number, future) in ascending order. Each future waits until all outcomes below its
        # number are stored.
        self._waiting_futures: deque[tuple[int, Future[bool]]] = deque()
        self._on_lost = on_lost
        self._before_write: Callable[[], object] = lambda: None
        self._outcomes: deque[StoredOutcome] = deque()
        self._epochs: list[StoredEpoch] = []
        self._checks: dict[tuple[str, str], StoredCheck] = {}
        self._lock = threading.Lock()
        self._end_event = threading.Event()
        self._wake_event = threading.Event()
        self._thread = threading.Thread(
            target=self._run_writes, name="gateway writer", daemon=True
        )
        self._failures = 0
        self._latest_ms = 0
        self._pruned_at = 0

    def start_writing(self, before_write: Callable[[], object]) -> None:
        """Start to write queued records regularly.

        `before_write` is called before each write.
        """
        self._before_write = before_write
        self._thread.start()

    def stop_writing(self) -> None:
        """Write the remaining records, and stop the thread."""
        self._end_event.set()
        self._wake_event.set()
        if self._thread.is_alive():
            self._thread.join()
        self.write_queued_records()
        self._resolve_stored_futures(is_over=True)

    def create_stored_future(self) -> "Future[bool]":
        """Return a future that becomes True once all queued outcomes are stored.

        These are the outcomes queued so far. The future becomes False if the writer does not run
        or has dropped outcomes. While the database is unavailable, the future stays pending, and
        the caller decides how long to wait.
        """
        future: Future[bool] = Future()
        with self._lock:
            is_all_stored = self._next_unstored >= self._next_number
            if is_all_stored or not self._thread.is_alive():
                future.set_result(is_all_stored)
                return future
            self._waiting_futures.append((self._next_number, future))
        self._wake_event.set()
        return future

    def enqueue_outcomes(self, outcomes: Sequence[ReportedOutcome], now_ms: int) -> None:
        """Queue outcomes that were accepted at `now_ms`."""
        self._enqueue_rows(
            [
                (
                    outcome.t_ms,
                    outcome.chain,
                    outcome.node,
                    session,
                    outcome.latency_ms,
                    outcome.kind.value,
                    outcome_id,
                )
                for outcome, session, outcome_id in outcomes
            ],
            now_ms,
        )

    def enqueue_passed_checks(self, chain: str, nodes: Sequence[str], now_ms: int) -> None:
        """Queue the passed checks of these nodes."""
        self._enqueue_rows(
            [(now_ms, chain, node, "", None, CHECK_PASSED, None) for node in nodes], now_ms
        )

    def _enqueue_rows(self, rows: list[_OutcomeRow], now_ms: int) -> None:
        with self._lock:
            self._latest_ms = now_ms
            for number, row in enumerate(rows, self._next_number):
                self._outcomes.append(StoredOutcome(number, now_ms, *row))
            self._next_number += len(rows)
            if len(self._outcomes) > _MAX_WAITING_ROWS:
                while len(self._outcomes) > _MAX_WAITING_ROWS:
                    self._outcomes.popleft()
                _resolve_futures(self._waiting_futures, is_stored=False)
                self._waiting_futures.clear()
            gateway_metrics.UNWRITTEN.set(len(self._outcomes))

    def enqueue_epoch(self, epoch: DrawEpoch) -> None:
        """Queue an epoch, which must be stored before it begins."""
        with self._lock:
            self._epochs.append(StoredEpoch(*epoch))

    def enqueue_check_states(self, checks: Iterable[StoredCheck]) -> None:
        """Queue the check states of nodes.

        A newer state replaces an older one.
        """
        with self._lock:
            self._checks |= {(check.chain, check.node): check for check in checks}

    def write_queued_records(self) -> None:
        """Write all queued records.

        If the database is unavailable, the records stay queued and are written later.
        """
        while self._write_batch():
            pass

    def _run_writes(self) -> None:
        try:
            while not self._end_event.is_set():
                # A request that waits for its outcomes wakes the writer. After a failure, the
                # writer waits before the next attempt nevertheless.
                self._wake_event.wait(_WRITE_INTERVAL_SECONDS)
                if self.failure is not None:
                    self._end_event.wait(_WRITE_INTERVAL_SECONDS)
                self._wake_event.clear()
                self._before_write()
                self.write_queued_records()
        except BaseException as error:
            # Any such error is a bug. Stop, because no further record would be written without
            # this thread.
            self.failure = "the database writer has crashed"
            self._end_writing(f"{self.failure}: {type(error).__name__}: {error}")
            raise

    def _write_batch(self) -> bool:
        """Write one batch of rows, and return whether it was full.

        If it was full, more rows may be queued.
        """
        with self._lock:
            row_count = min(len(self._outcomes), _MAX_BATCH_ROWS)
            outcomes = [self._outcomes.popleft() for _ in range(row_count)]
            epochs, self._epochs = self._epochs, []
            checks, self._checks = self._checks, {}
        if not (outcomes or epochs or checks or self._is_prune_due()):
            return False
        try:
            self._write_and_prune_rows(outcomes, epochs, checks)
        except OracleError as error:
            self._requeue(outcomes, epochs, checks)
            self._record_failure(error)
            return False
        self.failure = None
        if outcomes:
            with self._lock:
                self._next_unstored = outcomes[-1].number + 1
        self._resolve_stored_futures()
        gateway_metrics.UNWRITTEN.set(len(self._outcomes))
        return row_count == _MAX_BATCH_ROWS

    def _resolve_stored_futures(self, *, is_over: bool = False) -> None:
        """Set the futures of stored outcomes to True.

        If `is_over`, all others are set to False.
        """
        with self._lock:
            stored_waiters = [
                stored_waiter
                for stored_waiter in self._waiting_futures
                if stored_waiter[0] <= self._next_unstored
            ]
            unstored_waiters = [
                unstored_waiter
                for unstored_waiter in self._waiting_futures
                if unstored_waiter[0] > self._next_unstored
            ]
            self._waiting_futures = deque(() if is_over else unstored_waiters)
        _resolve_futures(stored_waiters, is_stored=True)
        if is_over:
            _resolve_futures(unstored_waiters, is_stored=False)

    def _end_writing(self, reason: str) -> None:
        self.end_reason = reason
        self._resolve_stored_futures(is_over=True)
        self._on_lost()

    def _write_and_prune_rows(
        self,
        outcomes: list[StoredOutcome],
        epochs: list[StoredEpoch],
        checks: dict[tuple[str, str], StoredCheck],
    ) -> None:
        with self._store.transaction() as uow:
            uow.gateway.outcomes.append(outcomes)
            uow.gateway.epochs.add(epochs)
            uow.gateway.checks.save(list(checks.values()))
            if self._is_prune_due():
                rules = self._rules
                uow.gateway.outcomes.delete_before(
                    self._latest_ms - rules.retention_ms, _WINDOW_KINDS
                )
                uow.gateway.outcomes.delete_before(
                    self._latest_ms - rules.session_exclusion_ms, _SESSION_KINDS
                )
        if self._is_prune_due():
            self._pruned_at = self._latest_ms

    def _is_prune_due(self) -> bool:
        return self._latest_ms >= self._pruned_at + _PRUNE_INTERVAL_MS

    def _requeue(
        self,
        outcomes: list[StoredOutcome],
        epochs: list[StoredEpoch],
        checks: dict[tuple[str, str], StoredCheck],
    ) -> None:
        with self._lock:
            self._outcomes.extendleft(reversed(outcomes))
            self._epochs = epochs + self._epochs
            self._checks = checks | self._checks
            gateway_metrics.UNWRITTEN.set(len(self._outcomes))

    def _record_failure(self, error: OracleError) -> None:
        self.failure = str(error)
        self._failures += 1
        if is_power_of_two(self._failures):
            get_logger().error("gateway_write_failed", reason=self.failure, in_all=self._failures)
        if isinstance(error, FatalError):
            self._end_writing(self.failure)


def _resolve_futures(waiters: "Iterable[tuple[int, Future[bool]]]", *, is_stored: bool) -> None:
    for _, future in waiters:
        # A request cancels its future when it stops waiting for its outcomes.
        if future.set_running_or_notify_cancel():
            future.set_result(is_stored)
