"""Measure how fast a node is drawn from 100,000, by the candidate pool and by the plain policy.

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
# The path must be set before the imports below, so that this also runs in a checkout that is not
# installed (hence noqa E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from oracle.domain.fixed_point import UNIT  # noqa: E402
from oracle.domain.ids import Address, TaskKey  # noqa: E402
from oracle.domain.state import Membership, Node, Task, create_node, create_task  # noqa: E402
from oracle.systems.crynux.candidate_pool import CandidatePool  # noqa: E402
from oracle.systems.crynux.crynux_policy import CRYNUX_POLICY, CRYNUX_WEIGHTING  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from oracle.systems.policy import PolicyInput  # noqa: E402
from oracle.systems.weighted_draw import NodeDraw, draw_nodes  # noqa: E402

# Targets in milliseconds; each applies at its own number of nodes only.
TARGET_NODES = 100_000
MORE_NODES = 1_000_000
TARGET_MS, TARGET_HEALING_MS, TARGET_RESTAKED_MS, TARGET_MORE_MS = 5, 30, 30, 50
BLOCK_SECONDS = 12
CHANGES_A_BLOCK = 100
BLOCKS = 30
NOW = 1_700_000_000
# The share of nodes whose reliability recovers from a recent timeout.
HEALING = 0.05
CARDS = (("RTX 3080", 10), ("RTX 4080", 16), ("RTX 4090", 24), ("A100", 80))
MODELS = ("base:sdxl", "base:sd-1.5", "base:flux")


class Case(NamedTuple):
    """A network, and the requirements of the task."""

    name: str
    nodes: int
    healing: float = HEALING
    scores: int = 50
    # The task's requirements by attribute; without any, every free node is a candidate.
    requests: tuple[tuple[str, object], ...] = ()
    # Whether the largest stake of all nodes changes with every block.
    restaked: bool = False


class Times(NamedTuple):
    candidates: int
    warm_up: float
    middle: float
    worst: float
    plain: float


class Network:
    """Nodes whose tasks start and end, in the same sequence at each run."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.random = Random(1)  # noqa: S311 - repeatable, no secret
        self.nodes = {node.address: node for node in map(self.node, range(case.nodes))}
        self.addresses = list(self.nodes)
        self.time = NOW
        self.whale = self.node(case.nodes)
        self.whale.stake, self.whale.running = 10**9 * UNIT, 1

    def node(self, number: int) -> Node:
        chance = self.random
        node = create_node(
            Address("0x" + sha256(b"node %d" % number).hexdigest()[:40]), number, NOW, 0
        )
        node.membership = Membership.MEMBER
        node.stake = chance.randrange(400, 40_000) * UNIT
        node.gpu_name, node.gpu_vram = chance.choice(CARDS)
        node.version = (3, chance.randrange(3), 0)
        node.models = tuple(chance.sample(MODELS, chance.randrange(1, 3)))
        node.in_use = node.models[:1]
        node.pool = bytes(chance.choice((10, 5, 2)) for _ in range(self.case.scores))
        node.scored = len(node.pool)
        if chance.random() < self.case.healing:
            # One or two timeouts within the last two hours.
            node.base = chance.choice((3, 9)) * UNIT // 10
            node.since = NOW - chance.randrange(7200)
        node.running = int(chance.random() < 0.3)
        return node

    def block(self) -> list[Node]:
        """Advance by one block; return the nodes that it changed."""
        self.time += BLOCK_SECONDS
        changed = [
            self.nodes[address] for address in self.random.sample(self.addresses, CHANGES_A_BLOCK)
        ]
        for node in changed:
            node.running = 1 - node.running
        if self.case.restaked:
            self.whale.stake = (10**9 + self.time) * UNIT
            self.nodes[self.whale.address] = self.whale
            changed.append(self.whale)
        return changed


