"""Measure how fast the candidate pool and the plain policy draw one of 100,000 nodes.

Run: .venv/bin/python benchmarks/selection.py [--nodes 100000] [--more 1000000]
Between two selections, a block of 12 s passes in which a hundred nodes start or end a task. The
plain policy judges every node for each selection, as `select` does to explain the draw. Both must
draw the same node, which is checked. Times are CPU time of one core.
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from oracle.domain.fixed_point import UNIT  # noqa: E402
from oracle.domain.ids import Address, TaskKey  # noqa: E402
from oracle.domain.state import Membership, Node, Task, create_node, create_task  # noqa: E402
from oracle.systems.crynux.candidate_pool import CandidatePool  # noqa: E402
from oracle.systems.crynux.crynux_policy import CRYNUX_POLICY, CRYNUX_WEIGHTING  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from oracle.systems.policy import PolicyInput  # noqa: E402
from oracle.systems.weighted_draw import NodeDraw, draw_nodes  # noqa: E402

# Targets in milliseconds. Each applies only to its own number of nodes.
TARGET_NODES = 100_000
MORE_NODES = 1_000_000
TARGET_MS, TARGET_HEALING_MS, TARGET_RESTAKED_MS, TARGET_MORE_MS = 5, 30, 30, 50
BLOCK_SECONDS = 12
CHANGES_PER_BLOCK = 100
BLOCKS = 30
NOW = 1_700_000_000
# Share of nodes that are recovering from a recent timeout.
RECOVERING_SHARE = 0.05
GPUS = (("RTX 3080", 10), ("RTX 4080", 16), ("RTX 4090", 24), ("A100", 80))
MODELS = ("base:sdxl", "base:sd-1.5", "base:flux")


class Case(NamedTuple):
    """A network, and the requirements of the task."""

    name: str
    node_count: int
    recovering_share: float = RECOVERING_SHARE
    scores: int = 50
    # The task's requirements by attribute. If there are none, every free node is a candidate.
    requirements: tuple[tuple[str, object], ...] = ()
    # True if the largest stake changes with every block.
    has_changing_max_stake: bool = False


class Times(NamedTuple):
    candidates: int
    warm_up_ms: float
    median_ms: float
    max_ms: float
    plain_ms: float


class Network:
    """Nodes whose tasks start and end; the sequence is the same in each run."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.random = Random(1)  # noqa: S311 - repeatable, no secret
        self.nodes = {
            node.address: node for node in map(self.create_random_node, range(case.node_count))
        }
        self.addresses = list(self.nodes)
        self.time = NOW
        self.largest_staker = self.create_random_node(case.node_count)
        self.largest_staker.stake = 10**9 * UNIT
        self.largest_staker.running = 1

    def create_random_node(self, number: int) -> Node:
        random = self.random
        node = create_node(
            Address("0x" + sha256(b"node %d" % number).hexdigest()[:40]), number, NOW, 0
        )
        node.membership = Membership.MEMBER
        node.stake = random.randrange(400, 40_000) * UNIT
        node.gpu_name, node.gpu_vram = random.choice(GPUS)
        node.version = (3, random.randrange(3), 0)
        node.models = tuple(random.sample(MODELS, random.randrange(1, 3)))
        node.in_use = node.models[:1]
        node.pool = bytes(random.choice((10, 5, 2)) for _ in range(self.case.scores))
        node.pool_sum = sum(node.pool)
        node.scored = len(node.pool)
        if random.random() < self.case.recovering_share:
            # The node had one or two timeouts in the last two hours.
            node.base = random.choice((3, 9)) * UNIT // 10
            node.since = NOW - random.randrange(7200)
        node.running = int(random.random() < 0.3)
        return node

    def advance_block(self) -> list[Node]:
        """Advance by one block, and return the nodes that the block changed."""
        self.time += BLOCK_SECONDS
        changed = [
            self.nodes[address]
            for address in self.random.sample(self.addresses, CHANGES_PER_BLOCK)
        ]
        for node in changed:
            node.running = 1 - node.running
        if self.case.has_changing_max_stake:
            self.largest_staker.stake = (10**9 + self.time) * UNIT
            self.nodes[self.largest_staker.address] = self.largest_staker
            changed.append(self.largest_staker)
        return changed


