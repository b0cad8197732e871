"""Follows a chain of many events through endpoints that fail at random, and measures its memory.

.venv/bin/python -m tests.soak.run [--events 1000000] [--seed 1] [--most-mb 64]

Prints a line at each twentieth of the way, and at the end one line of JSON. Exit code 1: logs are
missing, the state is not what a fold of the logs gives, or memory grew after the first third.
"""

import argparse
import ctypes
import gc
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.errors import TransientError
from oracle.indexer.commit import CommittedWindow
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.indexer.reorgs.reorg import RewindResult
from oracle.store import engine
from oracle.store.schema import migrate
from oracle.telemetry import logging_setup
from tests.support.ingest.indexer import Indexer

ROOT = Path(__file__).resolve().parents[2]
# It is full early, so later growth is not SQLite's.
_CACHE_KIB = 8_192
_WARM = 1 / 3
# Seconds by which the endpoints' clock advances if nothing could be read.
_REST = 5.0


@dataclass
class SoakFigures:
    """The result of a run. Resident memory in MB: after the first third, at the end, maximum."""

    events: int = 0
    windows: int = 0
    rewinds: int = 0
    failures: int = 0
    seconds: float = 0.0
    warm_mb: float = 0.0
    end_mb: float = 0.0
    most_mb: float = 0.0
    # Counted by the chain's process: its forks, and the responses that it falsified.
    forks: int = 0
    spoiled: int = 0
    logs_equal_chain: bool = False
    state_equals_rebuild: bool = False


@dataclass
class Soak:
    """One indexer and the chain that it follows."""

    chain: "subprocess.Popen[str]"
    indexer: Indexer
    clock: VirtualClock
    events: int
    figures: SoakFigures = field(default_factory=SoakFigures)
    _shown: int = 0

    def follow(self) -> None:
        """Index the chain until it ends, and compute the figures."""
        began = time.monotonic()
        self._catch_up()
        while advance_chain(self.chain)["more"]:
            self._catch_up()
        last = advance_chain(self.chain)
        self._catch_up()
        self.figures.end_mb = settled_mb()
        self.figures.seconds = time.monotonic() - began
        self.figures.forks = last["forks"]
        self.figures.spoiled = last["spoiled"]
        self.figures.logs_equal_chain = self._digest() == last["digest"]
        rebuilt = rebuild_state(self.indexer.store, self.indexer.folder, RebuildOptions())
        self.figures.state_equals_rebuild = rebuilt.is_same and rebuilt.differing == ()

    def _catch_up(self) -> None:
        # A step without a result may have queried an endpoint that is behind.
        idle = 0
        while idle < 3:
            try:
                step_result = self.indexer.step()
            except TransientError:
                self.figures.failures += 1
                self.clock.advance(_REST)
                continue
            idle = idle + 1 if step_result is None else 0
            self.clock.advance(_REST if step_result is None else 0.1)
            self._note(step_result)

    def _note(self, step_result: object) -> None:
        if isinstance(step_result, RewindResult):
            self.figures.rewinds += 1
        if not isinstance(step_result, CommittedWindow):
            return
        figures = self.figures
        figures.windows += 1
        figures.events += step_result.log_count
        now = resident_mb()
        figures.most_mb = max(figures.most_mb, now)
        if figures.warm_mb == 0 and figures.events > _WARM * self.events:
            figures.warm_mb = settled_mb()
        if figures.events * 20 // self.events > self._shown:
            self._shown = figures.events * 20 // self.events
            print_progress(
                f"{figures.events} events, block {step_result.cursor.number}, {now:.0f} MB"
            )

    def _digest(self) -> str:
        sha = hashlib.sha256()
        with self.indexer.store.read_transaction() as uow:
            for log in uow.logs.iterate_between(0, 2**62):
                sha.update(f"{log.block_hash} {log.index}\n".encode())
        return sha.hexdigest()


def resident_mb() -> float:
    """Return the resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def settled_mb() -> float:
    """Return the resident memory after freed memory was returned to the system, in MB.

    An allocator keeps what threads have freed, and the amount depends on their timing.
    """
    gc.collect()
    # Of glibc; others have none, and keep less.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return resident_mb()


def advance_chain(chain: "subprocess.Popen[str]", line: str = "") -> dict[str, Any]:
    """Let the chain's process continue, and return the line of JSON that it reports."""
    assert chain.stdin is not None
    chain.stdin.write(f"{line}\n")
    chain.stdin.flush()
    return read_chain_line(chain)


def read_chain_line(chain: "subprocess.Popen[str]") -> dict[str, Any]:
    """Read one line of the chain's process."""
    assert chain.stdout is not None
    line: dict[str, Any] = json.loads(chain.stdout.readline())
    return line


@contextmanager
def serve_chain(
    events: int, seed: int, history: float = 0.8, step: int = 25, logs_a_block: int = 40
) -> "Iterator[subprocess.Popen[str]]":
    """Run the chain in a separate process within the context.

    A `history` share of the events is there at the start; `step` blocks follow at a time, with
    about `logs_a_block` logs each.
    """
    command = [sys.executable, "-m", "tests.soak.endpoints"]
    command += ["--events", str(events), "--seed", str(seed)]
    command += ["--history", str(history), "--step", str(step)]
    command += ["--logs-a-block", str(logs_a_block)]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as chain:
        try:
            yield chain
        finally:
            chain.kill()


def print_progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Run the soak test, and return the exit code."""
    parser = argparse.ArgumentParser(description="Check that memory stays flat.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-mb", type=float, default=64, help="growth that is allowed")
    options = parser.parse_args()
    # Stdout is for programs.
    logging_setup.configure_logging("json", "warning")
    engine._CACHE_KIB = _CACHE_KIB
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        serve_chain(options.events, options.seed) as chain,
    ):
        url = f"sqlite:///{folder}/oracle.sqlite"
        migrate(url)
        clock = VirtualClock()
        indexer = Indexer(read_chain_line(chain)["urls"], url, clock=clock)
        soak = Soak(chain, indexer, clock, options.events)
        soak.follow()
        indexer.close()
    figures = soak.figures
    print(json.dumps(asdict(figures)))  # noqa: T201  # what it is for
    grew = figures.end_mb - figures.warm_mb
    is_well = figures.logs_equal_chain and figures.state_equals_rebuild and grew <= options.most_mb
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
