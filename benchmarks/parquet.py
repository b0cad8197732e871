"""Measure Parquet export from SQLite, and reading it back: microseconds and bytes per event.

Run: .venv/bin/python benchmarks/parquet.py [--events 200000]
The database is a backfill of ordinary traffic; writing is the complete `export --parquet`. Bytes
per event are measured with keys of 32 random bytes, as chains have them, because the traffic's own
keys count up and would be compressed to nearly nothing. The figures are CPU time of one process.
The output ends with what is not measured.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks import backfill, fold  # noqa: E402
from benchmarks.ordinary_traffic import serve_chain  # noqa: E402
from lab.backtest.parquet_events import ParquetEvents  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.domain.events.jsonl import event_to_json, iter_ordered_events  # noqa: E402
from oracle.domain.events.network_events import DomainEvent  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.rules_binding import bind_or_check_rules  # noqa: E402
from oracle.queries.parquet import parquet_export as exporting  # noqa: E402
from oracle.queries.parquet.event_columns import build_event_batch  # noqa: E402
from oracle.queries.parquet.parquet_folder import (  # noqa: E402
    ROWS_PER_GROUP,
    ExportSource,
    ParquetFolder,
)
from oracle.queries.parquet.parquet_tables import ExportTable  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402

# Minimum ratio of the speed of reading Parquet to that of reading JSON lines.
MIN_SPEEDUP = 2
MISSED_EXIT_CODE = 3
BENCHMARK_SOURCE = ExportSource(1, "0x", 0, "benchmark", "none", 0)


@dataclass
class Step:
    name: str
    events: int
    cpu_seconds: float = 0.0
    size: int = 0

    @property
    def microseconds_per_event(self) -> float:
        return 1e6 * self.cpu_seconds / self.events


@contextmanager
def measure_cpu_time(step: Step) -> Iterator[None]:
    start = time.process_time()
    yield
    step.cpu_seconds = time.process_time() - start


def sum_parquet_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def export_all_tables(events: int, folder: Path) -> Step:
    """Export every table from SQLite, as the command does."""
    with serve_chain(events) as url:
        backfill.index_with_qos_oracle(url, folder / "oracle.db")
    with Store.open(f"sqlite:///{folder / 'oracle.db'}") as store:
        _, reader = backfill.open_chain_source("http://127.0.0.1:1")
        with store.transaction() as uow:
            bind_or_check_rules(uow, CRYNUX)
            source = exporting.load_export_source(uow, reader)
        export_folder = ParquetFolder.open_for_append(folder / "out", source, 100_000)
        step = Step("export of all tables from SQLite", 0)
        with measure_cpu_time(step):
            export = exporting.export_blocks(
                export_folder, store, reader, lambda *_: None, include_recent=True
            )
    assert export.rows is not None
    step.events = export.rows[ExportTable.EVENTS]
    step.size = sum_parquet_bytes(folder / "out")
    return step


def create_events(count: int) -> list[DomainEvent]:
    """Return ordinary events with keys that are as random as hashes."""
    traffic = fold.Traffic()
    random_numbers = (
        int.from_bytes(sha256(b"%d" % number).digest()) for number in range(sys.maxsize)
    )
    traffic.task_numbers = random_numbers  # type: ignore[assignment]  # numbers, one after the other
    traffic.nodes = [
        Address("0x" + sha256(node.encode()).hexdigest()[:40]) for node in traffic.nodes
    ]
    return list(islice(traffic.iterate_events(), count))


def write_and_read_events(events: Sequence[DomainEvent], folder: Path) -> list[Step]:
    """Write the events alone as Parquet and as JSON lines, and read both back."""
    expected_count = len(events)
    # Exclude the benchmark's own objects from garbage collection, as the commands do.
    tune_garbage_collection()
    export_folder = ParquetFolder.open_for_append(folder / "events", BENCHMARK_SOURCE, 10**9)
    blocks = BlockRange(0, events[-1].at.block)
    write_step = Step("events to Parquet", expected_count)
    read_step = Step("Parquet to events", expected_count)
    with measure_cpu_time(write_step):
        export_folder.write_table(ExportTable.EVENTS, blocks, iterate_batches(events))
    export_folder.manifest.next = blocks.last + 1
    export_folder.save_manifest()
    write_step.size = read_step.size = sum_parquet_bytes(export_folder.path)
    with measure_cpu_time(read_step):
        event_count = sum(map(len, ParquetEvents.open_export(export_folder.path).read_chunks()))
    json_write_step = Step("events to JSON lines", expected_count)
    json_read_step = Step("JSON lines to events", expected_count)
    with measure_cpu_time(json_write_step):
        json_lines = [event_to_json(event) for event in events]
    json_write_step.size = json_read_step.size = sum(map(len, json_lines)) + expected_count
    with measure_cpu_time(json_read_step):
        line_count = sum(1 for _ in iter_ordered_events(json_lines))
    assert event_count == line_count == expected_count
    return [write_step, read_step, json_write_step, json_read_step]


def iterate_batches(events: Sequence[DomainEvent]) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(events), ROWS_PER_GROUP):
        yield build_event_batch(events[first : first + ROWS_PER_GROUP])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        steps = [export_all_tables(arguments.events, Path(folder))]
        steps += write_and_read_events(create_events(arguments.events), Path(folder))
    table = Table("step", "events", "CPU µs/event", "bytes/event", title="Parquet")
    for step in steps:
        size = f"{step.size / step.events:.1f}"
        table.add_row(step.name, f"{step.events:,}", f"{step.microseconds_per_event:.2f}", size)
    console = Console()
    console.print(table)
    load_average = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    console.print(
        f"pyarrow {pa.__version__}, Python {sys.version.split()[0]}, load {load_average}"
    )
    console.print("not measured: the disk; the keys of the first row count up, unlike hashes")
    _, _, read_step, _, json_read_step = steps
    speedup = json_read_step.microseconds_per_event / read_step.microseconds_per_event
    verdict = "reached" if speedup >= MIN_SPEEDUP else "MISSED"
    console.print(
        f"read {speedup:.1f} times as fast as JSON lines; target {MIN_SPEEDUP}: {verdict}"
    )
    return 0 if speedup >= MIN_SPEEDUP else MISSED_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
