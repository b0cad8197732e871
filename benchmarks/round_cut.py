"""Measure report cuts, statistics and node pages in a network of a million nodes.

Run: .venv/bin/python benchmarks/round_cut.py [--nodes 1000000]
A root is computed from the nodes that changed since the last cut: one in a hundred, and half of
them. A cut also compares the root with the last round, and stores the changed leaves. The baseline
of both is a root of all nodes by plain Python: an object for each node, and a hash at a time. The
first root of a database, and the first one after a refold, reads all nodes. After a start, a root
reads the leaves of the last cut, and the nodes that changed since then: one in a hundred. The
memory is the maximum that the process needs for the first root, or for the root after half of the
nodes changed, in addition to its memory before the first root, and the same for the first cut and
for a root after a start; it is measured on Linux only. The delay is the longest delay of another
thread, such as that of the lease, while one of these two roots is computed.

The daemon computes the leaves of changed nodes in a thread between cuts. The last cut and the last
root are measured after this thread has ended; the work of the thread and the delay that it causes
have rows of their own. A proof is that of a node in the last cut: with nothing in memory, as after
a restart, and with the piece of the node in memory.

The page is the first page of `/v1/nodes`, from a server that has served it before: once after the
change of one node in a hundred, and once at the next block, which changed a hundred nodes. One
process uses SQLite.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from benchmarks.selection import NOW, Case, Network  # noqa: E402
from oracle.chain.proofs.keccak import keccak  # noqa: E402
from oracle.daemon.startup import tune_garbage_collection  # noqa: E402
from oracle.domain.blocks import BlockRef  # noqa: E402
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Hash  # noqa: E402
from oracle.domain.reports.contract_state import ContractState  # noqa: E402
from oracle.domain.reports.kickout_review import KickoutReview  # noqa: E402
from oracle.domain.reports.lanes import pack_lane_words  # noqa: E402
from oracle.domain.reports.report import ReportSettings  # noqa: E402
from oracle.domain.roots.leaves import (  # noqa: E402
    RoundSummary,
    encode_word_leaf,
    hash_leaf,
)
from oracle.domain.roots.merkle_tree import hash_pair  # noqa: E402
from oracle.domain.roots.node_leaves import ScoringContext, iter_linked_leaves  # noqa: E402
from oracle.domain.state import Node  # noqa: E402
from oracle.indexer.event_archive import EventArchive  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.round_leaves import (  # noqa: E402
    LeafCache,
    load_pieced_round_of_report,
    prove_address_from_pieces,
)
from oracle.queries import stats  # noqa: E402
from oracle.queries.api.node_list import NodeListQuery, list_nodes  # noqa: E402
from oracle.queries.api.node_order import NodeRankingCache  # noqa: E402
from oracle.queries.api.source import ApiSource, open_snapshot  # noqa: E402
from oracle.queries.population import load_all_nodes  # noqa: E402
from oracle.queries.stats import StatisticsCollector  # noqa: E402
from oracle.reporting.report_cutter import ReportCutter  # noqa: E402
from oracle.rpc.background import BackgroundCall  # noqa: E402
from oracle.signing.typed_data import Domain  # noqa: E402
from oracle.store.database import Store  # noqa: E402
from oracle.store.identity import Identity  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from tests.support.rounds import build_acceptance, build_contract_state  # noqa: E402
from tests.support.scripted_reader import ScriptedReader  # noqa: E402

TARGET_NODES = 1_000_000
HALF_CHANGED = "root after half of the nodes changed"
# Maximum CPU seconds for the root if half of the nodes changed, by number of nodes.
HALF_CHANGED_TARGETS = {100_000: 0.5, 1_000_000: 8.0}
CHANGED_ONE_IN = 100
# Number of nodes, all in the same piece, for which proofs are built.
PROOFS = 200
CHANGES_PER_BLOCK = 100
NODES_PER_WRITE = 10_000
BLOCK_SECONDS = 12
STATISTICS_ROUNDS = 10
DOMAIN = Domain(31337, ZERO_ADDRESS)
# With this period, every block ends a period.
SETTINGS = ReportSettings(period_seconds=BLOCK_SECONDS)


def build_block(number: int) -> BlockRef:
    block_hash = Hash(f"0x{number:064x}")
    return BlockRef(number, block_hash, block_hash, NOW + BLOCK_SECONDS * number)


def change_nodes(store: Store, changed: list[Node], number: int) -> None:
    """Change a score of each of these nodes in a block, and move the cursor to that block."""
    for node in changed:
        node.pool = node.pool[1:] + bytes((10 - node.pool[0],))
        node.pool_sum = sum(node.pool)
        node.changed_at = number
    with store.transaction() as uow:
        uow.nodes.save(changed)
        cursor = uow.cursor.get()
        assert cursor is not None
        uow.cursor.move_to(build_block(number), None, cursor.epoch)
        uow.blocks.save([build_block(number)])


def fill_store(store: Store, nodes: list[Node]) -> None:
    for offset in range(0, len(nodes), NODES_PER_WRITE):
        with store.transaction() as uow:
            uow.nodes.save(nodes[offset : offset + NODES_PER_WRITE])
    with store.transaction() as uow:
        uow.identity.ensure_stored_identity(
            Identity(DOMAIN.chain_id, ZERO_HASH, {}, DOMAIN.contract, 0)
        )
        uow.blocks.save([build_block(1)])
        uow.cursor.move_to(build_block(1), None, 0)


def measure_cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU seconds of this process for a function."""
    start = time.process_time()
    action()
    return time.process_time() - start


