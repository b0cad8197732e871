"""Stores the daemon's health with its reasons every few seconds, on a separate thread.

The worker may hang in a tick for a minute, and the stored health has to show the cause by then.
The reason for the daemon's end is stored as well, for readers of the database while no daemon
runs.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import typer

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease.lease_holder import holder_name
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.errors import OracleError
from oracle.queries.text.human_numbers import span
from oracle.store.database import Store
from oracle.store.ops.health_repository import ReportedHealth
from oracle.telemetry import health_metrics

# How often health is evaluated; and after how many unchanged evaluations it is stored again.
_LOOK_SECONDS = 1.0
_REPEAT_LOOKS = 5
# With less free space the database soon cannot be written.
LOW_DISK_BYTES = 256 << 20
_MEBIBYTE = 1 << 20
# A shorter downtime counts as a restart and causes no notice.
_RESTART_SECONDS = 60
# The maximum length of a stored failure, in characters.
_MOST_TEXT = 2_000


@dataclass(slots=True)
class HealthReporter:
    """Stores the health of one process under the process's name in the lease."""

    store: Store
    watch: DaemonHealth
    process: str
    _stop: threading.Event = field(default_factory=threading.Event)
    _reported: HealthReport | None = None
    _repeat_in: int = 0

    def start(self) -> None:
        """Evaluate health once, then repeatedly on a thread."""
        self._note_downtime()
        self.evaluate()
        threading.Thread(target=self._repeat, name="health", daemon=True).start()

    def _repeat(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            self.evaluate()

    def evaluate(self) -> None:
        """Evaluate health for the metrics; store it if it changed or the stored report is old."""
        health = self.watch.health()
        disk = self.store.disk
        low_disk = None if disk is None else low_disk_finding(disk)
        if low_disk is not None:
            health = HealthReport.of([*health.findings, low_disk])
        health_metrics.show(health)
        self._repeat_in -= 1
        if health == self._reported and self._repeat_in > 0:
            return
        try:
            with self.store.transaction() as uow:
                uow.health.report(self.process, health.findings)
        except OracleError:
            # Readers see that the report is old; failing steps report the database error.
            health_metrics.UNREPORTED.inc()
            return
        self._reported, self._repeat_in = health, _REPEAT_LOOKS

    def _note_downtime(self) -> None:
        """Note the downtime before this process, for a notice."""
        with self.store.reading() as uow:
            before = uow.health.get()
        if before is not None:
            self.watch.downtime = downtime_of(before)

    def end(self, failure: str | None) -> None:
        """Stop reporting; store the failure that ended the daemon, or None for an orderly end.

        A full disk may have space again after the write-ahead log was checkpointed.
        """
        self._stop.set()
        text = None if failure is None else failure[:_MOST_TEXT]
        for _ in range(2):
            try:
                with self.store.transaction() as uow:
                    uow.health.end(self.process, text)
            except OracleError as error:
                structlog.get_logger().warning("health_write_failed", reason=str(error))
                self.store.shrink_log()
            else:
                return


def low_disk_finding(disk: Path) -> HealthFinding | None:
    """Return a finding if the disk of this folder is nearly full, else None."""
    free = shutil.disk_usage(disk).free
    if free >= LOW_DISK_BYTES:
        return None
    return HealthFinding(Condition.LOW_DISK, f"{disk}: {free // _MEBIBYTE} MiB are free")


def downtime_of(before: ReportedHealth) -> str | None:
    """Return the length and the cause of the downtime, or None after an orderly restart."""
    if before.failure is None and before.age_seconds < _RESTART_SECONDS:
        return None
    reason = before.failure or ("it was told to end" if before.ended_at else "it was killed")
    return f"{span(int(before.age_seconds))}: {reason}"


@contextmanager
def reporting_health(
    store: Store,
    health: DaemonHealth,
    command: str,
    lease_failure: Callable[[], OracleError | None],
) -> Iterator[None]:
    """Report health during the daemon's work under the name of `command`; store why it ended.

    `lease_failure` returns why the lease was lost, or None if it is held.
    """
    reporter = HealthReporter(store, health, holder_name(command))
    reporter.start()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        failure = failure or lease_failure()
        is_told_to_end = failure is None or isinstance(failure, typer.Exit)
        text = str(failure) if isinstance(failure, OracleError) else repr(failure)
        reporter.end(None if is_told_to_end else text)
