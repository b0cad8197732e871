"""Measure the time that snapshots save when restoring the state at a block or rewinding far.

Run: .venv/bin/python benchmarks/snapshots.py [--events 1000000] [--blocks 25]
The database is a backfill of ordinary traffic; all snapshots are then made, as a daemon does at
the head. The state that `explain --at` and `/v1/nodes/{node}/explain?at=` need is computed at
random blocks of the history; the slowest computation counts. The baseline is a copy of the
database without snapshots, so that the stored logs are folded from the start; it is measured for
the first tenth of the blocks and extrapolated. The rewind goes 1,000 blocks below the undo
journal, or a quarter of a shorter history, once with the snapshots and once without. The figures
are CPU time of one process.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks import backfill  # noqa: E402
from benchmarks.ordinary_traffic import serve_chain  # noqa: E402
from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.chain.source import ChainSource  # noqa: E402
from oracle.indexer.event_archive import EventArchive  # noqa: E402
from oracle.indexer.folded_state import fold_state_up_to  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.rebuild import RebuildOptions  # noqa: E402
from oracle.indexer.reorgs.reorg import rewind_to_block  # noqa: E402
from oracle.indexer.rules_binding import bind_or_check_rules  # noqa: E402
from oracle.indexer.snapshots import make_next_snapshot  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402

TARGET_SECONDS = 0.5
BASELINE_DIVISOR = 10
# Maximum number of blocks by which the rewind goes below the undo journal.
MAX_REWIND_BLOCKS = 1_000


def open_source(store: Store) -> EventArchive:
    """Return the inputs of snapshots of a database; nothing is fetched from an endpoint."""
    _, reader = backfill.open_chain_source("http://127.0.0.1:1")
    return EventArchive(store, reader, CRYNUX)


def measure_fold_seconds(source: EventArchive, block: int) -> float:
    """Return the CPU seconds to compute the state after a block."""
    with source.store.read_transaction() as uow:
        start = time.process_time()
        fold_state_up_to(uow, source.reader, source.rules, block)
        return time.process_time() - start


def measure_plain_seconds(database: Path, last_block: int) -> float:
    """Return the CPU seconds without snapshots, extrapolated from a tenth of the blocks."""
    with Store.open(f"sqlite:///{database}") as store:
        return BASELINE_DIVISOR * measure_fold_seconds(
            open_source(store), last_block // BASELINE_DIVISOR
        )


def choose_rewind_depth(database: Path) -> int:
    """Return how many blocks below the lowest block of the undo journal the rewind goes."""
    with Store.open(f"sqlite:///{database}") as store, store.read_transaction() as uow:
        lowest_reachable = uow.undo.find_lowest_reachable_block()
    assert lowest_reachable is not None
    return min(MAX_REWIND_BLOCKS, lowest_reachable // 4)


def measure_rewind(chain: ChainSource, database: Path, blocks: int) -> tuple[float, str, bool]:
    """Measure a rewind of a database to `blocks` blocks below its undo journal.

    Returns the CPU seconds, the digest of the new state, and whether a snapshot was used.
    """
    with Store.open(f"sqlite:///{database}") as store:
        source = open_source(store)
        with store.read_transaction() as uow:
            lowest_reachable = uow.undo.find_lowest_reachable_block()
        assert lowest_reachable is not None
        target_block = lowest_reachable - blocks
        folder = EventFolder(CRYNUX, source.reader)
        start = time.process_time()
        rewind_result = rewind_to_block(chain, store, folder, target_block, RebuildOptions())
        rewind_seconds = time.process_time() - start
        with store.read_transaction() as uow:
            digest = uow.projections.compute_digest()
    return rewind_seconds, digest, rewind_result.snapshot is not None


def measure_state(database: Path, plain_database: Path, blocks: int) -> Outcome:
    """Make all snapshots, and measure the state at `blocks` random blocks."""
    with Store.open(f"sqlite:///{database}") as store:
        with store.read_transaction() as uow:
            cursor = uow.cursor.get()
        assert cursor is not None
        source = open_source(store)
        start = time.process_time()
        built_count = 0
        while make_next_snapshot(source, RebuildOptions()) is not None:
            built_count += 1
        making_seconds = time.process_time() - start
        random_numbers = random.Random(1)  # noqa: S311  blocks to be drawn again
        random_blocks = [random_numbers.randint(1, cursor.number) for _ in range(blocks)]
        max_fold_seconds = max(
            measure_fold_seconds(source, block) for block in [*random_blocks, cursor.number]
        )
        with store.read_transaction() as uow:
            count, total_bytes = uow.snapshots.count_snapshots_and_bytes()
            logs = uow.logs.count()
    print(
        f"{logs:,} logs: made {built_count} snapshots in {making_seconds:.1f} s CPU, "
        f"kept {count}, {total_bytes / 2**20:.1f} MiB"
    )
    return Outcome(
        title=f"state at any block of {logs:,} events, slowest of {blocks}",
        value=max_fold_seconds,
        unit="s CPU",
        target=TARGET_SECONDS,
        baseline=measure_plain_seconds(plain_database, cursor.number),
        baseline_name="a fold from the start",
    )


def compare_rewinds(url: str, database: Path, plain_database: Path) -> Outcome:
    """Measure a rewind below the undo journal, with snapshots and without."""
    chain, _ = backfill.open_chain_source(url)
    rewind_blocks = choose_rewind_depth(database)
    snapshot_seconds, digest, used_snapshot = measure_rewind(chain, database, rewind_blocks)
    refold_seconds, plain_digest, plain_used_snapshot = measure_rewind(
        chain, plain_database, rewind_blocks
    )
    chain.close()
    assert digest == plain_digest
    assert used_snapshot
    assert not plain_used_snapshot
    return Outcome(
        title=f"rewind to {rewind_blocks:,} blocks below the undo journal",
        value=snapshot_seconds,
        unit="s CPU",
        target=None,
        baseline=refold_seconds,
        baseline_name="a fold from the start",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--blocks", type=int, default=25)
    arguments = parser.parse_args()
    begin_benchmark("reading a node's own history, which needs no fold; HTTP")
    with tempfile.TemporaryDirectory(prefix="qos-oracle-snapshots.") as folder:
        database = Path(folder) / "oracle.db"
        plain_database = Path(folder) / "plain.db"
        with serve_chain(arguments.events) as url:
            backfill.index_with_qos_oracle(url, database)
            with Store.open(f"sqlite:///{database}") as store, store.transaction() as uow:
                bind_or_check_rules(uow, CRYNUX)
            shutil.copyfile(database, plain_database)
            outcomes = [
                measure_state(database, plain_database, arguments.blocks),
                compare_rewinds(url, database, plain_database),
            ]
    return finish_benchmark(outcomes)


if __name__ == "__main__":
    sys.exit(main())
