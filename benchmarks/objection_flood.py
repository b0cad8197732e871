"""Measure reads and indexing while clients post objections with false signatures.

Run: .venv/bin/python benchmarks/objection_flood.py [--posts 100000] [--seconds 60]

A process serves the read API, another one posts from 512 addresses of the loopback network as
fast as it can, and this process indexes blocks into the same database and requests a node. All
objections have the right form and name a kickout that is due, so that only the signature is
wrong. The same reads and the same indexing run before without the flood. Only the loopback
interface is used. All processes use the same cores.
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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
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
from tests.support.histories import History, node_address  # noqa: E402
from tests.support.rounds import make_address  # noqa: E402

RULES = replace(CRYNUX, pool_size=4, kick_creator_share=UNIT)
NODE = node_address("A")
NOT_MEASURED = "the network between clients and server, and a limit of a proxy in front"
_ADDRESSES = [f"127.0.{high}.{low}" for high in (1, 2) for low in range(1, 257 - 1)]
_CONNECTIONS, _POSTS_PER_CONNECTION = 64, 16
_CALM_SECONDS = 10
_PAUSE_SECONDS = 0.05
# Reads during the flood may be slower by this much, because all processes share the cores.
_MAX_READ_MILLISECONDS = 500.0


@dataclass
class Load:
    """The reads and the indexed blocks of one phase; `read_ms` has a value for each read."""

    seconds: float = 0.0
    blocks: int = 0
    read_ms: list[float] = field(default_factory=list)
    failed_reads: int = 0

    @property
    def block_ms(self) -> float:
        """The milliseconds that one block took."""
        return 1e3 * self.seconds / max(1, self.blocks)


def serve(folder: str) -> None:
    """Serve the database of a folder, and print the address, until standard input ends."""
    store = Store.open(f"sqlite:///{folder}/oracle.sqlite")
    settings = IntakeSettings(
        Domain(IDENTITY.chain_id, make_address(0xEE)), RULES, posts_per_hour=30, daily_gas=10**7
    )
    intake = ObjectionIntake(store.open_unfenced(), settings)
    source = replace(IndexedHistory(store, RULES).source, objection_intake=intake)
    section = ApiSection()
    with serve_app(create_read_api(source, streams=section), section, 0) as url:
        print(url, flush=True)
        sys.stdin.read()


def post_flood(url: str, posts: int, seconds: float) -> None:
    """Post until `posts` were answered or `seconds` are over; print the count by status."""
    counts = asyncio.run(_post_all(urlsplit(url).port or 0, posts, time.monotonic() + seconds))
    print(json.dumps(counts))


async def _post_all(port: int, posts: int, deadline: float) -> Counter[str]:
    counts: Counter[str] = Counter()
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
        while counts.total() < posts and time.monotonic() < deadline:
            try:
                async with asyncio.timeout(max(0.1, deadline - time.monotonic())):
                    await _post_on_one_connection(port, next(addresses), message, counts)
            except TimeoutError:
                return
            except (OSError, asyncio.IncompleteReadError, ValueError):
                counts["connection closed"] += 1

    await asyncio.gather(*(run_client() for _ in range(_CONNECTIONS)))
    return counts


async def _post_on_one_connection(
    port: int, address: str, message: bytes, counts: Counter[str]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        for _ in range(_POSTS_PER_CONNECTION):
            writer.write(message)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length:")[2].partition("\r\n")[0])
            await reader.readexactly(length)
            counts[head.split()[1]] += 1
            if "connection: close" in head:
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
        try:
            yield process
        finally:
            process.kill()


def read_cpu_seconds(process_id: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{process_id}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_load(
    indexed: IndexedHistory, history: History, url: str, is_over: threading.Event
) -> Load:
    """Index a block and read a node in turn until `is_over` is set."""
    load, began_at = Load(), time.monotonic()
    spent = 0.0
    while not is_over.is_set():
        first = len(history.events)
        history.after(12).scores("B", 5)
        started_at = time.monotonic()
        indexed.index(history.events[first:], history.block, history.time)
        spent += time.monotonic() - started_at
        load.blocks += 1
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
    load.seconds = spent
    print(
        f"{time.monotonic() - began_at:.0f} s: {load.blocks} blocks, {len(load.read_ms)} reads, "
        f"{load.failed_reads} failed"
    )
    return load


def main() -> int:
    """Measure without and with the flood, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--flood", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return 0
    if arguments.flood:
        post_flood(arguments.flood, arguments.posts, arguments.seconds)
        return 0
    begin_benchmark(NOT_MEASURED)
    with tempfile.TemporaryDirectory(prefix="qos-bench-") as folder:
        store = Store.open(f"sqlite:///{folder}/oracle.sqlite", create=True)
        history = _build_history()
        indexed = IndexedHistory(store, RULES).whole(history)
        with run_script("--serve", folder) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            is_over, cpu_at_start = threading.Event(), read_cpu_seconds(server.pid)
            threading.Timer(_CALM_SECONDS, is_over.set).start()
            calm = measure_load(indexed, history, url, is_over)
            cpu_of_read = (read_cpu_seconds(server.pid) - cpu_at_start) / len(calm.read_ms)
            cpu_before = read_cpu_seconds(server.pid)
            flooded, counts, seconds = _measure_flood(indexed, history, url, arguments)
            cpu_of_flood = read_cpu_seconds(server.pid) - cpu_before
            cpu_of_posts = cpu_of_flood - cpu_of_read * len(flooded.read_ms)
        with store.read_transaction() as uow:
            stored = len(uow.objection_inbox.list_for_node(NODE))
        store.close()
    posts = sum(counts.values())
    print(f"{posts:,} posts in {seconds:.0f} s, by status: {counts}; {stored} stored")
    baseline_name = "without the flood"
    calm_read, flooded_read = (statistics.median(load.read_ms) for load in (calm, flooded))
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
                "objection flood: time to index a block",
                flooded.block_ms,
                "ms",
                None,
                calm.block_ms,
                baseline_name,
            ),
            Outcome(
                "objection flood: reads that failed", flooded.failed_reads, "", 0, 0, baseline_name
            ),
            Outcome("objection flood: objections stored", stored, "", 0, 0, baseline_name),
            Outcome(
                "objection flood: processor time of the server for one post",
                1e6 * cpu_of_posts / max(1, posts),
                "µs",
                None,
                1e6 * cpu_of_read,
                "a read",
            ),
            Outcome(
                "objection flood: signatures checked",
                counts.get("403", 0),
                "",
                # 30 at once, then ten a second.
                30 + 10 * (seconds + 1),
                posts,
                "posts",
            ),
        ]
    )


def _measure_flood(
    indexed: IndexedHistory, history: History, url: str, arguments: argparse.Namespace
) -> tuple[Load, dict[str, int], float]:
    """Measure while another process posts; return also the posts by status, and their seconds."""
    is_over, began_at = threading.Event(), time.monotonic()
    limits = ("--posts", str(arguments.posts), "--seconds", str(arguments.seconds))
    answers: list[str] = []
    with run_script("--flood", url, *limits) as flood:

        def wait_for_flood() -> None:
            assert flood.stdout is not None
            answers.append(flood.stdout.read())
            is_over.set()

        threading.Thread(target=wait_for_flood).start()
        flooded = measure_load(indexed, history, url, is_over)
    return flooded, json.loads(answers[0]), time.monotonic() - began_at


if __name__ == "__main__":
    sys.exit(main())
