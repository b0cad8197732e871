"""Measure a backfill into SQLite: the complete pipeline compared with a plain web3.py script.

Run: .venv/bin/python benchmarks/backfill.py [--events 200000] [--plain-events 10000] [--profile]
A separate process serves the chain from memory. Endpoint and database are on the same machine, so
that only the indexer's work is measured. The pipeline fetches, checks, decodes, folds every score
and reliability, and commits everything. The plain script only decodes and inserts (source below).
"""

import argparse
import cProfile
import inspect
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks import plain_indexer  # noqa: E402
from benchmarks.ordinary_traffic import serve_chain  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.indexer.commit import CommittedWindow  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.loop import IngestState, ingest_next_window  # noqa: E402
from oracle.resources import find_shipped_path  # noqa: E402
from oracle.rpc.pool import EndpointPool  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.chain.network_logs import NETWORK  # noqa: E402

MIN_SPEEDUP = 20
# Exit code of a run that succeeded but missed its target.
MISSED_EXIT_CODE = 3
FINALITY_DEPTH = 8


@dataclass
class Run:
    """The result of an indexer's run: its event count, and the seconds of each part."""

    name: str
    events: int = 0
    seconds: float = 0.0
    # CPU time of this process. Other programs affect wall time, but not this.
    cpu_seconds: float = 0.0
    fetch_seconds: float = 0.0
    fold_seconds: float = 0.0
    commit_seconds: float = 0.0
    # Resident memory in MB after each tenth of the blocks.
    memory_mb: list[int] = field(default_factory=list)

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


@contextmanager
def record_time(run: Run) -> Iterator[None]:
    start = time.perf_counter()
    cpu_start = time.process_time()
    yield
    run.seconds = time.perf_counter() - start
    run.cpu_seconds = time.process_time() - cpu_start


def get_resident_mb() -> int:
    """Return this process's resident memory, or its maximum so far if /proc is missing."""
    try:
        resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return resident_pages * resource.getpagesize() // 2**20


def open_chain_source(url: str) -> tuple[ChainSource, EventReader]:
    reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, None)
    source = ChainSource(EndpointPool.from_urls([url], 31337), reader, FINALITY_DEPTH)
    return source, reader


def read_without_storing(url: str) -> Run:
    """Fetch, check and decode everything without storing it."""
    run = Run("qos-oracle, reading only")
    source, event_reader = open_chain_source(url)
    last_block = source.fetch_heads().final.number
    first_block = 0
    with record_time(run):
        while first_block <= last_block:
            window = source.fetch_window(BlockRange(first_block, last_block), with_headers=False)
            run.events += len(event_reader.decode_rows(window.logs, window.calls).events)
            first_block = window.range.last + 1
    source.close()
    return run


def index_with_qos_oracle(url: str, database: Path) -> Run:
    """Index the complete chain with all derived state."""
    run = Run("qos-oracle, all derived state")
    source, reader = open_chain_source(url)
    with Store.open(f"sqlite:///{database}", create=True) as store:
        with store.transaction() as uow:
            genesis = source.fetch_genesis_hash()
            uow.identity.ensure_stored_identity(
                Identity(31337, genesis, {"TaskNetwork": NETWORK}, None, 0)
            )
        folder = EventFolder(CRYNUX, reader)
        ingest = IngestState()
        head_number = source.fetch_heads().latest.number
        next_tenth = 0
        with record_time(run):
            while (step := ingest_next_window(source, store, folder, ingest)) is not None:
                assert isinstance(step, CommittedWindow)
                run.events += step.log_count
                run.fetch_seconds += step.fetch_seconds
                run.fold_seconds += step.fold_seconds
                run.commit_seconds += step.commit_seconds
                if step.cursor.number * 10 >= next_tenth * head_number:
                    run.memory_mb.append(get_resident_mb())
                    next_tenth += 1
        _check_all_events_stored(store, run)
    source.close()
    return run


def _check_all_events_stored(store: Store, run: Run) -> None:
    """Assert that all events are stored; a fast but incomplete run would be worthless."""
    with store.read_transaction() as uow:
        assert uow.logs.count() == run.events
        assert uow.anomalies.count() == 0


def index_with_plain_script(events: int, database: Path) -> Run:
    """Run the plain script on a shorter chain of the same traffic, because it is slow."""
    run = Run("plain web3.py")
    abi = msgspec.json.decode(find_shipped_path("abi/TaskNetwork.json").read_bytes())["abi"]
    with serve_chain(events) as url:
        source, _ = open_chain_source(url)
        last_block = source.fetch_heads().latest.number
        source.close()
        with record_time(run):
            run.events = plain_indexer.index_events(url, NETWORK, abi, database, last_block)
    return run


def build_table(runs: list[Run]) -> Table:
    table = Table(title="Backfill of ordinary traffic into SQLite")
    for title in ("way", "events", "seconds", "events/s", "CPU µs/event", "speedup"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for run in runs:
        table.add_row(
            run.name,
            f"{run.events:,}",
            f"{run.seconds:.2f}",
            f"{run.events_per_second:,.0f}",
            f"{1e6 * run.cpu_seconds / run.events:.1f}",
            f"{run.events_per_second / runs[0].events_per_second:.1f}",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--plain-events", type=int, default=10_000)
    parser.add_argument("--profile", action="store_true", help="print the time by function")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        # The daemon also does this before its first step. It makes the plain script faster, too.
        tune_garbage_collection()
        runs = [
            index_with_plain_script(
                min(arguments.plain_events, arguments.events), Path(folder, "plain.db")
            )
        ]
        with serve_chain(arguments.events) as url, cProfile.Profile() as profile:
            if not arguments.profile:
                profile.disable()
            runs.append(read_without_storing(url))
            runs.append(index_with_qos_oracle(url, Path(folder, "oracle.db")))
    console.print(
        Syntax(inspect.getsource(plain_indexer.index_events), "python", background_color="default")
    )
    console.print(build_table(runs))
    full_run = runs[-1]
    console.print(
        f"waiting for the chain {full_run.fetch_seconds:.2f} s, "
        f"folding {full_run.fold_seconds:.2f} s, writing {full_run.commit_seconds:.2f} s; "
        "resident memory after each tenth of the blocks: "
        f"{', '.join(map(str, full_run.memory_mb))} MB"
    )
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    speedup = full_run.events_per_second / runs[0].events_per_second
    verdict = "reached" if speedup >= MIN_SPEEDUP else "MISSED"
    console.print(f"{speedup:.1f} times as fast as plain web3.py; target {MIN_SPEEDUP}: {verdict}")
    return 0 if speedup >= MIN_SPEEDUP else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
