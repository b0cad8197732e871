"""Measure the writer alone: folding and committing windows that are already decoded.

Run: .venv/bin/python benchmarks/writer.py [--events 100000] [--each 12000] [--postgresql]
The result is the maximum rate of many cores or of a cluster on one chain, because one process
folds and commits. The windows are in memory before the clock starts, in the form in which workers
return them: events, and logs as rows. The cost of receiving them is left out. The history is
ordinary traffic with valid block hashes and the network's own logs.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.backfill import MISSED, opened, resident_mb  # noqa: E402
from benchmarks.insert import folder  # noqa: E402
from benchmarks.ordinary_traffic import served  # noqa: E402
from oracle.chain.fetch.fetcher import BlockWindow  # noqa: E402
from oracle.chain.heads import Heads  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.segments.segment_queue import join_windows  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.domain.ids import Hash  # noqa: E402
from oracle.domain.logs import LogTable  # noqa: E402
from oracle.indexer.commit import commit_window  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402
from tests.support.postgresql import Server, find_programs  # noqa: E402

RATE, BYTES = 100_000, 300


@dataclass
class Prepared:
    """A history in memory: its decoded windows, and the chain from which they were read."""

    reader: EventReader
    heads: Heads
    genesis: Hash
    windows: list[BlockWindow] = field(default_factory=list)

    @property
    def logs(self) -> int:
        return sum(len(window.logs) for window in self.windows)


@dataclass
class Took:
    """The cost of writing one history; `size` is in bytes."""

    seconds: float
    cpu_seconds: float
    # Resident memory in MB at the beginning and at the end.
    memory: tuple[int, int]
    size: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=12_000, help="events per transaction")
    parser.add_argument("--postgresql", action="store_true")
    arguments = parser.parse_args()
    freeze_gc()
    history = prepared(arguments.events, arguments.each)
    print(f"{history.logs:,} events in {len(history.windows)} transactions; {load()}")
    with tempfile.TemporaryDirectory() as folder_name:
        file = Path(folder_name, "oracle.db")
        took = written(f"sqlite:///{file}", history, lambda: file.stat().st_size)
    is_reached = shown("sqlite", took, history.logs)
    programs = find_programs() if arguments.postgresql else None
    if programs is not None:
        with folder() as here, closing(Server(programs, here)) as server:
            server.create("ours", "template0")
            url = server.url("ours")
            took = written(url, history, lambda: database_size(url))
        shown("postgresql", took, history.logs)
    return 0 if is_reached else MISSED


def prepared(events: int, events_per_block: int) -> Prepared:
    """Read the complete history, and join its windows to windows of enough events."""
    with served(events) as url:
        source, reader = opened(url)
        chain = Prepared(reader, source.fetch_heads(), source.fetch_genesis_hash())
        chain.windows = list(
            join_windows_of(
                read(source.fetch_window, reader, chain.heads.final.number), events_per_block
            )
        )
        source.close()
    return chain


def read(
    window_of: Callable[..., BlockWindow], reader: EventReader, last: int
) -> Iterator[BlockWindow]:
    first = 0
    while first <= last:
        window = window_of(BlockRange(first, last), with_headers=False)
        yield replace(window, decoded=reader.decode_rows(window.logs, window.calls))
        first = window.range.last + 1


def join_windows_of(
    windows: Iterator[BlockWindow], windows_per_commit: int
) -> Iterator[BlockWindow]:
    """Join adjacent windows until each has at least `windows_per_commit` events."""
    held: list[BlockWindow] = []
    events = 0
    for window in windows:
        assert window.decoded is not None
        held.append(replace(window, logs=LogTable.from_logs(window.logs)))
        events += len(window.decoded.events)
        if events >= windows_per_commit:
            yield join_windows(held)
            held, events = [], 0
    if held:
        yield join_windows(held)


def written(url: str, history: Prepared, size: Callable[[], int]) -> Took:
    """Fold and commit the complete history; return the cost."""
    with Store.open(url, create=True) as store:
        with store.transaction() as uow:
            contracts = {"TaskNetwork": NETWORK}
            uow.identity.store_or_check(Identity(31337, history.genesis, contracts, None, 0))
        empty, writer = size(), EventFolder(CRYNUX, history.reader)
        began, worked, memory = time.perf_counter(), time.process_time(), resident_mb()
        for window in history.windows:
            with store.read_transaction() as uow:
                cursor = uow.cursor.get()
            commit_window(
                store,
                writer,
                window,
                heads=history.heads,
                cursor=cursor,
                clock=time.perf_counter,
            )
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
        with store.read_transaction() as uow:
            assert uow.logs.count() == history.logs
            assert uow.anomalies.count() == 0
            print(f"  digest of the projections {uow.projections.compute_digest()[:16]}")
    return Took(seconds, cpu, (memory, resident_mb()), size() - empty)


def database_size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def shown(name: str, took: Took, events: int) -> bool:
    """Print the result; return whether both targets were reached."""
    rate, size = events / took.seconds, took.size / events
    print(
        f"  {name:<11}{rate:>9,.0f} events/s, {events / took.cpu_seconds:,.0f} per CPU second "
        f"({1e6 * took.cpu_seconds / events:.1f} µs per event); {size:.0f} bytes per event; "
        f"resident memory {took.memory[0]} MB before, {took.memory[1]} MB after"
    )
    for what, value, is_met in (
        (f"at least {RATE:,} events/s", rate, rate >= RATE),
        (f"at most {BYTES} bytes per event", size, size <= BYTES),
    ):
        print(f"  {name:<11}{what}: {value:,.0f}, {'reached' if is_met else 'MISSED'}")
    return rate >= RATE and size <= BYTES


def load() -> str:
    """Return the load of the machine, which affects every figure."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
