"""Reports the daemon's health to the database and to systemd from separate threads.

Separate threads are needed because the worker may hang in a tick for a minute, and the stored
health must show the cause before the tick ends. The reason why the daemon ended is stored as well,
for commands that read the database while no daemon runs. systemd is notified when the daemon is
ready, alive or stopping (sd_notify(3)).
"""

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import typer

from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.lease_keeper import build_holder_name
from oracle.domain.health import Condition, HealthFinding, HealthReport
from oracle.errors import OracleError, TransientError
from oracle.queries.text.human_numbers import format_duration
from oracle.store.database import Store
from oracle.store.health_repository import ReportedHealth
from oracle.telemetry import service_metrics
from oracle.telemetry.logger import get_logger

# Health is evaluated at this interval in seconds. While it does not change, only the result of
# every fifth evaluation is stored.
_CHECK_SECONDS = 1.0
_REPEAT_CHECKS = 5
# With less free disk space, writing to the database will soon fail.
LOW_DISK_BYTES = 256 << 20
_MEBIBYTE = 1 << 20
# A downtime shorter than this many seconds counts as a restart and causes no notice.
_RESTART_SECONDS = 60
# Maximum number of characters of a stored failure.
_MAX_FAILURE_TEXT = 2_000
# Number of keep-alives per watchdog period. There are several, so that losing one does no harm.
_PINGS_PER_PERIOD = 3
_MICROSECONDS = 1_000_000


@dataclass(slots=True)
class HealthReporter:
    """Stores the health of this process under the name of the lease holder."""

    store: Store
    daemon_health: DaemonHealth
    holder: str
    _stop: threading.Event = field(default_factory=threading.Event)
    _reported_health: HealthReport | None = None
    _checks_until_repeat: int = 0

    def start_reporting(self) -> None:
        """Evaluate health once, then start a thread that keeps evaluating it."""
        self._record_downtime()
        self.evaluate_health()
        threading.Thread(target=self._run_health_checks, name="health", daemon=True).start()

    def _run_health_checks(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            self.evaluate_health()

    def evaluate_health(self) -> None:
        """Evaluate health for the metrics; store it if it changed or the last report is old."""
        health_report = self.daemon_health.build_report()
        data_directory = self.store.data_directory
        low_disk = None if data_directory is None else find_low_disk_space(data_directory)
        if low_disk is not None:
            health_report = HealthReport.from_findings([*health_report.findings, low_disk])
        service_metrics.publish_health_metrics(health_report)
        self._checks_until_repeat -= 1
        if health_report == self._reported_health and self._checks_until_repeat > 0:
            return
        try:
            with self.store.transaction() as uow:
                uow.health.save_report(self.holder, health_report.findings)
        except OracleError:
            # The error is not raised, because readers notice that the stored report is old, and
            # the jobs that use the database report its errors.
            service_metrics.HEALTH_WRITE_FAILURES.inc()
            return
        self._reported_health, self._checks_until_repeat = health_report, _REPEAT_CHECKS

    def _record_downtime(self) -> None:
        """Record how long no daemon ran before this process, for a notice."""
        with self.store.read_transaction() as uow:
            last_report = uow.health.get()
        if last_report is not None:
            self.daemon_health.downtime = describe_downtime(last_report)

    def record_daemon_end(self, failure: str | None) -> None:
        """Stop reporting, and store the failure that ended the daemon, if any.

        A failed write is tried once more, because checkpointing the write-ahead log may free space
        on a full disk.
        """
        self._stop.set()
        failure_text = None if failure is None else failure[:_MAX_FAILURE_TEXT]
        for _ in range(2):
            try:
                with self.store.transaction() as uow:
                    uow.health.record_shutdown(self.holder, failure_text)
            except OracleError as error:
                get_logger().warning("health_write_failed", reason=str(error))
                # A failing checkpoint must not hide the error that ended the daemon.
                with suppress(TransientError):
                    self.store.checkpoint_wal()
            else:
                return


def find_low_disk_space(folder: Path) -> HealthFinding | None:
    """Return a finding if the folder's disk is nearly full, else None."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes >= LOW_DISK_BYTES:
        return None
    return HealthFinding(
        Condition.LOW_DISK, f"{folder}: only {free_bytes // _MEBIBYTE} MiB are free"
    )


def describe_downtime(last_report: ReportedHealth) -> str | None:
    """Return the length and the cause of the downtime.

    The result is None after an orderly restart.
    """
    if last_report.failure is None and last_report.age_seconds < _RESTART_SECONDS:
        return None
    end_reason = last_report.failure or (
        "it was stopped" if last_report.ended_at else "it was killed"
    )
    return f"{format_duration(int(last_report.age_seconds))}: {end_reason}"


@contextmanager
def report_daemon_health(
    store: Store,
    health: DaemonHealth,
    command: str,
    lease_failure: Callable[[], OracleError | None],
) -> Iterator[None]:
    """Report the health of `command` during the `with` block, and store why it ended.

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
        failure_text = str(failure) if isinstance(failure, OracleError) else repr(failure)
        reporter.record_daemon_end(None if is_orderly_end else failure_text)


@contextmanager
def report_to_systemd(
    stuck_reason: Callable[[], str | None], environment: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Notify systemd of readiness and stop, and send keep-alives in between.

    Without systemd, nothing is sent. A thread checks the worker and sends the keep-alives. If the
    worker is stuck, or the process gets no processor time, no keep-alive is sent, and systemd
    kills the process after `WatchdogSec`.
    """
    stop_event = threading.Event()
    watchdog_seconds = _read_watchdog_seconds(environment)
    _send_systemd_state("READY=1", environment)

    def send_keep_alives(interval_seconds: float) -> None:
        while True:
            if stuck_reason() is None:
                _send_systemd_state("WATCHDOG=1", environment)
            if stop_event.wait(interval_seconds):
                return

    if watchdog_seconds is not None:
        keep_alive_arguments = (watchdog_seconds / _PINGS_PER_PERIOD,)
        threading.Thread(
            target=send_keep_alives, args=keep_alive_arguments, name="watchdog", daemon=True
        ).start()
    try:
        yield
    finally:
        stop_event.set()
        _send_systemd_state("STOPPING=1", environment)


def _read_watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return this process's systemd watchdog period in seconds, or None if there is none."""
    period_text = environment.get("WATCHDOG_USEC", "")
    watchdog_pid = environment.get("WATCHDOG_PID", "")
    if not period_text.isdecimal() or watchdog_pid not in {"", str(os.getpid())}:
        return None
    return int(period_text) / _MICROSECONDS


def _send_systemd_state(state: str, environment: Mapping[str, str]) -> None:
    """Send a state to systemd; the daemon continues if systemd is unreachable."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # In the environment variable, `@` stands for the zero byte that begins an abstract socket
    # address.
    socket_address = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager_socket:
        try:
            manager_socket.sendto(state.encode(), socket_address)
        except OSError as error:
            get_logger().warning("service_manager_unreachable", reason=str(error))
