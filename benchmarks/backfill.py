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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks import plain_way  # noqa: E402
from benchmarks.ordinary_traffic import served  # noqa: E402
from oracle.chain.profiles.event_reader import EventReader  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
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

TARGET = 20
# The exit code of a run that succeeded but missed its target.
MISSED = 3
FINALITY_DEPTH = 8


@dataclass
class Run:
    """The result of one indexer: the number of events, and the times of its parts in seconds."""

    name: str
    events: int = 0
    seconds: float = 0.0
    # CPU time of this process, which other programs do not affect.
    cpu_seconds: float = 0.0
    fetch: float = 0.0
    fold: float = 0.0
    commit: float = 0.0
    # Resident memory in MB after each tenth of the blocks.
    memory: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.events / self.seconds


@contextmanager
def timed(run: Run) -> Iterator[None]:
    began, worked = time.perf_counter(), time.process_time()
    yield
    run.seconds = time.perf_counter() - began
    run.cpu_seconds = time.process_time() - worked


def resident_mb() -> int:
    """Return the resident memory of this process; without /proc, return its maximum so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return pages * resource.getpagesize() // 2**20


def opened(url: str) -> tuple[ChainSource, EventReader]:
    reader = EventReader.from_profile("reference", {"TaskNetwork": NETWORK}, None)
    source = ChainSource(EndpointPool.from_urls([url], 31337), reader, FINALITY_DEPTH)
    return source, reader


def read_only(url: str) -> Run:
    """Fetch, check and decode everything without storing it."""
    run = Run("qos-oracle, reading only")
    source, reader = opened(url)
    last = source.fetch_heads().final.number
    first = 0
    with timed(run):
        while first <= last:
            window = source.fetch_window(BlockRange(first, last), with_headers=False)
            run.events += len(reader.decode_rows(window.logs, window.calls).events)
            first = window.range.last + 1
    source.close()
    return run


def index_with_product(url: str, database: Path) -> Run:
    """Index the complete chain with all derived state."""
    run = Run("qos-oracle, all derived state")
    source, reader = opened(url)
    with Store.open(f"sqlite:///{database}", create=True) as store:
        with store.transaction() as uow:
            genesis = source.fetch_genesis_hash()
            uow.identity.store_or_check(
                Identity(31337, genesis, {"TaskNetwork": NETWORK}, None, 0)
            )
        folder, ingest = EventFolder(CRYNUX, reader), IngestState()
        head, tenth = source.fetch_heads().latest.number, 0
        with timed(run):
            while (step := ingest_next_window(source, store, folder, ingest)) is not None:
                assert isinstance(step, CommittedWindow)
                run.events += step.log_count
                run.fetch += step.fetch_seconds
                run.fold += step.fold_seconds
                run.commit += step.commit_seconds
                if step.cursor.number * 10 >= tenth * head:
                    run.memory.append(resident_mb())
                    tenth += 1
        _whole(store, run)
    source.close()
    return run


def _whole(store: Store, run: Run) -> None:
    """Assert that all events are stored; a fast but incomplete run would be worthless."""
    with store.read_transaction() as uow:
        assert uow.logs.count() == run.events
        assert uow.anomalies.count() == 0


def index_with_plain_script(events: int, database: Path) -> Run:
    """Run the plain script on a shorter chain of the same traffic, because it is slow."""
    run = Run("plain web3.py")
    abi = msgspec.json.decode(find_shipped_path("abi/TaskNetwork.json").read_bytes())["abi"]
    with served(events) as url:
        source, _ = opened(url)
        last = source.fetch_heads().latest.number
        source.close()
        with timed(run):
            run.events = plain_way.index(url, NETWORK, abi, database, last)
    return run


def shown(runs: list[Run]) -> Table:
    table = Table(title="Backfill of ordinary traffic into SQLite")
    for title in ("way", "events", "seconds", "events/s", "CPU µs/event", "speedup"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for run in runs:
        table.add_row(
            run.name,
            f"{run.events:,}",
            f"{run.seconds:.2f}",
            f"{run.rate:,.0f}",
            f"{1e6 * run.cpu_seconds / run.events:.1f}",
            f"{run.rate / runs[0].rate:.1f}",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--plain-events", type=int, default=10_000)
    parser.add_argument("--profile", action="store_true", help="print the time by function")
    arguments = parser.parse_args()
    out = Console()
    with tempfile.TemporaryDirectory() as folder:
        # The daemon does this before its first step; the plain script benefits, too.
        freeze_gc()
        runs = [
            index_with_plain_script(
                min(arguments.plain_events, arguments.events), Path(folder, "plain.db")
            )
        ]
        with served(arguments.events) as url, cProfile.Profile() as profile:
            if not arguments.profile:
                profile.disable()
            runs.append(read_only(url))
            runs.append(index_with_product(url, Path(folder, "ours.db")))
    out.print(Syntax(inspect.getsource(plain_way.index), "python", background_color="default"))
    out.print(shown(runs))
    full_run = runs[-1]
    out.print(
        f"waiting for the chain {full_run.fetch:.2f} s, folding {full_run.fold:.2f} s, "
        f"writing {full_run.commit:.2f} s; resident memory after each tenth of the blocks: "
        f"{', '.join(map(str, full_run.memory))} MB"
    )
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    ratio = full_run.rate / runs[0].rate
    verdict = "reached" if ratio >= TARGET else "MISSED"
    out.print(f"{ratio:.1f} times as fast as plain web3.py; target {TARGET}: {verdict}")
    return 0 if ratio >= TARGET else MISSED


if __name__ == "__main__":
    sys.exit(main())
