"""Stores the daemon's health with its reasons every few seconds, on a separate thread.

The worker may hang in a tick for a minute, and the stored health must show the cause before the
tick ends. The reason why the daemon ended is stored as well, for readers of the database while no
daemon runs.
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
from oracle.daemon.lease_holder import build_holder_name
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.errors import OracleError
from oracle.queries.text.human_numbers import format_duration
from oracle.store.database import Store
from oracle.store.ops.health_repository import ReportedHealth
from oracle.telemetry import health_metrics

# How often health is evaluated; and after how many unchanged evaluations it is stored again.
_CHECK_SECONDS = 1.0
_REPEAT_CHECKS = 5
# With less free space the database soon cannot be written.
LOW_DISK_BYTES = 256 << 20
_MEBIBYTE = 1 << 20
# A shorter downtime counts as a restart and causes no notice.
_RESTART_SECONDS = 60
# The maximum length of a stored failure, in characters.
_MAX_FAILURE_TEXT = 2_000


@dataclass(slots=True)
class HealthReporter:
    """Stores the health of one process under the process's name in the lease."""

    store: Store
    daemon_health: DaemonHealth
    holder: str
    _stop: threading.Event = field(default_factory=threading.Event)
    _reported: HealthReport | None = None
    _checks_until_repeat: int = 0

    def start_reporting(self) -> None:
        """Evaluate health once, then repeatedly on a thread."""
        self._note_downtime()
        self.evaluate_health()
        threading.Thread(target=self._run_checks, name="health", daemon=True).start()

    def _run_checks(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            self.evaluate_health()

    def evaluate_health(self) -> None:
        """Evaluate health for the metrics; store it if it changed or the stored report is old."""
        health = self.daemon_health.build_report()
        disk = self.store.data_directory
        low_disk = None if disk is None else find_low_disk(disk)
        if low_disk is not None:
            health = HealthReport.from_findings([*health.findings, low_disk])
        health_metrics.publish_health(health)
        self._checks_until_repeat -= 1
        if health == self._reported and self._checks_until_repeat > 0:
            return
        try:
            with self.store.transaction() as uow:
                uow.health.save_report(self.holder, health.findings)
        except OracleError:
            # Readers see that the report is old; failing steps report the database error.
            health_metrics.UNREPORTED.inc()
            return
        self._reported, self._checks_until_repeat = health, _REPEAT_CHECKS

    def _note_downtime(self) -> None:
        """Record how long no daemon ran before this process, so that a notice can report it."""
        with self.store.read_transaction() as uow:
            last_report = uow.health.get()
        if last_report is not None:
            self.daemon_health.downtime = describe_downtime(last_report)

    def record_end(self, failure: str | None) -> None:
        """Stop reporting; store the failure that ended the daemon, or None for an orderly end.

        A failed write is tried once more, because checkpointing the write-ahead log may free space
        on a full disk.
        """
        self._stop.set()
        text = None if failure is None else failure[:_MAX_FAILURE_TEXT]
        for _ in range(2):
            try:
                with self.store.transaction() as uow:
                    uow.health.record_end(self.holder, text)
            except OracleError as error:
                structlog.get_logger().warning("health_write_failed", reason=str(error))
                self.store.checkpoint_wal()
            else:
                return


def find_low_disk(folder: Path) -> HealthFinding | None:
    """Return a finding if the disk of this folder is nearly full, else None."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes >= LOW_DISK_BYTES:
        return None
    return HealthFinding(Condition.LOW_DISK, f"{folder}: {free_bytes // _MEBIBYTE} MiB free")


def describe_downtime(last_report: ReportedHealth) -> str | None:
    """Return the length and the cause of the downtime, or None after an orderly restart."""
    if last_report.failure is None and last_report.age_seconds < _RESTART_SECONDS:
        return None
    reason = last_report.failure or ("it was stopped" if last_report.ended_at else "it was killed")
    return f"{format_duration(int(last_report.age_seconds))}: {reason}"


@contextmanager
def report_daemon_health(
    store: Store,
    health: DaemonHealth,
    command: str,
    lease_failure: Callable[[], OracleError | None],
) -> Iterator[None]:
    """Report health under the name of `command` while the daemon works, and store why it ended.

    `lease_failure` returns why the lease was lost, or None if it is held.
    """
    reporter = HealthReporter(store, health, build_holder_name(command))
    reporter.start_reporting()
    failure: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failure = error
        raise
    finally:
        failure = failure or lease_failure()
        is_orderly_end = failure is None or isinstance(failure, typer.Exit)
        text = str(failure) if isinstance(failure, OracleError) else repr(failure)
        reporter.record_end(None if is_orderly_end else text)
