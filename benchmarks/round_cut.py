"""Measure the cut of a report, the statistics and a page of nodes in a network of a million nodes.

Run: .venv/bin/python benchmarks/round_cut.py [--nodes 1000000]
One node in a hundred has changed since the last cut, whose root became a round. A cut includes the
leaves that it stores. The baseline reads every node again, as the first cut after a start does.
Another cut follows, for which half of the nodes changed. The page is the first page of
`/v1/nodes`, from a server that has served it before: once after the change of one node in a
hundred, and once at the next block, which changed a hundred nodes. One process uses SQLite.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from benchmarks.selection import NOW, Case, Network  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.domain.blocks import BlockRef  # noqa: E402
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Hash  # noqa: E402
from oracle.domain.reports.contract_state import ContractState  # noqa: E402
from oracle.domain.reports.kickout_review import KickoutPolicy  # noqa: E402
from oracle.domain.reports.report import ReportSettings  # noqa: E402
from oracle.domain.state import Node  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.queries import stats  # noqa: E402
from oracle.queries.api.node_list import NodeListQuery, list_nodes as page_of  # noqa: E402
from oracle.queries.api.node_order import NodeRankingCache  # noqa: E402
from oracle.queries.api.source import ApiSource, open_snapshot  # noqa: E402
from oracle.queries.explain import EventArchive  # noqa: E402
from oracle.queries.population import load_all_nodes  # noqa: E402
from oracle.queries.stats import StatisticsCollector  # noqa: E402
from oracle.queries.status import compute_index_statistics  # noqa: E402
from oracle.reporting.report_cutter import ReportCutter  # noqa: E402
from oracle.rpc.background import BackgroundCall  # noqa: E402
from oracle.signing.typed_data import Domain  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.rounds import acceptance, contract_state  # noqa: E402
from tests.support.scripted_reader import ScriptedReader  # noqa: E402

TARGET_NODES = 1_000_000
ONE_IN = 100
CHANGED_IN_A_BLOCK = 100
AT_ONCE = 10_000
BLOCK_SECONDS = 12
TURNS = 10
DOMAIN = Domain(31337, ZERO_ADDRESS)
# Every block ends a period.
SETTINGS = ReportSettings(period_seconds=BLOCK_SECONDS)


def block(number: int) -> BlockRef:
    block_hash = Hash(f"0x{number:064x}")
    return BlockRef(number, block_hash, block_hash, NOW + BLOCK_SECONDS * number)


def change(store: Store, changed: list[Node], number: int) -> None:
    """Change a score of each of these nodes in a block, and move the cursor to that block."""
    for node in changed:
        node.pool = node.pool[1:] + bytes((10 - node.pool[0],))
        node.changed_at = number
    with store.transaction() as uow:
        uow.nodes.save(changed)
        cursor = uow.cursor.get()
        assert cursor is not None
        uow.cursor.move_to(block(number), None, cursor.epoch)
        uow.blocks.save([block(number)])


def filled(store: Store, nodes: list[Node]) -> None:
    for at in range(0, len(nodes), AT_ONCE):
        with store.transaction() as uow:
            uow.nodes.save(nodes[at : at + AT_ONCE])
    with store.transaction() as uow:
        uow.identity.store_or_check(Identity(DOMAIN.chain_id, ZERO_HASH, {}, DOMAIN.contract, 0))
        uow.blocks.save([block(1)])
        uow.cursor.move_to(block(1), None, 0)


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process for a function."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def turn_seconds(store: Store) -> float:
    """Return the longest of ten delays that collecting statistics causes in the loop, in seconds.

    The first collection after a start takes longer, because there are no earlier statistics.
    """
    folder, waits = EventFolder(CRYNUX, ScriptedReader()), BackgroundCall[Any](stats._WAIT_SECONDS)  # noqa: SLF001
    counting, took = StatisticsCollector(store, folder, time.monotonic, waits), []
    for _ in range(TURNS):
        begun = time.perf_counter()
        counting.collect_statistics(None)
        took.append(time.perf_counter() - begun)
    return max(took)


def page(source: ApiSource) -> None:
    with open_snapshot(source) as snapshot:
        page_of(snapshot, NodeListQuery())


def measured(store: Store, nodes: list[Node]) -> list[tuple[str, str, float, float | None, float]]:
    """Return the name, unit, figure, target and baseline of each measurement."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=200)
    filled(store, nodes)

    def cut(number: int, contract: ContractState) -> None:
        with store.transaction() as uow:
            assert cutter.on_block(uow, contract, block(number), final_number=0) is not None

    archive = EventArchive(store, ScriptedReader(), CRYNUX)
    source = ApiSource(
        archive,
        NodeRankingCache(CRYNUX),
        lambda: None,
        lambda: NOW,
        lambda _held: None,
        rules_id="{}",
    )
    anew = seconds(lambda: cut(1, contract_state()))
    with store.read_transaction() as uow:
        (stored,) = uow.reports.list_latest(1)
    contract = contract_state(acceptance(stored.report, 2, block(2).time))
    page(source)
    change(store, nodes[::ONE_IN], 2)
    # Keep the benchmark's own objects out of the garbage collector's work.
    freeze_gc()
    again = seconds(lambda: cut(2, contract))
    census = seconds(lambda: compute_index_statistics(store, KickoutPolicy(CRYNUX), None))
    in_the_loop = turn_seconds(store)
    after_many = seconds(lambda: page(source))
    change(store, nodes[:CHANGED_IN_A_BLOCK], 3)
    first = seconds(lambda: page(source))
    listed = seconds(lambda: load_all_nodes(store, CRYNUX, {}, NOW))
    change(store, nodes[::2], 4)
    half = seconds(lambda: cut(4, contract))
    return [
        ("round cut", "s CPU", again, 1.0, anew),
        ("round cut after half of the nodes changed", "s CPU", half, None, anew),
        ("statistics, delay of the loop", "s", in_the_loop, 0.1, census),
        ("first page of nodes", "s CPU", first, 0.2, listed),
        ("first page after one node in a hundred changed", "s CPU", after_many, None, listed),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=TARGET_NODES)
    count = parser.parse_args().nodes
    begin("legacy rules, PostgreSQL, signing, sending, printing, full pools, recovering nodes")
    network = Network(Case("cut", count, healing=0.0, scores=5))
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(f"sqlite:///{folder}/cut.sqlite", create=True) as store,
    ):
        figures = measured(store, list(network.nodes.values()))
    at = "" if count == TARGET_NODES else f"{TARGET_NODES:,} nodes"
    source = "reading every node"
    return end(
        [
            Outcome(f"{name}, {count:,} nodes", value, unit, target, obvious, source, at)
            for name, unit, value, target, obvious in figures
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