def measured(case: Case) -> Times:
    network = Network(case)
    task = wanted(case)
    pool = CandidatePool(CRYNUX, CRYNUX_WEIGHTING)
    begun = time.process_time()
    warm(pool, network.nodes.values(), task)
    warm_up = since(begun)
    gc.collect()
    gc.freeze()
    spent, drawn = [], 0
    for number in range(BLOCKS):
        changed = network.block()
        seed = sha256(b"%d" % number).digest()
        begun = time.process_time()
        chosen = selected(pool, changed, task, network, seed)
        spent.append(since(begun))
        if number in {0, BLOCKS - 1}:
            assert chosen == plainly(task, network, seed)
            drawn = len(pool.list_candidates(task, network.time))
    begun = time.process_time()
    plainly(task, network, bytes(32))
    plain = since(begun)
    gc.unfreeze()
    return Times(drawn, warm_up, median(spent), max(spent), plain)


def wanted(case: Case) -> Task:
    task = create_task(TaskKey("0x" + 64 * "1"))
    for name, value in case.requests:
        setattr(task, name, value)
    return task


def warm(pool: CandidatePool, nodes: Iterable[Node], task: Task) -> None:
    for node in nodes:
        pool.update_node(node)
    pool.draw_nodes(task, NOW, bytes(32))


def selected(
    pool: CandidatePool, changed: list[Node], task: Task, network: Network, seed: bytes
) -> list[NodeDraw]:
    """Update the pool with the changed nodes, then draw a node."""
    for node in changed:
        pool.update_node(node)
    return pool.draw_nodes(task, network.time, seed)


def plainly(task: Task, network: Network, seed: bytes) -> list[NodeDraw]:
    policy_input = PolicyInput(network.nodes, CRYNUX, network.time)
    verdicts = CRYNUX_POLICY.create_follower().judge_candidates(task, policy_input)
    return draw_nodes(
        [(verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None],
        seed,
        1,
    )


def since(begun: float) -> float:
    """Return the CPU milliseconds since `begun`, which other programs do not affect."""
    return 1000 * (time.process_time() - begun)


def cases(nodes: int, more: int) -> list[Case]:
    asking = (("min_vram", 16), ("version", (3, 1, 0)), ("models", MODELS[:1]))
    smaller = [size for size in (1_000, 10_000) if size < nodes]
    return [
        Case("any node", nodes),
        *(Case("any node", size) for size in smaller),
        Case("5 scores, not 50", nodes, scores=5),
        Case("model required", nodes, requests=asking),
        Case("all nodes heal", nodes, healing=1.0),
        Case("top stake moves", nodes, restaked=True),
        *([Case("any of more", more)] if more else []),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--more", type=int, default=MORE_NODES)
    arguments = parser.parse_args()
    begin("reading the changed nodes from the database; the first selection for a kind of task")
    table = Table(
        title=f"One selection in CPU milliseconds; {HEALING:.0%} of the nodes recovering"
    )
    for name in ("task", "nodes", "candidates", "warm-up", "median", "worst", "plain", "ratio"):
        table.add_column(name, justify="left" if name == "task" else "right")
    outcomes = []
    for case in cases(arguments.nodes, arguments.more):
        times = measured(case)
        table.add_row(
            case.name, f"{case.nodes:,}", f"{times.candidates:,}", f"{times.warm_up:,.0f}",
            f"{times.middle:.2f}", f"{times.worst:.2f}", f"{times.plain:,.0f}",
            f"{times.plain / times.middle:,.0f}",
        )  # fmt: skip
        outcomes.append(outcome(case, times))
    out = Console()
    out.print(table)
    out.print(
        "warm-up: filling an empty pool; any node: any free node; 5 scores: a tenth of a pool"
    )
    out.print("plain: oracle/systems/crynux/crynux_policy.py for all nodes, then the same draw")
    return end(outcomes)


def outcome(case: Case, times: Times) -> Outcome:
    """Return the outcome of a case.

    The target only applies at the target's number of nodes.
    """
    targets = {
        "any node": (TARGET_MS, TARGET_NODES),
        "all nodes heal": (TARGET_HEALING_MS, TARGET_NODES),
        "top stake moves": (TARGET_RESTAKED_MS, TARGET_NODES),
        "any of more": (TARGET_MORE_MS, MORE_NODES),
    }
    target, size = targets.get(case.name, (None, case.nodes))
    return Outcome(
        what=f"selection, {case.name}, {case.nodes:,} nodes",
        got=times.middle,
        unit="ms CPU",
        target=target,
        baseline=times.plain,
        source="judging every node anew",
        target_at="" if size == case.nodes else f"{size:,} nodes",
    )


if __name__ == "__main__":
    sys.exit(main())