def compute_plain_root(store: Store, number: int) -> Hash:
    """Compute the root of all nodes as of a block, one node and one hash at a time."""
    with store.read_transaction() as uow:
        context = ScoringContext(
            CRYNUX,
            build_block(number).time,
            uow.nodes.get_many,
            lambda _: KickoutReview(None, has_dead_letter=False),
        )
        leaves = list(iter_linked_leaves(uow.nodes.iterate_all(), context, keccak))
    leaves.sort(key=lambda leaf: leaf.seat)
    lanes = [leaf.lane for leaf in leaves]
    words = enumerate(pack_lane_words(lanes))
    trees_hash = hash_pair(
        compute_plain_tree_root([hash_leaf(leaf.encode(), keccak) for leaf in leaves]),
        compute_plain_tree_root(
            [hash_leaf(encode_word_leaf(index, word), keccak) for index, word in words]
        ),
        keccak,
    )
    summary = RoundSummary(
        chain_id=DOMAIN.chain_id,
        oracle=DOMAIN.contract,
        round=1,
        as_of=number,
        node_count=len(lanes),
        open_count=len(lanes) - lanes.count(1),
        total_weight=sum(lanes) - len(lanes),
    )
    root = hash_pair(hash_leaf(summary.encode(), keccak), trees_hash, keccak)
    return Hash("0x" + root.hex())


def compute_plain_tree_root(hashes: list[bytes]) -> bytes:
    """Return the root of a tree with these leaves."""
    hashes += [bytes(32)] * ((1 << (len(hashes) - 1).bit_length()) - len(hashes))
    while len(hashes) > 1:
        hashes = [
            hash_pair(left, right, keccak)
            for left, right in zip(hashes[::2], hashes[1::2], strict=True)
        ]
    return hashes[0]


def read_memory_mb(field: str) -> float | None:
    """Return VmRSS (current memory of this process) or VmHWM (its maximum) in MB, if available."""
    status = Path("/proc/self/status")
    lines = status.read_text("ascii").splitlines() if status.exists() else []
    sizes = [float(line.split()[1]) / 1000 for line in lines if line.startswith(field)]
    return sizes[0] if sizes else None


