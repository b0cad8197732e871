"""The daemon as an operator runs it: a process of its own, asked over HTTP."""

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

# A busy machine takes its time; nothing here is waited for so long where all is well.
PATIENCE_SECONDS = 120
# Within this it ends whatever its endpoint does, on a machine several times slower than most: the
# scheduler leaves a call alone after 3 s, and whoever waited for the endpoint would take 20 more.
STOP_SECONDS = 15
_PROGRAM = ("-m", "oracle")


@dataclass
class Daemon:
    """A running `qos-oracle run`; `url` is where it answers, `log` what it said so far."""

    process: "subprocess.Popen[bytes]"
    log: Path
    url: str = ""

    def lines(self) -> list[dict[str, Any]]:
        """Its log, one JSON document a line; what it is writing just now is none yet."""
        written = self.log.read_text("utf-8", errors="replace").split("\n")[:-1]
        return [json.loads(line) for line in written if line.startswith("{")]

    def get(self, path: str) -> requests.Response:
        return requests.get(f"{self.url}{path}", timeout=PATIENCE_SECONDS)

    def wait_for(self, event: str, **facts: Any) -> dict[str, Any]:
        """Wait until it has said this; fail with its log where it ends or keeps silent."""
        assert event in LOG_EVENTS
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            for line in self.lines():
                if line["event"] == event and facts.items() <= line.items():
                    return line
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.02)
        raise AssertionError(f"never said {event} {facts}: {self.log.read_text('utf-8')}")

    def wait_until_ready(self) -> None:
        self._until(lambda: self.get("/readyz").status_code == 200)

    def wait_until_not_ready(self) -> dict[str, Any]:
        """What it answers instead."""
        self._until(lambda: self.get("/readyz").status_code == 503)
        return dict[str, Any](self.get("/readyz").json())

    def wait_for_block(self, number: int) -> None:
        self._until(lambda: self.get("/readyz").json()["folded"] == number)

    def wait_for_text(self, path: str, text: str) -> None:
        """Wait until it answers with this somewhere."""
        self._until(lambda: text in self.get(path).text)

    def _until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert self.process.poll() is None, self.log.read_text("utf-8")
            assert time.monotonic() < until, self.get("/readyz").text
            time.sleep(0.02)

    def stop(self) -> tuple[int, float]:
        """Its exit code, and how many seconds it took to end; fail with where it hangs."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE_SECONDS), time.monotonic() - started
        except subprocess.TimeoutExpired:
            # It has its faulthandler write down what every thread does.
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(PATIENCE_SECONDS)
            raise AssertionError(f"did not end: {self.log.read_text('utf-8')}") from None


@contextmanager
def daemon(config: Path, *options: str, program: Sequence[str] = _PROGRAM) -> Iterator[Daemon]:
    """Start it and wait until it has started; it is killed at the end if it still runs."""
    with starting(config, *options, program=program) as running:
        running.url = running.wait_for("daemon_started")["web"]
        yield running


@contextmanager
def starting(config: Path, *options: str, program: Sequence[str] = _PROGRAM) -> Iterator[Daemon]:
    """Start it, and do not wait; `program`: what Python runs."""
    log = config.with_name("daemon.log")
    command = [sys.executable, "-X", "faulthandler", *program, "run", *options]
    command += ["--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield Daemon(process, log)
        finally:
            process.kill()
