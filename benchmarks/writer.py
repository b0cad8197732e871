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
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.backfill import MISSED_EXIT_CODE, get_resident_mb, open_chain_source  # noqa: E402
from benchmarks.insert import create_shared_folder  # noqa: E402
from benchmarks.ordinary_traffic import serve_chain  # noqa: E402
from oracle.chain.fetch.fetcher import BlockWindow  # noqa: E402
from oracle.chain.heads import Heads  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.segments.segment_queue import join_windows  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.domain.ids import Hash  # noqa: E402
from oracle.domain.logs import LogTable  # noqa: E402
from oracle.indexer.commit import commit_window  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402
from tests.support.postgresql import Server, find_server_programs  # noqa: E402

MIN_EVENTS_PER_SECOND, MAX_BYTES_PER_EVENT = 100_000, 300


@dataclass
class PreparedHistory:
    """A history in memory: its decoded windows and its chain."""

    reader: EventReader
    heads: Heads
    genesis: Hash
    windows: list[BlockWindow] = field(default_factory=list)

    @property
    def logs(self) -> int:
        return sum(len(window.logs) for window in self.windows)


@dataclass
class WriteCost:
    """The cost of writing one history."""

    seconds: float
    cpu_seconds: float
    # Resident memory in MB, at the beginning and at the end.
    memory_mb: tuple[int, int]
    size_bytes: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=12_000, help="events per transaction")
    parser.add_argument("--postgresql", action="store_true")
    arguments = parser.parse_args()
    tune_garbage_collection()
    history = prepare_history(arguments.events, arguments.each)
    print(f"{history.logs:,} events in {len(history.windows)} transactions; {describe_load()}")
    with tempfile.TemporaryDirectory() as folder_name:
        database_path = Path(folder_name, "oracle.db")
        write_cost = write_history(
            f"sqlite:///{database_path}", history, lambda: database_path.stat().st_size
        )
    is_reached = print_result("sqlite", write_cost, history.logs)
    programs = find_server_programs() if arguments.postgresql else None
    if programs is not None:
        with (
            create_shared_folder() as shared_folder,
            closing(Server(programs, shared_folder)) as server,
        ):
            server.create("ours", "template0")
            url = server.url("ours")
            write_cost = write_history(url, history, lambda: measure_database_size(url))
        print_result("postgresql", write_cost, history.logs)
    return 0 if is_reached else MISSED_EXIT_CODE


def prepare_history(events: int, events_per_commit: int) -> PreparedHistory:
    """Read the complete history, in windows of at least `events_per_commit` events."""
    with serve_chain(events) as url:
        source, reader = open_chain_source(url)
        history = PreparedHistory(reader, source.fetch_heads(), source.fetch_genesis_hash())
        history.windows = list(
            join_windows_to_size(
                iterate_windows(source.fetch_window, reader, history.heads.final.number),
                events_per_commit,
            )
        )
        source.close()
    return history


def iterate_windows(
    fetch_window: Callable[..., BlockWindow], reader: EventReader, last_block: int
) -> Iterator[BlockWindow]:
    first_block = 0
    while first_block <= last_block:
        window = fetch_window(BlockRange(first_block, last_block), with_headers=False)
        yield replace(window, decoded=reader.decode_rows(window.logs, window.calls))
        first_block = window.range.last + 1


def join_windows_to_size(
    windows: Iterator[BlockWindow], events_per_commit: int
) -> Iterator[BlockWindow]:
    """Join adjacent windows until each has at least `events_per_commit` events."""
    pending_windows: list[BlockWindow] = []
    events = 0
    for window in windows:
        assert window.decoded is not None
        pending_windows.append(replace(window, logs=LogTable.from_logs(window.logs)))
        events += len(window.decoded.events)
        if events >= events_per_commit:
            yield join_windows(pending_windows)
            pending_windows, events = [], 0
    if pending_windows:
        yield join_windows(pending_windows)


def write_history(url: str, history: PreparedHistory, size_bytes: Callable[[], int]) -> WriteCost:
    """Fold and commit the complete history; return the cost."""
    with Store.open(url, create=True) as store:
        with store.transaction() as uow:
            contracts = {"TaskNetwork": NETWORK}
            uow.identity.ensure_stored_identity(
                Identity(31337, history.genesis, contracts, None, 0)
            )
        size_before = size_bytes()
        event_folder = EventFolder(CRYNUX, history.reader)
        start = time.perf_counter()
        cpu_start = time.process_time()
        memory_mb = get_resident_mb()
        for window in history.windows:
            with store.read_transaction() as uow:
                cursor = uow.cursor.get()
            commit_window(
                store,
                event_folder,
                window,
                heads=history.heads,
                cursor=cursor,
                clock=time.perf_counter,
            )
        elapsed_seconds = time.perf_counter() - start
        cpu = time.process_time() - cpu_start
        with store.read_transaction() as uow:
            assert uow.logs.count() == history.logs
            assert uow.anomalies.count() == 0
            print(f"  digest of the projections {uow.projections.compute_digest()[:16]}")
    return WriteCost(
        elapsed_seconds, cpu, (memory_mb, get_resident_mb()), size_bytes() - size_before
    )


def measure_database_size(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def print_result(name: str, cost: WriteCost, events: int) -> bool:
    """Print the result; return whether both targets were reached."""
    rate = events / cost.seconds
    size_bytes = cost.size_bytes / events
    print(
        f"  {name:<11}{rate:>9,.0f} events/s, {events / cost.cpu_seconds:,.0f} per CPU second "
        f"({1e6 * cost.cpu_seconds / events:.1f} µs per event); {size_bytes:.0f} bytes per event; "
        f"resident memory {cost.memory_mb[0]} MB before, {cost.memory_mb[1]} MB after"
    )
    for target, value, is_reached in (
        (f"at least {MIN_EVENTS_PER_SECOND:,} events/s", rate, rate >= MIN_EVENTS_PER_SECOND),
        (
            f"at most {MAX_BYTES_PER_EVENT} bytes per event",
            size_bytes,
            size_bytes <= MAX_BYTES_PER_EVENT,
        ),
    ):
        print(f"  {name:<11}{target}: {value:,.0f}, {'reached' if is_reached else 'MISSED'}")
    return rate >= MIN_EVENTS_PER_SECOND and size_bytes <= MAX_BYTES_PER_EVENT


def describe_load() -> str:
    """Return the machine's load, which affects every figure."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())
