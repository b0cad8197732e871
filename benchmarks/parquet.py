"""Measure a Parquet export: microseconds and bytes per event, written from SQLite and read back.

Run: .venv/bin/python benchmarks/parquet.py [--events 200000]
The database is a backfill of ordinary traffic; writing is the complete `export --parquet`. Bytes
per event are measured with keys of 32 random bytes, as chains have them, because the traffic's own
keys count up and would be compressed to nearly nothing. The figures are CPU time of one process.
What they leave out is printed at the end.
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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks import backfill, fold  # noqa: E402
from benchmarks.ordinary_traffic import served  # noqa: E402
from lab.backtest.parquet_events import ParquetEvents  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.domain.blocks import BlockRange  # noqa: E402
from oracle.domain.events.jsonl import event_to_json, iter_ordered_events  # noqa: E402
from oracle.domain.events.network_events import DomainEvent  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.rules_binding import bind_or_check_rules  # noqa: E402
from oracle.queries.parquet import parquet_export as exporting  # noqa: E402
from oracle.queries.parquet.event_columns import build_batch  # noqa: E402
from oracle.queries.parquet.parquet_folder import (  # noqa: E402
    ROWS_PER_GROUP,
    ExportSource,
    ParquetFolder,
)
from oracle.queries.parquet.parquet_tables import ExportTable  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402

# The minimum speed of reading Parquet, as a multiple of the speed of reading JSON lines.
TIMES_LINES = 2
MISSED = 3
NOBODY = ExportSource(1, "0x", 0, "benchmark", "none", 0)


@dataclass
class Step:
    name: str
    events: int
    cpu_seconds: float = 0.0
    size: int = 0

    @property
    def micros(self) -> float:
        return 1e6 * self.cpu_seconds / self.events


@contextmanager
def measured(step: Step) -> Iterator[None]:
    began = time.process_time()
    yield
    step.cpu_seconds = time.process_time() - began


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def whole(events: int, folder: Path) -> Step:
    """Export every table from SQLite, as the command does."""
    with served(events) as url:
        backfill.index_with_product(url, folder / "ours.db")
    with Store.open(f"sqlite:///{folder / 'ours.db'}") as store:
        _, reader = backfill.opened("http://127.0.0.1:1")
        with store.transaction() as uow:
            bind_or_check_rules(uow, CRYNUX)
            source = exporting.load_export_source(uow, reader)
        out = ParquetFolder.open_for_append(folder / "out", source, 100_000)
        step = Step("export of all tables from SQLite", 0)
        with measured(step):
            done = exporting.export_blocks(
                out, store, reader, lambda *_: None, include_recent=True
            )
    step.events, step.size = done.rows[ExportTable.EVENTS], size_of(folder / "out")
    return step


def traffic(count: int) -> list[DomainEvent]:
    """Return ordinary events with keys that are as random as hashes."""
    plain = fold.Traffic()
    hashed = (int.from_bytes(sha256(b"%d" % n).digest()) for n in range(sys.maxsize))
    plain.numbers = hashed  # type: ignore[assignment]  # numbers, one after the other
    plain.nodes = [Address("0x" + sha256(node.encode()).hexdigest()[:40]) for node in plain.nodes]
    return list(islice(plain.events(), count))


def columns(events: Sequence[DomainEvent], folder: Path) -> list[Step]:
    """Write the events alone as Parquet and as JSON lines, and read both back."""
    count = len(events)
    # Keep the benchmark's own objects out of the garbage collector's work, as the commands do.
    freeze_gc()
    out = ParquetFolder.open_for_append(folder / "events", NOBODY, 10**9)
    blocks = BlockRange(0, events[-1].at.block)
    writing, reading = Step("events to Parquet", count), Step("Parquet to events", count)
    with measured(writing):
        out.write_table(ExportTable.EVENTS, blocks, batches(events))
    out.manifest.next = blocks.last + 1
    out.save_manifest()
    writing.size = reading.size = size_of(out.path)
    with measured(reading):
        read = sum(map(len, ParquetEvents.open_export(out.path).read_chunks()))
    lines, parsed = Step("events to JSON lines", count), Step("JSON lines to events", count)
    with measured(lines):
        text = [event_to_json(event) for event in events]
    lines.size = parsed.size = sum(map(len, text)) + count
    with measured(parsed):
        again = sum(1 for _ in iter_ordered_events(text))
    assert read == again == count
    return [writing, reading, lines, parsed]


def batches(events: Sequence[DomainEvent]) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(events), ROWS_PER_GROUP):
        yield build_batch(events[first : first + ROWS_PER_GROUP])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        steps = [whole(arguments.events, Path(folder))]
        steps += columns(traffic(arguments.events), Path(folder))
    table = Table("step", "events", "CPU µs/event", "bytes/event", title="Parquet")
    for step in steps:
        size = f"{step.size / step.events:.1f}"
        table.add_row(step.name, f"{step.events:,}", f"{step.micros:.2f}", size)
    out = Console()
    out.print(table)
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    out.print(f"pyarrow {pa.__version__}, Python {sys.version.split()[0]}, load {load}")
    out.print("not measured: the disk; the keys of the first row count up, unlike hashes")
    _, _, reading, _, parsed = steps
    ratio = parsed.micros / reading.micros
    verdict = "reached" if ratio >= TIMES_LINES else "MISSED"
    out.print(f"read {ratio:.1f} times as fast as JSON lines; target {TIMES_LINES}: {verdict}")
    return 0 if ratio >= TIMES_LINES else MISSED


if __name__ == "__main__":
    sys.exit(main())