def measure_case(case: Case) -> Times:
    network = Network(case)
    task = create_required_task(case)
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    start = time.process_time()
    fill_pool(pool, network.nodes.values(), task)
    warm_up_ms = get_milliseconds_since(start)
    gc.collect()
    gc.freeze()
    draw_times_ms, candidate_count = [], 0
    for number in range(BLOCKS):
        changed_nodes = network.advance_block()
        seed = sha256(b"%d" % number).digest()
        start = time.process_time()
        draws = update_and_draw(pool, changed_nodes, task, network, seed)
        draw_times_ms.append(get_milliseconds_since(start))
        if number in {0, BLOCKS - 1}:
            assert draws == draw_with_plain_code(task, network, seed)
            candidate_count = len(pool.list_candidates(task, network.time))
    start = time.process_time()
    draw_with_plain_code(task, network, bytes(32))
    plain_ms = get_milliseconds_since(start)
    gc.unfreeze()
    return Times(candidate_count, warm_up_ms, median(draw_times_ms), max(draw_times_ms), plain_ms)


def create_required_task(case: Case) -> Task:
    task = create_task(TaskKey("0x" + 64 * "1"))
    for name, value in case.requirements:
        setattr(task, name, value)
    return task


def fill_pool(pool: CandidatePool, nodes: Iterable[Node], task: Task) -> None:
    for node in nodes:
        pool.update_node(node)
    pool.draw_nodes(task, NOW, bytes(32))


def update_and_draw(
    pool: CandidatePool, changed: list[Node], task: Task, network: Network, seed: bytes
) -> list[NodeDraw]:
    """Update the pool with the changed nodes, then draw a node."""
    for node in changed:
        pool.update_node(node)
    return pool.draw_nodes(task, network.time, seed)


def draw_with_plain_code(task: Task, network: Network, seed: bytes) -> list[NodeDraw]:
    policy_input = PolicyInput(network.nodes, CRYNUX, network.time)
    verdicts = CRYNUX_POLICY.create_evaluator().evaluate_candidates(task, policy_input)
    return draw_nodes(
        [(verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None],
        seed,
        1,
    )


def get_milliseconds_since(start: float) -> float:
    """Return the CPU milliseconds of this process since `start`."""
    return 1000 * (time.process_time() - start)


def list_cases(node_count: int, large_count: int) -> list[Case]:
    requirements = (("min_vram", 16), ("version", (3, 1, 0)), ("models", MODELS[:1]))
    smaller_sizes = [size for size in (1_000, 10_000) if size < node_count]
    return [
        Case("any node", node_count),
        *(Case("any node", size) for size in smaller_sizes),
        Case("5 scores, not 50", node_count, scores=5),
        Case("model required", node_count, requirements=requirements),
        Case("all nodes heal", node_count, recovering_share=1.0),
        Case("top stake moves", node_count, has_changing_max_stake=True),
        *([Case("any of more", large_count)] if large_count else []),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--more", type=int, default=MORE_NODES)
    arguments = parser.parse_args()
    begin_benchmark(
        "reading the changed nodes from the database; the first selection for a kind of task"
    )
    table = Table(
        title=f"One selection in CPU milliseconds; {RECOVERING_SHARE:.0%} of the nodes recovering"
    )
    for name in ("task", "nodes", "candidates", "warm-up", "median", "worst", "plain", "ratio"):
        table.add_column(name, justify="left" if name == "task" else "right")
    outcomes = []
    for case in list_cases(arguments.nodes, arguments.more):
        times = measure_case(case)
        table.add_row(
            case.name, f"{case.node_count:,}", f"{times.candidates:,}", f"{times.warm_up_ms:,.0f}",
            f"{times.median_ms:.2f}", f"{times.max_ms:.2f}", f"{times.plain_ms:,.0f}",
            f"{times.plain_ms / times.median_ms:,.0f}",
        )  # fmt: skip
        outcomes.append(build_outcome(case, times))
    console = Console()
    console.print(table)
    console.print(
        "warm-up: filling an empty pool; any node: any free node; 5 scores: a tenth of a pool"
    )
    console.print(
        "plain: oracle/systems/crynux/crynux_policy.py for all nodes, then the same draw"
    )
    return finish_benchmark(outcomes)


def build_outcome(case: Case, times: Times) -> Outcome:
    """Return the outcome of a case.

    The target only applies at the target's number of nodes.
    """
    targets = {
        "any node": (TARGET_MS, TARGET_NODES),
        "all nodes heal": (TARGET_HEALING_MS, TARGET_NODES),
        "top stake moves": (TARGET_RESTAKED_MS, TARGET_NODES),
        "any of more": (TARGET_MORE_MS, MORE_NODES),
    }
    target, size = targets.get(case.name, (None, case.node_count))
    return Outcome(
        title=f"selection, {case.name}, {case.node_count:,} nodes",
        value=times.median_ms,
        unit="ms CPU",
        target=target,
        baseline=times.plain_ms,
        baseline_name="judging every node anew",
        target_size="" if size == case.node_count else f"{size:,} nodes",
    )


if __name__ == "__main__":
    sys.exit(main())
