"""The messages of a daemon to systemd, at a socket of the test."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.daemon.health_reporter import report_to_systemd

PATIENCE = 60


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(PATIENCE)
        yield listening


def environment(manager: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": str(manager.getsockname()), **more}


def test_daemon_reports_ready_and_stopping(manager: socket.socket):
    with report_to_systemd(lambda: None, environment(manager)):
        assert manager.recv(100) == b"READY=1"
    assert manager.recv(100) == b"STOPPING=1"


def test_systemd_watchdog_is_notified_until_the_worker_hangs(manager: socket.socket):
    stuck: list[str] = []
    variables = environment(manager, WATCHDOG_USEC="60000", WATCHDOG_PID=str(os.getpid()))
    with report_to_systemd(lambda: stuck[0] if stuck else None, variables):
        assert manager.recv(100) == b"READY=1"
        assert [manager.recv(100) for _ in range(3)] == 3 * [b"WATCHDOG=1"]
        stuck.append("the daemon's worker has made no progress")
        manager.settimeout(0.5)
        with pytest.raises(TimeoutError):
            # One keep-alive may have been in transit.
            [manager.recv(100) for _ in range(2)]


@pytest.mark.parametrize(
    "watchdog_settings", [{}, {"WATCHDOG_USEC": "60000", "WATCHDOG_PID": "1"}]
)
def test_systemd_watchdog_of_other_process_is_not_notified(
    manager: socket.socket, watchdog_settings: dict[str, str]
):
    with report_to_systemd(lambda: None, environment(manager, **watchdog_settings)):
        assert manager.recv(100) == b"READY=1"
        manager.settimeout(0.2)
        with pytest.raises(TimeoutError):
            manager.recv(100)


def test_service_manager_on_abstract_socket_is_notified():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0qos-oracle-tests-{os.getpid()}")
        listening.settimeout(PATIENCE)
        with report_to_systemd(
            lambda: None, {"NOTIFY_SOCKET": f"@qos-oracle-tests-{os.getpid()}"}
        ):
            assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all"])
def test_daemon_without_service_manager_starts(address: str):
    with report_to_systemd(lambda: None, {"NOTIFY_SOCKET": address}):
        pass
