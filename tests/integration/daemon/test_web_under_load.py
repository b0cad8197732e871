"""The read API under load during backfill: no lock error, no starvation, bounded files."""

import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import requests

from benchmarks.ordinary_traffic import serve_chain
from tests.support.chain.network_logs import NETWORK
from tests.support.cli.daemon import run_daemon
from tests.support.cli.local_network import write_config

PATHS = ("/livez", "/readyz", "/metrics", "/v1/operations")
# A commit is about a second of work; SQLite's WAL contains a few of them.
MOST_WAL_BYTES = 128 * 2**20
# The publishing side waits for one or two windows of about a second each; on a machine that is
# several times slower they take longer, but their number is the same.
LONGEST_WAIT_SECONDS, MOST_WINDOWS = 5.0, 4


class Hammer:
    """Requests every path repeatedly, and records the responses."""

    def __init__(self, url: str) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.faults: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(url + path, path)) for path in PATHS
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, url: str, path: str) -> None:
        with requests.Session() as session:
            while not self._stop.is_set():
                answer = session.get(url, timeout=120)
                self.answers[(path, answer.status_code)] += 1
                if "locked" in answer.text or "database:" in answer.text:
                    self.faults.append(answer.text)


class Turns:
    """The waits of a step between two of its runs, from the metrics.

    `most_windows`: the runs of `index` in a wait that was too long.
    """

    def __init__(self, step: str) -> None:
        self.most_windows = 0.0
        self._step = step
        self._last: float | None = None
        self._since = time.monotonic()
        self._windows = 0.0

    def check_progress(self, metrics: str) -> None:
        now = time.monotonic()
        turned = turns_of(self._step, metrics)
        windows = turns_of("index", metrics)
        if turned != self._last:
            self._last, self._since, self._windows = turned, now, windows
        elif now - self._since > LONGEST_WAIT_SECONDS:
            self.most_windows = max(self.most_windows, windows - self._windows)


def turns_of(step: str, metrics: str) -> float:
    match = re.search(f'oracle_step_seconds_count{{step="{step}"}} (.+)', metrics)
    return 0.0 if match is None else float(match[1])


def settings(url: str, folder: Path):
    return {
        "database": {"url": f"sqlite:///{folder / 'oracle.sqlite'}"},
        "chain": {"id": 31337, "endpoints": [url], "finality_depth": 8, "poll_seconds": 0.05},
        "network": {"contracts": {"TaskNetwork": NETWORK}},
        # The chain is made in memory: its headers do not match their hashes.
        "verify": {"history": "seamed"},
        "web": {"port": 0, "requests_per_second": 100_000},
        "log": {"format": "json"},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "events", [20_000, pytest.param(400_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
@pytest.mark.nightly
def test_backfill_completes_under_http_load(events, tmp_path):
    with (
        serve_chain(events) as url,
        run_daemon(write_config(settings(url, tmp_path), tmp_path / "config.toml")) as running,
    ):
        hammer = Hammer(running.url)
        turns = Turns("confirm")
        largest_wal = 0
        wal = tmp_path / "oracle.sqlite-wal"
        try:
            while running.get("/readyz").status_code != 200:
                assert running.process.poll() is None, running.log.read_text("utf-8")
                largest_wal = max(largest_wal, wal.stat().st_size if wal.exists() else 0)
                turns.check_progress(running.get("/metrics").text)
        finally:
            hammer.stop()
        failures = [line for line in running.lines() if line["event"] == "step_failed"]

    assert hammer.faults == []
    assert failures == []
    assert {path for path, _ in hammer.answers} == set(PATHS)
    assert hammer.answers[("/livez", 200)] == sum(
        count for (path, _), count in hammer.answers.items() if path == "/livez"
    )
    assert largest_wal < MOST_WAL_BYTES
    assert turns.most_windows <= MOST_WINDOWS
