"""Notifies systemd that the daemon is ready, alive or stopping (sd_notify(3)).

Without systemd, nothing is sent.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import structlog

# Keep-alives within one watchdog period, so that a lost one has no effect.
_PINGS_PER_PERIOD = 3
_MICROSECONDS = 1_000_000


@contextmanager
def report_to_systemd(
    stuck_reason: Callable[[], str | None], environment: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Notify systemd during the daemon's work, and keep its watchdog alive while work goes on.

    A thread checks the worker and sends the keep-alive. A process whose worker is stuck, or which
    gets no processor time at all, sends none and is killed after `WatchdogSec`.
    """
    stopped = threading.Event()
    watchdog_seconds = _read_watchdog_seconds(environment)
    _send_state("READY=1", environment)

    def send_keep_alives(interval_seconds: float) -> None:
        while True:
            if stuck_reason() is None:
                _send_state("WATCHDOG=1", environment)
            if stopped.wait(interval_seconds):
                return

    if watchdog_seconds is not None:
        arguments = (watchdog_seconds / _PINGS_PER_PERIOD,)
        threading.Thread(
            target=send_keep_alives, args=arguments, name="watchdog", daemon=True
        ).start()
    try:
        yield
    finally:
        stopped.set()
        _send_state("STOPPING=1", environment)


def _read_watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return the watchdog period, or None if there is none or it is meant for another process."""
    period_text, watchdog_pid = (
        environment.get("WATCHDOG_USEC", ""),
        environment.get("WATCHDOG_PID", ""),
    )
    if not period_text.isdecimal() or watchdog_pid not in {"", str(os.getpid())}:
        return None
    return int(period_text) / _MICROSECONDS


def _send_state(state: str, environment: Mapping[str, str]) -> None:
    """Send a state to the service manager; the daemon continues if the manager is unreachable."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # An abstract socket address is written with `@` for its zero byte.
    socket_address = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager_socket:
        try:
            manager_socket.sendto(state.encode(), socket_address)
        except OSError as error:
            structlog.get_logger().warning("service_manager_unreachable", reason=str(error))
