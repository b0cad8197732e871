"""Measure reads and indexing while clients post objections with invalid signatures.

Run: .venv/bin/python benchmarks/objection_flood.py [--posts 100000] [--seconds 60] [--rounds 3]

A process serves the read API, another one posts from 512 addresses of the loopback network as
fast as it can, and this process indexes blocks into the same database and requests a node. All
objections have the right form and name a kickout that is due, so that only the signature is
wrong. Phases without and with the flood alternate, with the same reads and the same indexing, so
that other programs slow down both. The posts and the seconds are those of all phases. Only the
loopback interface is used. On two processors or more, the indexer has one for itself, as on
another host than `serve`.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import requests

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.daemon.config.listener_section import ApiSection  # noqa: E402
from oracle.daemon.web.api.read_api import create_read_api  # noqa: E402
from oracle.daemon.web.http_server import serve_app  # noqa: E402
from oracle.domain.fixed_point import UNIT  # noqa: E402
from oracle.kickouts.objection_intake import IntakeSettings, ObjectionIntake  # noqa: E402
from oracle.signing.typed_data import Domain  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.api import IDENTITY, IndexedHistory  # noqa: E402
from tests.support.histories import History, make_node_address  # noqa: E402
from tests.support.rounds import make_address  # noqa: E402

RULES = replace(CRYNUX, pool_size=4, kick_creator_share=UNIT)
NODE = make_node_address("A")
NOT_MEASURED = "the network between clients and server, and a limit of a proxy in front"
_ADDRESSES = [f"127.0.{high}.{low}" for high in (1, 2) for low in range(1, 257 - 1)]
_CONNECTIONS, _POSTS_PER_CONNECTION = 64, 16
_CALM_SECONDS = 10
# The indexer runs on the first CPU. The server and its clients share the others.
_PROCESSORS = sorted(os.sched_getaffinity(0))
# Maximum ratio of a block's duration during the flood to its duration without it. A larger ratio
# would exceed the measurement noise.
_MAX_BLOCK_RATIO = 1.2
_PAUSE_SECONDS = 0.05
# Maximum median time of a read during the flood. It is high, because all processes share the CPU.
_MAX_READ_MILLISECONDS = 500.0


@dataclass
class Load:
    """The reads and indexed blocks of all phases of one kind, in milliseconds each."""

    block_ms: list[float] = field(default_factory=list)
    block_cpu_ms: list[float] = field(default_factory=list)
    read_ms: list[float] = field(default_factory=list)
    failed_reads: int = 0


def serve(folder: str) -> None:
    """Serve the database of a folder, and print the address, until standard input ends."""
    store = Store.open(f"sqlite:///{folder}/oracle.sqlite")
    settings = IntakeSettings(
        Domain(IDENTITY.chain_id, make_address(0xEE)), RULES, posts_per_hour=30, daily_gas=10**7
    )
    intake = ObjectionIntake(store.open_unfenced_store(), settings)
    source = replace(IndexedHistory(store, RULES).source, objection_intake=intake)
    section = ApiSection()
    with serve_app(create_read_api(source, streams=section), section, 0) as url:
        print(url, flush=True)
        sys.stdin.read()


def post_flood(url: str, posts: int, seconds: float) -> None:
    """Post objections until `posts` were answered or `seconds` passed; print counts by status."""
    status_counts = asyncio.run(
        _post_all(urlsplit(url).port or 0, posts, time.monotonic() + seconds)
    )
    print(json.dumps(status_counts))


async def _post_all(port: int, posts: int, deadline: float) -> Counter[str]:
    status_counts: Counter[str] = Counter()
    addresses = cycle(_ADDRESSES)
    body = json.dumps(
        {
            "node": NODE,
            "due_since": _find_due_since(),
            "reason": "application",
            "text": "not me",
            "seq": 0,
            "deadline": 2**40 - 1,
            "signature": "0x" + 64 * "1" + 64 * "2" + "1b",
        }
    )
    head = "POST /v1/objections HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    message = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()

    async def run_client() -> None:
        while status_counts.total() < posts and time.monotonic() < deadline:
            try:
                async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                    await _post_on_one_connection(port, next(addresses), message, status_counts)
            except TimeoutError:
                return
            except (OSError, asyncio.IncompleteReadError, ValueError):
                status_counts["connection closed"] += 1

    await asyncio.gather(*(run_client() for _ in range(_CONNECTIONS)))
    return status_counts


async def _post_on_one_connection(
    port: int, address: str, message: bytes, counts: Counter[str]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        for _ in range(_POSTS_PER_CONNECTION):
            writer.write(message)
            response_head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(response_head.partition("content-length:")[2].partition("\r\n")[0])
            await reader.readexactly(length)
            counts[response_head.split()[1]] += 1
            if "connection: close" in response_head:
                return
    finally:
        writer.close()


def _build_history() -> History:
    return History().joins("A", "B").scores("A", 0, 0, 0, 0)


def _find_due_since() -> int:
    return _build_history().time


@contextmanager
def run_script(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Run this script in another process, and end it."""
    command = [sys.executable, __file__, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        os.sched_setaffinity(process.pid, _PROCESSORS[1:] or _PROCESSORS)
        try:
            yield process
        finally:
            process.kill()


def read_cpu_seconds(process_id: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_load(
    load: Load, indexed: IndexedHistory, history: History, url: str, is_over: threading.Event
) -> None:
    """Index a block and read a node in turn until `is_over` is set; add the times to `load`."""
    began_at = time.monotonic()
    while not is_over.is_set():
        first_event_count = len(history.events)
        history.after(12).scores("B", 5)
        started_at = time.monotonic()
        cpu_at_start = time.thread_time()
        indexed.index(history.events[first_event_count:], history.block, history.time)
        load.block_cpu_ms.append(1e3 * (time.thread_time() - cpu_at_start))
        load.block_ms.append(1e3 * (time.monotonic() - started_at))
        started_at = time.monotonic()
        try:
            is_read = requests.get(f"{url}/v1/nodes/{NODE}", timeout=10).status_code == 200
        except requests.RequestException:
            is_read = False
        if is_read:
            load.read_ms.append(1e3 * (time.monotonic() - started_at))
        else:
            load.failed_reads += 1
        is_over.wait(_PAUSE_SECONDS)
    print(
        f"{time.monotonic() - began_at:.0f} s: now {len(load.block_ms)} blocks, "
        f"{len(load.read_ms)} reads, {load.failed_reads} failed"
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--flood", metavar="URL", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure without and with the flood, and print the figures."""
    arguments = _parse_arguments()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    if arguments.flood:
        post_flood(arguments.flood, arguments.posts, arguments.seconds)
        return 0
    begin_benchmark(NOT_MEASURED)
    os.sched_setaffinity(0, _PROCESSORS[:1])
    with tempfile.TemporaryDirectory(prefix="qos-bench-") as folder:
        store = Store.open(f"sqlite:///{folder}/oracle.sqlite", create=True)
        history = _build_history()
        indexed = IndexedHistory(store, RULES).whole(history)
        with run_script("--serve", folder) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            calm_load = Load()
            flooded_load = Load()
            counts = Counter[str]()
            cpu_of_calm = cpu_of_flood = seconds = 0.0
            for _ in range(arguments.rounds):
                is_over = threading.Event()
                cpu_before = read_cpu_seconds(server.pid)
                threading.Timer(_CALM_SECONDS, is_over.set).start()
                measure_load(calm_load, indexed, history, url, is_over)
                cpu_of_calm += read_cpu_seconds(server.pid) - cpu_before
                cpu_before = read_cpu_seconds(server.pid)
                phase_counts, phase_seconds = _measure_flood(
                    flooded_load, indexed, history, url, arguments
                )
                counts.update(phase_counts)
                seconds += phase_seconds
                cpu_of_flood += read_cpu_seconds(server.pid) - cpu_before
            cpu_of_read = cpu_of_calm / len(calm_load.read_ms)
            cpu_of_posts = cpu_of_flood - cpu_of_read * len(flooded_load.read_ms)
        with store.read_transaction() as uow:
            stored = len(uow.objection_inbox.list_for_node(NODE))
        store.close()
    post_count = sum(counts.values())
    print(f"{post_count:,} posts in {seconds:.0f} s, by status: {dict(counts)}; {stored} stored")
    baseline_name = "without the flood"
    calm_read, flooded_read = (
        statistics.median(load.read_ms) for load in (calm_load, flooded_load)
    )
    block_ms, block_cpu_ms = (
        [statistics.median(times) for times in pair]
        for pair in (
            (calm_load.block_ms, flooded_load.block_ms),
            (calm_load.block_cpu_ms, flooded_load.block_cpu_ms),
        )
    )
    return finish_benchmark(
        [
            Outcome(
                "objection flood: median time of a read",
                flooded_read,
                "ms",
                _MAX_READ_MILLISECONDS,
                calm_read,
                baseline_name,
            ),
            Outcome(
                "objection flood: median time to index a block",
                block_ms[1],
                "ms",
                None,
                block_ms[0],
                baseline_name,
            ),
            Outcome(
                "objection flood: processor time of a block, divided by that without the flood",
                block_cpu_ms[1] / block_cpu_ms[0],
                "",
                _MAX_BLOCK_RATIO,
                1.0,
                baseline_name,
            ),
            Outcome(
                "objection flood: reads that failed",
                flooded_load.failed_reads,
                "",
                0,
                0,
                baseline_name,
            ),
            Outcome("objection flood: objections stored", stored, "", 0, 0, baseline_name),
            Outcome(
                "objection flood: processor time of the server for one post",
                1e6 * cpu_of_posts / max(1, post_count),
                "µs",
                None,
                1e6 * cpu_of_read,
                "a read",
            ),
            Outcome(
                "objection flood: signatures checked",
                counts.get("403", 0),
                "",
                # The rate limit permits a burst of 30 requests, then ten per second.
                30 + 10 * (seconds + 1),
                post_count,
                "posts",
            ),
        ]
    )


def _measure_flood(
    load: Load,
    indexed: IndexedHistory,
    history: History,
    url: str,
    arguments: argparse.Namespace,
) -> tuple[dict[str, int], float]:
    """Measure the load during a flood; return the post responses by status, and the seconds."""
    is_over = threading.Event()
    began_at = time.monotonic()
    rounds = arguments.rounds
    posts = arguments.posts // rounds
    seconds = arguments.seconds / rounds
    flood_options = ("--posts", str(posts), "--seconds", str(seconds))
    answers: list[str] = []
    with run_script("--flood", url, *flood_options) as flood:

        def wait_for_flood() -> None:
            assert flood.stdout is not None
            answers.append(flood.stdout.read())
            is_over.set()

        threading.Thread(target=wait_for_flood).start()
        measure_load(load, indexed, history, url, is_over)
    return json.loads(answers[0]), time.monotonic() - began_at


if __name__ == "__main__":
    sys.exit(main())
