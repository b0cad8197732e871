"""The daemon indexes and serves with many slow clients, and with few file descriptors."""

import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from benchmarks.ordinary_traffic import serve_chain
from tests.integration.daemon.test_slow_clients import CLOSING_REQUEST, open_socket
from tests.integration.daemon.test_web_under_load import settings
from tests.support.cli.daemon import PATIENCE_SECONDS, Daemon, run_daemon
from tests.support.cli.local_network import write_config

pytestmark = pytest.mark.slow

# The program that `daemon` runs, with a limit.
FEW = (
    "-c",
    """
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
runpy.run_module("oracle", run_name="__main__")
""",
)
MOST_LOG_BYTES = 2**20
LONG_SECONDS = 600
# The maximum share of one processor that five thousand slow clients may use.
MOST_SHARE = 0.3


@contextmanager
def slow_clients(url: str, many: int, seconds: float) -> Iterator["subprocess.Popen[bytes]"]:
    port = url.rpartition(":")[2]
    command = [sys.executable, "-m", "tests.support.slow_clients", port, str(many), str(seconds)]
    with subprocess.Popen(command) as crowd:
        try:
            yield crowd
        finally:
            crowd.kill()


class Watcher:
    """Requests `/livez` ten times a second, each time over a new connection."""

    def __init__(self, url: str) -> None:
        self.seconds: list[float] = []
        self.statuses: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(f"{url}/livez",))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self, url: str) -> None:
        while not self._stop.wait(0.1):
            started_at = time.monotonic()
            self.statuses.add(requests.get(url, timeout=PATIENCE_SECONDS).status_code)
            self.seconds.append(time.monotonic() - started_at)


class Spent(NamedTuple):
    """The time and the processor time for indexing a history."""

    seconds: float
    cpu_seconds: float


def measure_indexing(running: Daemon) -> Spent:
    started_at = time.monotonic()
    until = time.monotonic() + LONG_SECONDS
    before = read_cpu_seconds(running)
    while running.get("/readyz").status_code != 200:
        assert running.process.poll() is None, running.log.read_text("utf-8")
        assert time.monotonic() < until, running.get("/readyz").text
        time.sleep(0.1)
    return Spent(time.monotonic() - started_at, read_cpu_seconds(running) - before)


def read_cpu_seconds(running: Daemon) -> float:
    """Return the processor time of the process so far, as reported by Linux."""
    stat_fields = (
        Path(f"/proc/{running.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    )
    return (int(stat_fields[11]) + int(stat_fields[12])) / os.sysconf("SC_CLK_TCK")


def test_indexing_completes_despite_slow_clients(tmp_path: Path):
    with (
        serve_chain(5_000) as url,
        run_daemon(write_config(settings(url, tmp_path), tmp_path / "config.toml")) as running,
        slow_clients(running.url, 300, PATIENCE_SECONDS),
    ):
        watcher = Watcher(running.url)
        try:
            running.wait_until_ready()
        finally:
            watcher.stop()
        assert watcher.statuses <= {200}
        assert running.stop()[0] == 0
        assert running.log.stat().st_size < MOST_LOG_BYTES


def test_indexing_completes_with_few_file_descriptors(
    tmp_path: Path,
):
    with (
        serve_chain(5_000) as url,
        run_daemon(
            write_config(settings(url, tmp_path), tmp_path / "config.toml"), program=FEW
        ) as running,
        ExitStack() as held,
    ):
        for _ in range(300):
            held.enter_context(open_socket(running.url, b"GET /livez HTTP/1.1\r\n"))
        running.wait_until_ready()
        assert running.get("/livez").status_code == 200
        assert running.stop()[0] == 0
        assert not [line for line in running.lines() if line["event"] == "step_failed"]
        assert running.log.stat().st_size < MOST_LOG_BYTES


def test_listener_without_free_file_descriptors_waits_and_recovers(tmp_path: Path):
    with (
        serve_chain(100) as url,
        run_daemon(write_config(settings(url, tmp_path), tmp_path / "config.toml")) as running,
        ExitStack() as opened,
    ):
        running.wait_until_ready()
        pid = running.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # Fewer than it has open, so that every attempt to open a file fails.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (4, before[1]))
        held = [opened.enter_context(open_socket(running.url, CLOSING_REQUEST)) for _ in range(3)]
        running.wait_for("connection_refused", reason="descriptors")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert [connection.recv(12) for connection in held] == 3 * [b"HTTP/1.1 200"]
        assert running.get("/livez").status_code == 200
        assert running.stop()[0] == 0


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_slow_clients_block_neither_livez_nor_indexing(tmp_path: Path):
    with serve_chain(30_000) as url:
        alone, usual, _ = index_among_slow_clients(url, tmp_path / "alone", 0)
        among, answers, log_bytes = index_among_slow_clients(url, tmp_path / "among", 5_000)
    print(  # noqa: T201  the figures of docs/decisions
        f"indexing alone {alone}, among {among}; log {log_bytes} bytes; /livez in ms, "
        f"median, 99 %, worst: alone {in_ms(usual)}, {len(answers)} times among {in_ms(answers)}"
    )
    # Compared with the time without a crowd, because other programs use this machine.
    assert statistics.median(answers) < max(0.1, 5 * statistics.median(usual))
    # The crowd works on the same processors, so the clock says little of us: what it costs us is
    # The crowd uses the same processors, so the wall clock is no measure of the daemon; its
    # own processor time is.
    assert among.cpu_seconds - alone.cpu_seconds < MOST_SHARE * among.seconds
    assert log_bytes < MOST_LOG_BYTES


def index_among_slow_clients(url: str, folder: Path, many: int) -> tuple[Spent, list[float], int]:
    """Index with this many slow clients for two minutes; return the response times of `/livez`,
    and the log.
    """
    folder.mkdir()
    with run_daemon(write_config(settings(url, folder), folder / "config.toml")) as running:
        with slow_clients(running.url, many, 120.0) as crowd:
            watcher = Watcher(running.url)
            try:
                spent = measure_indexing(running)
                if many:
                    crowd.wait(LONG_SECONDS)
            finally:
                watcher.stop()
        assert watcher.statuses == {200}
        return spent, sorted(watcher.seconds), running.log.stat().st_size


def in_ms(ordered: list[float]) -> list[int]:
    return [round(1000 * ordered[int(share * (len(ordered) - 1))]) for share in (0.5, 0.99, 1)]