class MemoryPeak:
    """The maximum memory of this process, minus its memory when the object was created."""

    def __init__(self) -> None:
        self._before = read_memory_mb("VmRSS")
        reset_memory_peak()

    def run_unmeasured(self, action: Callable[[], object]) -> None:
        """Call `action` without counting the memory that it allocates, and reset the maximum."""
        memory_before = read_memory_mb("VmRSS")
        action()
        memory_after = read_memory_mb("VmRSS")
        if self._before is not None and memory_before is not None and memory_after is not None:
            self._before += memory_after - memory_before
        reset_memory_peak()

    def get_peak_mb(self) -> float | None:
        """Return the maximum in MB, or None if the system does not report it."""
        peak_mb = read_memory_mb("VmHWM")
        return None if peak_mb is None or self._before is None else peak_mb - self._before


def reset_memory_peak() -> None:
    """Reset VmHWM of this process to its current memory, on Linux."""
    clear_refs = Path("/proc/self/clear_refs")
    if clear_refs.exists():
        clear_refs.write_text("5", "ascii")


@contextmanager
def measure_longest_delay(delays: list[float]) -> Iterator[None]:
    """Append the longest delay, in seconds, of a thread that wakes every millisecond."""
    is_finished = Event()

    def wake() -> None:
        longest = 0.0
        last_wake = time.perf_counter()
        while not is_finished.wait(0.001):
            wake_time = time.perf_counter()
            longest = max(longest, wake_time - last_wake - 0.001)
            last_wake = wake_time
        delays.append(longest)

    thread = Thread(target=wake)
    thread.start()
    yield
    is_finished.set()
    thread.join()


def measure_statistics(store: Store) -> tuple[float, float]:
    """Collect statistics ten times; return the loop's longest delay and the CPU seconds.

    The first collection after a start takes longer, because there are no earlier statistics.
    """
    folder = EventFolder(CRYNUX, ScriptedReader())
    background_call = BackgroundCall[Any](stats._WAIT_SECONDS)  # noqa: SLF001
    collector = StatisticsCollector(store, folder, time.monotonic, background_call)
    delays = []

    def collect() -> None:
        for _ in range(STATISTICS_ROUNDS):
            start = time.perf_counter()
            collector.collect_statistics(None)
            delays.append(time.perf_counter() - start)
        # Wait for the thread. Otherwise its CPU time would be part of the next measurement.
        background_call.wait_seconds = None
        background_call.take_finished_call()

    count_seconds = measure_cpu_seconds(collect)
    return max(delays), count_seconds


def load_first_page(source: ApiSource) -> None:
    with open_snapshot(source) as snapshot:
        list_nodes(snapshot, NodeListQuery())


Figure = tuple[str, str, float, float | None, float]


def measure_roots(store: Store, nodes: list[Node]) -> tuple[list[Figure], float, float | None]:
    """Measure roots; return their figures, and the plain root's CPU seconds and memory."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=200)

    def compute_root(number: int) -> Hash:
        return build_root(cutter, store, number)

    memory_peak = MemoryPeak()
    delays: list[float] = []
    with measure_longest_delay(delays):
        first_root_seconds = measure_cpu_seconds(lambda: compute_root(1))
    peaks = [memory_peak.get_peak_mb()]
    memory_peak.run_unmeasured(lambda: change_nodes(store, nodes[::2], 2))
    with measure_longest_delay(delays):
        half_seconds = measure_cpu_seconds(lambda: compute_root(2))
    peaks.append(memory_peak.get_peak_mb())
    change_nodes(store, nodes[::CHANGED_ONE_IN], 3)
    one_percent_seconds = measure_cpu_seconds(lambda: compute_root(3))
    plain_roots: list[Hash] = []
    plain_memory = MemoryPeak()
    plain_seconds = measure_cpu_seconds(lambda: plain_roots.append(compute_plain_root(store, 3)))
    plain_peak = plain_memory.get_peak_mb()
    assert plain_roots == [compute_root(3)]
    figures: list[Figure] = [
        (
            "root after one node in a hundred changed",
            "s CPU",
            one_percent_seconds,
            0.1,
            plain_seconds,
        ),
        (
            HALF_CHANGED,
            "s CPU",
            half_seconds,
            HALF_CHANGED_TARGETS.get(len(nodes), 8.0),
            plain_seconds,
        ),
        ("first root", "s CPU", first_root_seconds, None, plain_seconds),
        ("delay of other threads by a root", "s", max(delays), 0.1, first_root_seconds),
    ]
    known_peaks = [peak for peak in peaks if peak is not None]
    if known_peaks and plain_peak is not None:
        figures.append(("memory of the first root", "MB", max(known_peaks), 160.0, plain_peak))
    return figures, plain_seconds, plain_peak


def measure_restart(
    store: Store, nodes: list[Node], plain_seconds: float, plain_peak: float | None
) -> list[Figure]:
    """Measure the first root after a start, when one node in a hundred has changed."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=200)
    change_nodes(store, nodes[::CHANGED_ONE_IN], 9)
    memory_peak = MemoryPeak()
    restart_seconds = measure_cpu_seconds(lambda: update_leaves(cutter, store, 9))
    figures: list[Figure] = [("root after a start", "s CPU", restart_seconds, None, plain_seconds)]
    peak = memory_peak.get_peak_mb()
    if peak is not None and plain_peak is not None:
        figures.append(("memory of a root after a start", "MB", peak, 160.0, plain_peak))
    return figures


