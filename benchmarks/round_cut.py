"""Measure the cut of a report, the statistics and a page of nodes in a network of a million nodes.

Run: .venv/bin/python benchmarks/round_cut.py [--nodes 1000000]
A root is computed from the nodes that changed since the last cut: one in a hundred, and half of
them. A cut also compares the root with the last round, and stores the changed leaves. The baseline
of both is a root of all nodes by plain Python: an object for each node, and a hash at a time. The
first root after a start reads all nodes, too. The memory is the maximum that this root or the one
after half of the nodes changed takes beyond what the process had before the first; it is measured
on Linux only. The delay is the longest one of another thread, such as that of the lease, while one
of these two is computed.

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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from benchmarks.selection import NOW, Case, Network  # noqa: E402
from oracle.chain.proofs.keccak import keccak  # noqa: E402
from oracle.daemon.startup import freeze_gc  # noqa: E402
from oracle.domain.blocks import BlockRef  # noqa: E402
from oracle.domain.ids import ZERO_ADDRESS, ZERO_HASH, Hash  # noqa: E402
from oracle.domain.reports.contract_state import ContractState  # noqa: E402
from oracle.domain.reports.kickout_review import KickoutPolicy, KickoutReview  # noqa: E402
from oracle.domain.reports.lanes import pack_lane_words  # noqa: E402
from oracle.domain.reports.report import ReportSettings  # noqa: E402
from oracle.domain.roots.leaves import (  # noqa: E402
    RoundSummary,
    encode_word_leaf,
    hash_leaf,
)
from oracle.domain.roots.merkle_tree import hash_pair  # noqa: E402
from oracle.domain.roots.node_leaves import iter_linked_leaves  # noqa: E402
from oracle.domain.roots.scoring_context import ScoringContext  # noqa: E402
from oracle.domain.state import Node  # noqa: E402
from oracle.indexer.folder import EventFolder  # noqa: E402
from oracle.indexer.round_leaves import (  # noqa: E402
    LeafCache,
    load_round_of_report,
    prove_from_pieces,
)
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
HALF = "root after half of the nodes changed"
# The maximum CPU seconds of this root, by the number of nodes.
HALF_TARGETS = {100_000: 0.5, 1_000_000: 8.0}
ONE_IN = 100
# Nodes of one piece, each of which is proven.
PROOFS = 200
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


def plain_root(store: Store, number: int) -> Hash:
    """Compute the root of all nodes as of a block, one node and one hash at a time."""
    with store.read_transaction() as uow:
        context = ScoringContext(
            CRYNUX,
            block(number).time,
            uow.nodes.get_many,
            lambda _: KickoutReview(None, has_dead_letter=False),
        )
        leaves = list(iter_linked_leaves(uow.nodes.iterate_all(), context, keccak))
    leaves.sort(key=lambda leaf: leaf.seat)
    lanes = [leaf.lane for leaf in leaves]
    words = enumerate(pack_lane_words(lanes))
    trees = hash_pair(
        plain_top([hash_leaf(leaf.encode(), keccak) for leaf in leaves]),
        plain_top([hash_leaf(encode_word_leaf(index, word), keccak) for index, word in words]),
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
    root = hash_pair(hash_leaf(summary.encode(), keccak), trees, keccak)
    return Hash("0x" + root.hex())


def plain_top(hashes: list[bytes]) -> bytes:
    """Return the root of a tree with these leaves."""
    hashes += [bytes(32)] * ((1 << (len(hashes) - 1).bit_length()) - len(hashes))
    while len(hashes) > 1:
        hashes = [
            hash_pair(left, right, keccak)
            for left, right in zip(hashes[::2], hashes[1::2], strict=True)
        ]
    return hashes[0]


def resident_mb(field: str) -> float | None:
    """Return VmRSS (the memory of this process now) or VmHWM (its maximum) in MB, or None."""
    status = Path("/proc/self/status")
    lines = status.read_text("ascii").splitlines() if status.exists() else []
    sizes = [float(line.split()[1]) / 1000 for line in lines if line.startswith(field)]
    return sizes[0] if sizes else None


class Peak:
    """The maximum of the memory of this process, above what it had at first."""

    def __init__(self) -> None:
        self._before = resident_mb("VmRSS")
        reset_peak()

    def leave_out(self, work: Callable[[], object]) -> None:
        """Call a function whose memory is not to be measured; the maximum begins anew."""
        before = resident_mb("VmRSS")
        work()
        after = resident_mb("VmRSS")
        if self._before is not None and before is not None and after is not None:
            self._before += after - before
        reset_peak()

    def measure(self) -> float | None:
        """Return the maximum in MB, or None if the system does not report it."""
        peak = resident_mb("VmHWM")
        return None if peak is None or self._before is None else peak - self._before


def reset_peak() -> None:
    """Let the maximum of the memory begin anew, on Linux."""
    peak = Path("/proc/self/clear_refs")
    if peak.exists():
        peak.write_text("5", "ascii")


@contextmanager
def longest_delay(delays: list[float]) -> Iterator[None]:
    """Append the longest delay, in seconds, of a thread that wakes every millisecond."""
    is_over = Event()

    def wake() -> None:
        longest, before = 0.0, time.perf_counter()
        while not is_over.wait(0.001):
            now = time.perf_counter()
            longest, before = max(longest, now - before - 0.001), now
        delays.append(longest)

    thread = Thread(target=wake)
    thread.start()
    yield
    is_over.set()
    thread.join()


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


Figure = tuple[str, str, float, float | None, float]


def measure_roots(store: Store, nodes: list[Node]) -> tuple[list[Figure], float]:
    """Return the figures of roots, and the CPU seconds of the plain root."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=200)

    def root(number: int) -> Hash:
        return build_root(cutter, store, number)

    memory = Peak()
    delays: list[float] = []
    with longest_delay(delays):
        anew = seconds(lambda: root(1))
    peaks = [memory.measure()]
    memory.leave_out(lambda: change(store, nodes[::2], 2))
    with longest_delay(delays):
        half = seconds(lambda: root(2))
    peaks.append(memory.measure())
    change(store, nodes[::ONE_IN], 3)
    again = seconds(lambda: root(3))
    plain_roots: list[Hash] = []
    plain_memory = Peak()
    plain = seconds(lambda: plain_roots.append(plain_root(store, 3)))
    plain_peak = plain_memory.measure()
    assert plain_roots == [root(3)]
    figures: list[Figure] = [
        ("root after one node in a hundred changed", "s CPU", again, 0.1, plain),
        (HALF, "s CPU", half, HALF_TARGETS.get(len(nodes), 8.0), plain),
        ("root after a start", "s CPU", anew, None, plain),
        ("delay of other threads by a root", "s", max(delays), 0.1, anew),
    ]
    known_peaks = [peak for peak in peaks if peak is not None]
    if known_peaks and plain_peak is not None:
        figures.append(("memory of a root", "MB", max(known_peaks), 160.0, plain_peak))
    return figures, plain


