"""Measure folding all stored rows again: `resync rebuild`, and a backtest of an export.

Run: .venv/bin/python benchmarks/rebuild.py [--events 200000]
The database is a backfill of ordinary traffic. A rebuild reads and decodes the logs, folds them,
writes every projection and compares digests, in one transaction. The backtest reads the same
events from Parquet and folds them. The figures are CPU time of one process. There is no target;
the figures are the reference for later versions.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks import backfill  # noqa: E402
from benchmarks.ordinary_traffic import serve_chain  # noqa: E402
from benchmarks.parquet import Step, measure_cpu_time  # noqa: E402
from lab.backtest.backtest import BacktestPlan, compare_systems_on_history  # noqa: E402
from lab.commands.backtest_files import open_exported_history  # noqa: E402
from lab.commands.compared_systems import build_columns_from_options  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.rebuild import RebuildOptions, rebuild_state  # noqa: E402
from oracle.indexer.rules_binding import bind_or_check_rules  # noqa: E402
from oracle.queries.parquet import parquet_export as exporting  # noqa: E402
from oracle.queries.parquet.parquet_folder import ParquetFolder  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402


def measure_steps(events: int, folder: Path) -> list[Step]:
    database = folder / "oracle.db"
    with serve_chain(events) as url:
        backfill.index_with_qos_oracle(url, database)
    _, reader = backfill.open_chain_source("http://127.0.0.1:1")
    with Store.open(f"sqlite:///{database}") as store:
        with store.transaction() as uow:
            bind_or_check_rules(uow, CRYNUX)
        rebuild_step = Step("rebuild from SQLite", events)
        with measure_cpu_time(rebuild_step):
            rebuild_result = rebuild_state(store, EventFolder(CRYNUX, reader), RebuildOptions())
        assert rebuild_result.is_same
        rebuild_step.events = rebuild_result.log_count
        rebuild_step.size = database.stat().st_size
        with store.read_transaction() as uow:
            export_folder = ParquetFolder.open_for_append(
                folder / "out", exporting.load_export_source(uow, reader), 100_000
            )
        exporting.export_blocks(export_folder, store, reader, lambda *_: None)
    history = open_exported_history(folder / "out", 0, None)
    columns, _ = build_columns_from_options(["crynux"], [], None)
    backtest_step = Step("backtest of Parquet, one system, no draws", history.folded_count)
    with measure_cpu_time(backtest_step):
        compare_systems_on_history(history, columns, BacktestPlan(max_starts=0))
    return [rebuild_step, backtest_step]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    with tempfile.TemporaryDirectory() as folder:
        steps = measure_steps(parser.parse_args().events, Path(folder))
    table = Table("step", "events", "CPU µs/event", title="Folding stored rows again")
    for step in steps:
        table.add_row(step.name, f"{step.events:,}", f"{step.microseconds_per_event:.2f}")
    console = Console()
    console.print(table)
    rebuild_step = steps[0]
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    console.print(
        f"database: {rebuild_step.size / rebuild_step.events:.0f} bytes per event; load {load}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