def build_root(cutter: ReportCutter, store: Store, number: int) -> Hash:
    with store.read_transaction() as uow:
        return cutter.build_report(uow, build_contract_state(), build_block(number)).root


def measure_cuts(
    store: Store, nodes: list[Node], plain_seconds: float, plain_peak: float | None
) -> list[Figure]:
    """Return the figures of cuts and pages, given the time and the memory of a plain root."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=200)

    def cut_report(number: int, contract: ContractState) -> None:
        with store.transaction() as uow:
            assert cutter.on_block(uow, contract, build_block(number), final_number=0) is not None

    archive = EventArchive(store, ScriptedReader(), CRYNUX)
    source = ApiSource(
        archive,
        NodeRankingCache(CRYNUX),
        lambda: None,
        lambda: NOW,
        lambda _held: None,
        rules_id="{}",
    )
    memory_peak = MemoryPeak()
    cut_report(3, build_contract_state())
    first_cut_peak = memory_peak.get_peak_mb()
    with store.read_transaction() as uow:
        (stored_report,) = uow.reports.list_newest(1)
    contract = build_contract_state(build_acceptance(stored_report.report, 4, build_block(4).time))
    load_first_page(source)
    change_nodes(store, nodes[::CHANGED_ONE_IN], 4)
    # Exclude the benchmark's own objects from garbage collection, which would otherwise traverse
    # them.
    tune_garbage_collection()
    one_percent_seconds = measure_cpu_seconds(lambda: cut_report(4, contract))
    loop_delay, count_seconds = measure_statistics(store)
    page_seconds_after_many = measure_cpu_seconds(lambda: load_first_page(source))
    change_nodes(store, nodes[:CHANGES_PER_BLOCK], 5)
    page_seconds = measure_cpu_seconds(lambda: load_first_page(source))
    list_seconds = measure_cpu_seconds(lambda: load_all_nodes(store, CRYNUX, {}, NOW))
    change_nodes(store, nodes[::2], 6)
    half_seconds = measure_cpu_seconds(lambda: cut_report(6, contract))
    change_nodes(store, nodes[1::2], 7)
    delays: list[float] = []
    with measure_longest_delay(delays):
        leaves_seconds = measure_cpu_seconds(lambda: update_leaves(cutter, store, 7))
    cut_seconds_after_leaves = measure_cpu_seconds(lambda: cut_report(7, contract))
    change_nodes(store, nodes[::CHANGED_ONE_IN], 8)
    update_leaves(cutter, store, 8)
    root_ahead = measure_cpu_seconds(lambda: build_root(cutter, store, 8))
    figures: list[Figure] = []
    if first_cut_peak is not None and plain_peak is not None:
        figures.append(("memory of the first cut", "MB", first_cut_peak, 160.0, plain_peak))
    return [
        *figures,
        (
            "leaves of half of the nodes, between cuts",
            "s CPU",
            leaves_seconds,
            None,
            plain_seconds,
        ),
        ("delay of other threads by these leaves", "s", delays[0], 0.1, leaves_seconds),
        ("round cut after these leaves", "s CPU", cut_seconds_after_leaves, None, plain_seconds),
        (
            "root after such leaves of one node in a hundred",
            "s CPU",
            root_ahead,
            0.1,
            plain_seconds,
        ),
        *measure_proofs(store, nodes, plain_seconds),
        (
            "round cut after one node in a hundred changed",
            "s CPU",
            one_percent_seconds,
            1.0,
            plain_seconds,
        ),
        ("round cut after half of the nodes changed", "s CPU", half_seconds, None, plain_seconds),
        ("statistics, delay of the loop", "s", loop_delay, 0.1, count_seconds),
        ("first page of nodes", "s CPU", page_seconds, 0.2, list_seconds),
        (
            "first page after one node in a hundred changed",
            "s CPU",
            page_seconds_after_many,
            None,
            list_seconds,
        ),
    ]


def update_leaves(cutter: ReportCutter, store: Store, number: int) -> None:
    """Compute the leaves of changed nodes as the daemon does between cuts."""
    cutter.on_committed(store, build_block(number), number)
    update = cutter._leaf_tree._running_update  # noqa: SLF001
    assert update is not None
    update.result()


def measure_proofs(store: Store, nodes: list[Node], plain_seconds: float) -> list[Figure]:
    """Return the figures of proofs in the last cut.

    `plain_seconds` is the time of a plain root.
    """
    cache = LeafCache()

    def prove(proven_nodes: list[Node]) -> None:
        with store.read_transaction() as uow:
            (stored_report,) = uow.reports.list_newest(1)
            pieced_round = load_pieced_round_of_report(uow, cache, stored_report.report)
            assert pieced_round is not None
            for node in proven_nodes:
                assert (
                    prove_address_from_pieces(uow, cache, pieced_round, node.address) is not None
                )

    restarted_seconds = measure_cpu_seconds(lambda: prove(nodes[:1]))
    cached_seconds = measure_cpu_seconds(lambda: prove(nodes[:PROOFS])) / PROOFS
    return [
        ("proof after a restart", "ms CPU", 1000 * restarted_seconds, 50.0, 1000 * plain_seconds),
        ("proof from memory", "ms CPU", 1000 * cached_seconds, 1.0, 1000 * plain_seconds),
    ]


def find_target_size(name: str, count: int) -> str:
    """Return the size for which a figure's target is defined, or "" if it is the measured size."""
    is_target_size = count == TARGET_NODES or (
        name == HALF_CHANGED and count in HALF_CHANGED_TARGETS
    )
    return "" if is_target_size else f"{TARGET_NODES:,} nodes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=TARGET_NODES)
    count = parser.parse_args().nodes
    begin_benchmark(
        "legacy rules, PostgreSQL, signing, sending, printing, full pools, recovering nodes"
    )
    network = Network(Case("cut", count, recovering_share=0.0, scores=5))
    with (
        tempfile.TemporaryDirectory() as folder,
        Store.open(f"sqlite:///{folder}/cut.sqlite", create=True) as store,
    ):
        nodes = list(network.nodes.values())
        fill_store(store, nodes)
        tune_garbage_collection()
        root_figures, plain_seconds, plain_peak = measure_roots(store, nodes)
        root_figures += measure_cuts(store, nodes, plain_seconds, plain_peak)
        root_figures += measure_restart(store, nodes, plain_seconds, plain_peak)
    baseline_name = "plain code for all nodes"
    return finish_benchmark(
        [
            Outcome(
                f"{name}, {count:,} nodes",
                value,
                unit,
                target,
                baseline,
                baseline_name,
                find_target_size(name, count),
            )
            for name, unit, value, target, baseline in root_figures
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
