"""Writes the records that must survive a restart, on a separate thread, in batches.

See docs/explanation/gateway.md#persistence-and-restarts.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

import structlog

from gateway.draw_seeds import DrawEpoch
from gateway.gateway_records import SESSION_ENDED, ToldOutcome
from gateway.gateway_rules import GatewayRules
from oracle.errors import FatalError, OracleError
from oracle.store.database import Store
from oracle.store.gateway_repositories import StoredCheck, StoredEpoch, StoredOutcome
from oracle.systems.pocket.relay_outcomes import OutcomeKind
from oracle.telemetry import gateway_metrics
from oracle.telemetry.logging_setup import is_power_of_two

_EVERY_SECONDS = 0.5
# Rows in one transaction, so that none takes long.
_MOST_ROWS = 20_000
# The number of rows that may wait for an unavailable database; beyond it the oldest are dropped.
_MOST_WAITING = 1_000_000
_FORGET_EVERY = 60_000
# The kind under which a passed check is stored among the outcomes; clients cannot report it.
CHECK_PASSED = "check_passed"
_LASTING = sorted(kind.value for kind in SESSION_ENDED)
_BRIEF = [*sorted(kind.value for kind in OutcomeKind if kind not in SESSION_ENDED), CHECK_PASSED]

# A row without its number and the time at which it was reported.
_Told = tuple[int, str, str, str, float | None, str, str | None]


class RecordWriter:
    """Queues records from any thread and writes them; `failure` is why writing fails, or None.

    `on_lost` is called, from the writer's thread, if nothing will be written any more: another
    process has taken over the database, or the writer crashed. `end_reason` is the reason then.
    """

    def __init__(
        self, store: Store, rules: GatewayRules, next_number: int, lose: Callable[[], None]
    ) -> None:
        self.failure: str | None = None
        self.end_reason: str | None = None
        self._store = store
        self._rules = rules
        # The number of the next outcome, and the number of the first outcome that is not stored.
        self._number = self._stored = next_number
        # The futures that wait until all outcomes below a number are stored, the lowest number
        # first.
        self._awaited: deque[tuple[int, Future[bool]]] = deque()
        self._lose = lose
        self._first: Callable[[], object] = lambda: None
        self._outcomes: deque[StoredOutcome] = deque()
        self._epochs: list[StoredEpoch] = []
        self._checks: dict[tuple[str, str], StoredCheck] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway writer", daemon=True)
        self._failures = 0
        self._now = 0
        self._forgot = 0

    def start(self, first: Callable[[], object]) -> None:
        """Start to write periodically; `before_write` is called before each write."""
        self._first = first
        self._thread.start()

    def end(self) -> None:
        """Write the remaining records, and stop."""
        self._ended.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self.flush()
        self._answer_waiting(is_over=True)

    def stored(self) -> "Future[bool]":
        """Return a future: whether all outcomes queued so far are stored.

        The result is False if that will remain unknown: the writer does not run, or dropped
        outcomes. While the database is unavailable the future stays open, and its owner decides
        how long to wait.
        """
        future: Future[bool] = Future()
        with self._lock:
            is_stored = self._stored >= self._number
            if is_stored or not self._thread.is_alive():
                future.set_result(is_stored)
                return future
            self._awaited.append((self._number, future))
        self._wake.set()
        return future

    def put(self, outcomes: Sequence[ToldOutcome], now: int) -> None:
        """Queue outcomes that were accepted at `now`."""
        self._put(
            [
                (one.t_ms, one.chain, one.node, session, one.latency_ms, one.kind.value, told_id)
                for one, session, told_id in outcomes
            ],
            now,
        )

    def put_passed(self, chain: str, nodes: Sequence[str], now: int) -> None:
        """Queue passed checks of these nodes."""
        self._put([(now, chain, node, "", None, CHECK_PASSED, None) for node in nodes], now)

    def _put(self, rows: list[_Told], now: int) -> None:
        with self._lock:
            self._now = now
            for number, row in enumerate(rows, self._number):
                self._outcomes.append(StoredOutcome(number, now, *row))
            self._number += len(rows)
            if len(self._outcomes) > _MOST_WAITING:
                while len(self._outcomes) > _MOST_WAITING:
                    self._outcomes.popleft()
                _resolve(self._awaited, is_stored=False)
                self._awaited.clear()
            gateway_metrics.UNWRITTEN.set(len(self._outcomes))

    def put_epoch(self, epoch: DrawEpoch) -> None:
        """Queue an epoch, before it begins."""
        with self._lock:
            self._epochs.append(StoredEpoch(*epoch))

    def put_checks(self, checks: Iterable[StoredCheck]) -> None:
        """Queue the check states of nodes; a newer state replaces an older one."""
        with self._lock:
            self._checks |= {(one.chain, one.node): one for one in checks}

    def flush(self) -> None:
        """Write all queued records.

        If the database is unavailable, the records stay queued and are written later.
        """
        while self._write_batch():
            pass

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                # A request that waits for its outcomes wakes the writer; an unavailable database
                # is given time.
                self._wake.wait(_EVERY_SECONDS)
                if self.failure is not None:
                    self._ended.wait(_EVERY_SECONDS)
                self._wake.clear()
                self._first()
                self.flush()
        except BaseException as error:
            # A bug: no record would be written any more.
            self.failure = "the writer has ended"
            self._give_up(f"{self.failure}: {type(error).__name__}: {error}")
            raise

    def _write_batch(self) -> bool:
        """Write one transaction; return whether more can be written now."""
        with self._lock:
            size = min(len(self._outcomes), _MOST_ROWS)
            outcomes = [self._outcomes.popleft() for _ in range(size)]
            epochs, self._epochs = self._epochs, []
            checks, self._checks = self._checks, {}
        if not (outcomes or epochs or checks or self._is_time_to_forget()):
            return False
        try:
            self._write(outcomes, epochs, checks)
        except OracleError as error:
            self._keep(outcomes, epochs, checks)
            self._failed(error)
            return False
        self.failure = None
        if outcomes:
            with self._lock:
                self._stored = outcomes[-1].number + 1
        self._answer_waiting()
        gateway_metrics.UNWRITTEN.set(len(self._outcomes))
        return size == _MOST_ROWS

    def _answer_waiting(self, *, is_over: bool = False) -> None:
        """Resolve the futures of stored outcomes; with `is_over`, the other futures to False."""
        with self._lock:
            done = [one for one in self._awaited if one[0] <= self._stored]
            rest = [one for one in self._awaited if one[0] > self._stored]
            self._awaited = deque(() if is_over else rest)
        _resolve(done, is_stored=True)
        if is_over:
            _resolve(rest, is_stored=False)

    def _give_up(self, reason: str) -> None:
        self.end_reason = reason
        self._answer_waiting(is_over=True)
        self._lose()

    def _write(
        self,
        outcomes: list[StoredOutcome],
        epochs: list[StoredEpoch],
        checks: dict[tuple[str, str], StoredCheck],
    ) -> None:
        with self._store.transaction() as uow:
            uow.gateway.outcomes.append(outcomes)
            uow.gateway.epochs.add(epochs)
            uow.gateway.checks.save(list(checks.values()))
            if self._is_time_to_forget():
                rules = self._rules
                uow.gateway.outcomes.forget(self._now - rules.kept_ms, _BRIEF)
                uow.gateway.outcomes.forget(self._now - rules.session_out_ms, _LASTING)
        if self._is_time_to_forget():
            self._forgot = self._now

    def _is_time_to_forget(self) -> bool:
        return self._now >= self._forgot + _FORGET_EVERY

    def _keep(
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

    def _failed(self, error: OracleError) -> None:
        self.failure = str(error)
        self._failures += 1
        if is_power_of_two(self._failures):
            structlog.get_logger().error(
                "gateway_write_failed", reason=self.failure, in_all=self._failures
            )
        if isinstance(error, FatalError):
            self._give_up(self.failure)


def _resolve(awaited: "Iterable[tuple[int, Future[bool]]]", *, is_stored: bool) -> None:
    for _, future in awaited:
        # A future whose waiter is gone was cancelled.
        if future.set_running_or_notify_cancel():
            future.set_result(is_stored)
