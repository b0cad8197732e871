"""Measure a tick of kickout planning while very many nodes are due, as in a mass outage.

Run: .venv/bin/python benchmarks/kickout_planning.py [--due 4000] [--accused 1000] [--ticks 20]
All due nodes are in the last round, and the accused nodes wait for the end of their veto time. A
tick loads the kickout case of each node with a proof of its leaf, as the daemon does. The baseline
loads the cases one by one, without the cache of leaves; it is measured for a few nodes and
extrapolated. The first tick after a start fills the cache and is printed separately.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.ids import Address  # noqa: E402
from oracle.indexer.round_leaves import LeafCache  # noqa: E402
from oracle.kickouts.kickout_cases import load_kickout_cases  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from tests.support.due_nodes import (  # noqa: E402
    POLICY,
    SETTINGS,
    build_accused_kickout,
    build_leaves,
    store_kicks,
    store_nodes,
    store_round,
)

TARGET_DUE, TARGET_MS = 4000, 50
BASELINE_NODES = 20


def measure_tick_ms(
    store: Store, cache: LeafCache, nodes: Collection[Address] | None = None
) -> float:
    """Return the CPU milliseconds to load the kickout cases of `nodes`, or of all nodes."""
    start = time.process_time()
    with store.read_transaction() as uow:
        cases = load_kickout_cases(uow, cache, POLICY, SETTINGS, nodes, with_hold_reasons=False)
    assert all(case.proof is not None for case in cases)
    return 1000 * (time.process_time() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--due", type=int, default=TARGET_DUE)
    parser.add_argument("--accused", type=int, default=1000)
    parser.add_argument("--ticks", type=int, default=20)
    arguments = parser.parse_args()
    begin_benchmark("calls on chain, reasons of held kickouts, verification of blocks")
    with (
        tempfile.TemporaryDirectory(prefix="qos-oracle-kickouts.") as folder_name,
        Store.open(f"sqlite:///{folder_name}/oracle.sqlite", create=True) as store,
    ):
        nodes = store_nodes(store, 2 * arguments.due, arguments.due)
        due_nodes = nodes[: arguments.due]
        store_round(store, 1, build_leaves(nodes, set(due_nodes)))
        store_kicks(store, *map(build_accused_kickout, due_nodes[: arguments.accused]))
        cache = LeafCache()
        tune_garbage_collection()
        first_tick_ms = measure_tick_ms(store, cache)
        tick_ms = median(measure_tick_ms(store, cache) for _ in range(arguments.ticks))
        sampled_nodes = due_nodes[:BASELINE_NODES]
        baseline_ms = sum(measure_tick_ms(store, LeafCache(), [node]) for node in sampled_nodes)
    print(f"first tick after a start: {first_tick_ms:.0f} ms CPU")
    return finish_benchmark(
        [
            Outcome(
                title=f"kickout planning, {arguments.due:,} due nodes, "
                f"{arguments.accused:,} of them accused",
                value=tick_ms,
                unit="ms CPU",
                target=TARGET_MS,
                baseline=baseline_ms * arguments.due / len(sampled_nodes),
                baseline_name="loading the case of each node on its own",
                target_size="" if arguments.due >= TARGET_DUE else f"{TARGET_DUE:,} due nodes",
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
