"""Measure how long a new block takes to reach the database, `/v1` and the event stream.

Run: .venv/bin/python benchmarks/head_delays.py [--blocks 40] [--seconds 1]
A daemon as shipped (`qos-oracle run`) follows a chain on a local endpoint, once with a websocket
and once by polling with the default settings. A block with an accepted round appears at an
interval with a jitter of a tenth. The clock starts when the endpoint shows the block. It stops
when the block is committed, when `/v1/status` shows it to a client that requests it every few
milliseconds, and when an open event stream receives the event of the round. The baseline of each
figure is half of a second, the mean delay of a program that polls once a second and does nothing
else.
"""

import argparse
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from random import Random
from threading import Thread

import requests

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from devnet.fakechain.tree import BlockTree  # noqa: E402
from devnet.fakechain.websocket import serve_websocket  # noqa: E402
from oracle.daemon.wall_clock import unix_seconds  # noqa: E402
from tests.support.chain.network_logs import NETWORK, ORACLE  # noqa: E402
from tests.support.cli.daemon import Daemon, run_daemon  # noqa: E402
from tests.support.cli.local_network import write_config  # noqa: E402
from tests.support.ingest.event_encoding import build_transactions  # noqa: E402
from tests.support.ingest.fake_chain import FakeChain  # noqa: E402
from tests.support.ingest.indexer import CHAIN_ID  # noqa: E402
from tests.support.traffic import build_accepted_round  # noqa: E402

# The daemon learns the block time from this many first blocks, which are not measured.
WARM_UP = 5
JITTER_SHARE = 0.1
_POLLED_MS = 500.0
_PATIENCE_SECONDS = 60.0
# Maximum medians in milliseconds, by place in the order of PLACES.
TARGETS = {"websocket": (20.0, 25.0, 30.0), "polling": (250.0, 260.0, 270.0)}
PLACES = ("committed", "on /v1", "in the event stream")

Delays = dict[str, list[float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    begin_benchmark(
        "other endpoints, the network, PostgreSQL, reports that are cut, other viewers"
    )
    outcomes = []
    for mode, targets in TARGETS.items():
        delays = measure_delays(mode, options.blocks, options.seconds)
        for place, target in zip(PLACES, targets, strict=True):
            median = statistics.median(delays[place])
            print(f"{mode}, {place}: {median:.0f} ms, maximum {max(delays[place]):.0f} ms")
            outcomes.append(
                Outcome(
                    f"new block, {mode}, {place}",
                    median,
                    "ms",
                    target,
                    _POLLED_MS,
                    "polling once a second",
                    "" if options.seconds == 1.0 else "one block a second",
                )
            )
    return finish_benchmark(outcomes)


def measure_delays(mode: str, block_count: int, block_seconds: float) -> Delays:
    """Return each block's delays in milliseconds, by the place of observation."""
    random_source = Random(1)  # noqa: S311 - repeatable, no secret
    delays: Delays = {place: [] for place in PLACES}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        start = int(unix_seconds()) - int(block_seconds * 2 * WARM_UP)
        chain = FakeChain(stack, BlockTree(CHAIN_ID, start))
        chain.serve()
        websocket = (
            stack.enter_context(serve_websocket(chain.provider)).url
            if mode == "websocket"
            else None
        )
        chain.mine_empty(WARM_UP, seconds=max(1, round(block_seconds)))
        running_daemon = stack.enter_context(
            run_daemon(write_daemon_config(chain, folder, websocket))
        )
        running_daemon.wait_until_ready()
        running_daemon.url = running_daemon.wait_for("daemon_started")["api"]
        stream_times = stack.enter_context(listen_to_rounds(running_daemon.url))
        session = stack.enter_context(requests.Session())
        connection = stack.enter_context(
            closing(sqlite3.connect(f"file:{folder}/oracle.sqlite?mode=ro", uri=True))
        )
        due_at = time.perf_counter()
        for number in range(1, WARM_UP + block_count + 1):
            due_at += block_seconds
            jitter = JITTER_SHARE * block_seconds * random_source.uniform(-1.0, 1.0)
            time.sleep(max(0.0, due_at + jitter - time.perf_counter()))
            transactions = build_transactions([build_accepted_round(number)])
            block = chain.tree.mine(transactions, seconds=max(1, round(block_seconds)))
            shown_at = time.perf_counter()
            chain.show(block)
            place_times = observe_block(block.number, running_daemon, session, connection)
            wait_until(lambda number=number: len(stream_times) >= number)  # type: ignore[misc]
            if number > WARM_UP:
                for place, seen_at in zip(
                    PLACES, (*place_times, stream_times[number - 1]), strict=True
                ):
                    delays[place].append(1000 * (seen_at - shown_at))
    return delays


def write_daemon_config(chain: FakeChain, folder: Path, websocket: str | None) -> Path:
    """Write the configuration of the daemon, with the default intervals."""
    chain_section = {"id": CHAIN_ID, "endpoints": chain.urls, "finality_depth": 8}
    if websocket is not None:
        chain_section["websocket"] = websocket
    return write_config(
        {
            "database": {"url": f"sqlite:///{folder}/oracle.sqlite"},
            "chain": chain_section,
            "network": {"contracts": {"TaskNetwork": NETWORK}},
            "oracle": {"address": ORACLE},
            "web": {"port": 0},
            "api": {"enabled": True, "port": 0},
            "log": {"format": "json"},
        },
        folder / "config.toml",
    )


def observe_block(
    number: int, running: Daemon, session: requests.Session, connection: sqlite3.Connection
) -> tuple[float, float]:
    """Wait until `/v1/status` shows a block; return the times of its commit and appearance."""
    committed_at = list[float]()

    def is_committed() -> bool:
        (newest,) = connection.execute("SELECT number FROM cursor").fetchone()
        return bool(newest >= number)

    def is_shown() -> bool:
        if not committed_at and is_committed():
            committed_at.append(time.perf_counter())
        if not committed_at:
            return False
        status = session.get(f"{running.url}/v1/status", timeout=_PATIENCE_SECONDS).json()
        return bool(status["as_of"]["block"] >= number)

    wait_until(is_shown)
    return committed_at[0], time.perf_counter()


@contextmanager
def listen_to_rounds(url: str) -> Iterator[list[float]]:
    """Yield the time at which the event stream delivered each accepted round, in order."""
    round_times = list[float]()
    with requests.get(f"{url}/v1/events", stream=True, timeout=_PATIENCE_SECONDS) as response:
        lines = response.iter_lines(chunk_size=1)
        # The stream begins with the newest event's id.
        next(line for line in lines if line.startswith(b"id: "))

        def receive() -> None:
            # The stream never ends, so the connection is cut below, which raises an exception
            # here.
            with suppress(requests.RequestException):
                for line in lines:
                    if line == b"event: report_accepted":
                        round_times.append(time.perf_counter())

        receiver = Thread(target=receive)
        receiver.start()
        try:
            yield round_times
        finally:
            response.raw.shutdown()
            receiver.join()


def wait_until(is_met: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + _PATIENCE_SECONDS
    while not is_met():
        assert time.perf_counter() < deadline, "the block or its event never arrived"
        time.sleep(0.002)


if __name__ == "__main__":
    sys.exit(main())
