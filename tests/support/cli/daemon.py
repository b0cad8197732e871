"""Runs the daemon in a separate process, as an operator does, and queries it over HTTP."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from oracle.telemetry.log_events import LOG_EVENTS

# A busy machine is slow; a successful test never waits for so long.
PATIENCE_SECONDS = 120
# The daemon ends within this time whatever its endpoint does, on a machine several times slower
# than most: the scheduler abandons a call after 3 s, and waiting for the endpoint would take 20 s
# more.
STOP_SECONDS = 15
_PROGRAM = ("-m", "oracle")


@dataclass
class Daemon:
    """A running `qos-oracle run`; `url` is the address of its pages, `log` its log file."""

    process: "subprocess.Popen[bytes]"
    log: Path
    url: str = ""

    def lines(self) -> list[dict[str, Any]]:
        """Return the complete lines of the log, each of which is a JSON object."""
        written = self.log.read_text("utf-8", errors="replace").split("\n")[:-1]
        return [json.loads(line) for line in written if line.startswith("{")]

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.url}{path}", timeout=PATIENCE_SECONDS)

    def wait_for(self, event: str, **facts: Any) -> dict[str, Any]:
        """Wait for a log event with these fields, and return its line.

        The assertion fails if the daemon ends or does not log the event in time.
        """
        assert event in LOG_EVENTS
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            for line in self.lines():
                if line["event"] == event and facts.items() <= line.items():
                    return line
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.02)
        raise AssertionError(f"never logged {event} {facts}: {self.log.read_text('utf-8')}")

    def wait_until_ready(self) -> None:
        self._until(lambda: self.get("/readyz").status_code == 200)

    def wait_until_not_ready(self) -> dict[str, Any]:
        """Wait until `/readyz` returns 503, and return the body."""
        self._until(lambda: self.get("/readyz").status_code == 503)
        return dict[str, Any](self.get("/readyz").json())

    def wait_for_block(self, number: int) -> None:
        self._until(lambda: self.get("/readyz").json()["folded"] == number)

    def wait_for_text(self, path: str, text: str) -> None:
        """Wait until the page at `path` contains a text."""
        self._until(lambda: text in self.get(path).text)

    def _until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert self.process.poll() is None, self.log.read_text("utf-8")
            assert time.monotonic() < until, self.get("/readyz").text
            time.sleep(0.02)

    def stop(self) -> tuple[int, float]:
        """Stop the daemon; return its exit code and the seconds until it ended.

        If the daemon hangs, the assertion fails and shows where.
        """
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_SECONDS), time.monotonic() - started
        except subprocess.TimeoutExpired:
            # The daemon's faulthandler prints the stack of every thread.
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(PATIENCE_SECONDS)
            raise AssertionError(f"did not end: {self.log.read_text('utf-8')}") from None


@contextmanager
def run_daemon(config: Path, *options: str, program: Sequence[str] = _PROGRAM) -> Iterator[Daemon]:
    """Start the daemon and wait until it is ready to serve.

    Kill it at the end if it still runs.
    """
    with start_daemon(config, *options, program=program) as running:
        running.url = running.wait_for("daemon_started")["web"]
        yield running


@contextmanager
def start_daemon(
    config: Path, *options: str, program: Sequence[str] = _PROGRAM
) -> Iterator[Daemon]:
    """Start the daemon without waiting for it; `program` is what Python runs."""
    log = config.with_name("daemon.log")
    command = [sys.executable, "-X", "faulthandler", *program, "run", *options]
    command += ["--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield Daemon(process, log)
        finally:
            process.kill()


@contextmanager
def serve_config(config: Path, log: Path) -> Iterator[str]:
    """Run `qos-oracle serve` as a separate process, and yield its address."""
    command = [sys.executable, "-m", "oracle", "serve", "--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield str(Daemon(process, log).wait_for("read_api_started")["api"])
        finally:
            process.kill()
