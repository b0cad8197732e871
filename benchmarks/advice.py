"""Measure the advice for one node among many, compared with folding its history again.

Run: .venv/bin/python benchmarks/advice.py [--nodes 10000]
Groups of three run tasks until a few nodes have full pools; the advice for each of these nodes is
computed once. The baseline folds the events of the groups again, as a computation of hypothetical
scores without stored groups would.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.domain.fixed_point import UNIT  # noqa: E402
from oracle.domain.fold.fold import Fold  # noqa: E402
from oracle.domain.state import Node  # noqa: E402
from oracle.queries.advice.advice_record import load_advice_record  # noqa: E402
from oracle.queries.advice.node_advice import build_node_advice  # noqa: E402
from oracle.queries.api.draw_weights import find_draw_weighting  # noqa: E402
from oracle.queries.api.gpu_table import MAX_GROUPS  # noqa: E402
from oracle.queries.api.recent_draws import MAX_DRAWS  # noqa: E402
from oracle.queries.api.source import ApiSnapshot, open_snapshot  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.api import IndexedHistory, make_block  # noqa: E402
from tests.support.draws import create_draw  # noqa: E402
from tests.support.histories import History, make_node_address  # noqa: E402
from tests.unit.queries.advice.records import race  # noqa: E402

RACING_NODES = 30
ROUNDS = 5
TARGET_MILLISECONDS = 10.0


def create_race_history(node_count: int) -> History:
    """Return a history in which all nodes join and the first `RACING_NODES` fill their pools."""
    random = Random(1)  # noqa: S311  repeatable, no secret
    node_names = [f"n{number}" for number in range(node_count)]
    history = History()
    for gpu_name in ("RTX 4090", "RTX 3060"):
        gpu_names = node_names[gpu_name == "RTX 3060" :: 2]
        history.joins(*gpu_names, stake=400 * 10**18, gpu_name=gpu_name, gpu_vram=24)
    for group_number in range(RACING_NODES * CRYNUX.pool_size // 2):
        racing_nodes = random.sample(node_names[:RACING_NODES], 3)
        seconds = [random.randint(5, 60) for _ in racing_nodes]
        if group_number % 20 == 0:
            seconds[0] = 0
        race(
            history,
            f"g{group_number}",
            {
                racer: answer_seconds or None
                for racer, answer_seconds in zip(racing_nodes, seconds, strict=True)
            },
        )
    return history


def store_draws(indexed: IndexedHistory) -> None:
    """Store a draw for each of the newest tasks of the history."""
    with indexed.store.transaction() as uow:
        for started_task in list(indexed.fold.ledger.tasks.values())[-MAX_DRAWS:]:
            if started_task.started_time is None or started_task.node is None:
                continue
            seed_block = make_block(started_task.seen_at, started_task.started_time)
            draw = create_draw(started_task.key, seed_block, started_task.node)
            uow.draws.add(replace(draw, total_weight=5_000 * UNIT, voided_block=seed_block.number))


def measure_milliseconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1e3


def load_and_build_advice(snapshot: ApiSnapshot, advised_node: Node) -> None:
    build_node_advice(snapshot, load_advice_record(snapshot, advised_node))


def measure_advice(snapshot: ApiSnapshot) -> list[float]:
    """Return the CPU milliseconds of each node's advice, for nodes with a full pool."""
    nodes = [
        snapshot.get_ranking().nodes[make_node_address(f"n{number}")]
        for number in range(RACING_NODES)
    ]
    return [
        measure_milliseconds(partial(load_and_build_advice, snapshot, advised_node))
        for advised_node in nodes
        if len(advised_node.pool) == CRYNUX.pool_size
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    node_count = parser.parse_args().nodes
    history = create_race_history(node_count)
    with tempfile.TemporaryDirectory(prefix="qos-bench-") as folder:
        store = Store.open(f"sqlite:///{folder}/oracle.sqlite", create=True)
        indexed = IndexedHistory(store).whole(history)
        store_draws(indexed)
        begin_benchmark("HTTP, JSON and the page; the ranking, which is kept for a block")
        # Freeze the rows of the fold, which a reader does not have. Otherwise, the garbage
        # collector would traverse them during the measurement.
        gc.collect()
        gc.freeze()
        with open_snapshot(indexed.source) as snapshot:
            weighting = find_draw_weighting(CRYNUX, None)
            assert weighting is not None
            snapshot.get_ranking().count_members_with_qos(0)
            weights_milliseconds = measure_milliseconds(
                lambda: snapshot.get_ranking().get_draw_weights(weighting)
            )
            draws_milliseconds = measure_milliseconds(snapshot.get_recent_draws)
            gpus_milliseconds = measure_milliseconds(snapshot.get_gpu_table)
            advice_milliseconds = min(
                (measure_advice(snapshot) for _ in range(ROUNDS)), key=median
            )
        store.close()
    race_events = history.events[node_count:]
    fold_milliseconds = measure_milliseconds(lambda: Fold(CRYNUX).fold_events(race_events))
    baseline_name = f"a fold of {len(race_events):,} events"
    target_nodes = "10,000 nodes"
    target_size = "" if node_count == 10_000 else target_nodes
    print(f"{len(advice_milliseconds)} nodes with a full pool, {node_count:,} nodes in all")
    return finish_benchmark(
        [
            Outcome(
                "advice: CPU time of one node's advice",
                median(advice_milliseconds),
                "ms",
                TARGET_MILLISECONDS,
                fold_milliseconds,
                baseline_name,
                target_size,
            ),
            Outcome(
                "advice: CPU time of the sum of all weights, once a block",
                weights_milliseconds,
                "ms",
                None,
                fold_milliseconds,
                baseline_name,
            ),
            Outcome(
                f"advice: CPU time of loading {MAX_GROUPS:,} groups of GPUs, once a block",
                gpus_milliseconds,
                "ms",
                None,
                fold_milliseconds,
                baseline_name,
            ),
            Outcome(
                f"advice: CPU time of loading {MAX_DRAWS} draws, once",
                draws_milliseconds,
                "ms",
                None,
                fold_milliseconds,
                baseline_name,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
