"""Notifies systemd: ready, alive, stopping (sd_notify(3)). Without systemd nothing is sent."""

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
def supervised(
    stuck_reason: Callable[[], str | None], environment: Mapping[str, str] = os.environ
) -> Iterator[None]:
    """Notify systemd during the daemon's work, and keep its watchdog alive while work goes on.

    A thread checks the worker and sends the keep-alive. A process whose worker is stuck, or which
    gets no processor time at all, sends none and is killed after `WatchdogSec`.
    """
    ended = threading.Event()
    seconds = _watchdog_seconds(environment)
    _send("READY=1", environment)

    def keep_alive(pause: float) -> None:
        while True:
            if stuck_reason() is None:
                _send("WATCHDOG=1", environment)
            if ended.wait(pause):
                return

    if seconds is not None:
        arguments = (seconds / _PINGS_PER_PERIOD,)
        threading.Thread(target=keep_alive, args=arguments, name="watchdog", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        _send("STOPPING=1", environment)


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Return the watchdog period, or None if there is none or it is of another process."""
    period, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not period.isdecimal() or process not in {"", str(os.getpid())}:
        return None
    return int(period) / _MICROSECONDS


def _send(state: str, environment: Mapping[str, str]) -> None:
    """Send a state to the service manager; an unreachable manager is no failure of the daemon."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # An abstract socket address is written with `@` for its zero byte.
    place = f"\0{address[1:]}" if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            manager.sendto(state.encode(), place)
        except OSError as error:
            structlog.get_logger().warning("service_manager_unreachable", reason=str(error))