def build_root(cutter: ReportCutter, store: Store, number: int) -> Hash:
    with store.read_transaction() as uow:
        return cutter.build_report(uow, contract_state(), block(number)).root


def measure_cuts(store: Store, nodes: list[Node], plain: float) -> list[Figure]:
    """Return the figures of cuts and pages; `plain` are the seconds of a plain root."""
    cutter = ReportCutter(ScriptedReader(), CRYNUX, SETTINGS, DOMAIN, anchor_window=200)

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
    cut(3, contract_state())
    with store.read_transaction() as uow:
        (stored,) = uow.reports.list_latest(1)
    contract = contract_state(acceptance(stored.report, 4, block(4).time))
    page(source)
    change(store, nodes[::ONE_IN], 4)
    # Keep the benchmark's own objects out of the garbage collector's work.
    freeze_gc()
    again = seconds(lambda: cut(4, contract))
    census = seconds(lambda: compute_index_statistics(store, KickoutPolicy(CRYNUX), None))
    in_the_loop = turn_seconds(store)
    after_many = seconds(lambda: page(source))
    change(store, nodes[:CHANGED_IN_A_BLOCK], 5)
    first = seconds(lambda: page(source))
    listed = seconds(lambda: load_all_nodes(store, CRYNUX, {}, NOW))
    change(store, nodes[::2], 6)
    half = seconds(lambda: cut(6, contract))
    change(store, nodes[1::2], 7)
    delays: list[float] = []
    with longest_delay(delays):
        ahead = seconds(lambda: update_leaves(cutter, store, 7))
    half_ahead = seconds(lambda: cut(7, contract))
    change(store, nodes[::ONE_IN], 8)
    update_leaves(cutter, store, 8)
    root_ahead = seconds(lambda: build_root(cutter, store, 8))
    return [
        ("leaves of half of the nodes, between cuts", "s CPU", ahead, None, plain),
        ("delay of other threads by these leaves", "s", delays[0], 0.1, ahead),
        ("round cut after these leaves", "s CPU", half_ahead, None, plain),
        ("root after such leaves of one node in a hundred", "s CPU", root_ahead, 0.1, plain),
        *measure_proofs(store, nodes, plain),
        ("round cut after one node in a hundred changed", "s CPU", again, 1.0, plain),
        ("round cut after half of the nodes changed", "s CPU", half, None, plain),
        ("statistics, delay of the loop", "s", in_the_loop, 0.1, census),
        ("first page of nodes", "s CPU", first, 0.2, listed),
        ("first page after one node in a hundred changed", "s CPU", after_many, None, listed),
    ]


def update_leaves(cutter: ReportCutter, store: Store, number: int) -> None:
    """Compute the leaves of changed nodes as the daemon does between cuts."""
    cutter.on_committed(store, block(number), number)
    update = cutter._leaf_tree._running_update  # noqa: SLF001
    assert update is not None
    update.result()


def measure_proofs(store: Store, nodes: list[Node], plain: float) -> list[Figure]:
    """Return the figures of proofs in the last cut; `plain` are the seconds of a plain root."""
    cache = LeafCache()

    def prove(proven_nodes: list[Node]) -> None:
        with store.read_transaction() as uow:
            (stored,) = uow.reports.list_latest(1)
            pieced_round = load_round_of_report(uow, cache, stored.report)
            assert pieced_round is not None
            for node in proven_nodes:
                assert prove_from_pieces(uow, cache, pieced_round, node.address) is not None

    restarted = seconds(lambda: prove(nodes[:1]))
    from_memory = seconds(lambda: prove(nodes[:PROOFS])) / PROOFS
    return [
        ("proof after a restart", "ms CPU", 1000 * restarted, 50.0, 1000 * plain),
        ("proof from memory", "ms CPU", 1000 * from_memory, 1.0, 1000 * plain),
    ]


def at(name: str, count: int) -> str:
    """Return the size to which the target of a figure applies, if this is another one, else ""."""
    is_its_size = count == TARGET_NODES or (name == HALF and count in HALF_TARGETS)
    return "" if is_its_size else f"{TARGET_NODES:,} nodes"


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
        nodes = list(network.nodes.values())
        filled(store, nodes)
        freeze_gc()
        figures, plain = measure_roots(store, nodes)
        figures += measure_cuts(store, nodes, plain)
    source = "plain code for all nodes"
    return end(
        [
            Outcome(
                f"{name}, {count:,} nodes", value, unit, target, obvious, source, at(name, count)
            )
            for name, unit, value, target, obvious in figures
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
