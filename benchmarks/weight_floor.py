"""Measure the effect of a minimum weight: days until dead nodes are kicked out, and wasted tasks.

Run: .venv/bin/python benchmarks/weight_floor.py [--nodes 1000] [--days 60] [--groups 0.1]
The simulation is a closed loop: scores decide which nodes are drawn, and draws lead to new scores.
Scores, H and weights are those of `crynux`. Honest nodes have different stakes and speeds and do
not answer one task in a hundred. Of all nodes, 2 % never answer a task (new), 2 % have a full pool
of good scores and then stop answering (once good), and 2 % are honest nodes whose first score is 0
(unlucky). Every node is always free. A job is a single task or a group of three.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from oracle.domain.fixed_point import UNIT, multiply_fixed_point  # noqa: E402
from oracle.domain.scoring.group_ranking import get_points_for_rank  # noqa: E402
from oracle.domain.scoring.node_scores import (  # noqa: E402
    append_score_to_pool,
    compute_pool_mean,
    heal_reliability,
    is_below_kickout_threshold,
)
from oracle.domain.scoring.reliability import ReliabilityCause, change_reliability  # noqa: E402
from oracle.domain.scoring.rule_fields import parse_fraction  # noqa: E402
from oracle.systems.crynux.crynux_policy import Weighting, compute_stake_score, compute_weight  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402

FLOORS = ("0", "0.003", "0.01", "0.03", "0.1")
DAY = 86_400
JOBS_PER_NODE = 100
FAULTY_GROUP_DIVISOR = 50
SILENT_SHARE = 0.01
MAX_STAKE = 20
# Without models, a weight is at most 1/2, which it reaches if S = QoS = 1.
MAX_WEIGHT = UNIT // 2


@dataclass(slots=True)
class Node:
    kind: str
    stake: int
    speed: float
    pool: bytes = b""
    base: int = UNIT
    since: int = 0
    # The node's weight while its reliability (H) is 1.
    settled_weight: int = 0
    drawn: int = 0
    kicked_out_at: float | None = None

    @property
    def is_answering(self) -> bool:
        return self.kind in ("honest", "unlucky")


@dataclass
class Network:
    """All nodes, and the random numbers for their draws."""

    weighting: Weighting
    random: Random
    nodes: list[Node] = field(default_factory=list)
    draws: int = 0

    def compute_weight(self, node: Node, time: int) -> int:
        """Return a node's selection weight, 0 while its reliability H excludes it."""
        reliability = heal_reliability(node.base, node.since, time, CRYNUX)
        if reliability < CRYNUX.exclude_enter:
            return 0
        qos = multiply_fixed_point(compute_pool_mean(node.pool, None, CRYNUX), reliability)
        return compute_weight(UNIT, node.stake, qos, self.weighting)

    def draw(self, time: int, busy: list[Node]) -> Node:
        """Draw a node by weight with rejection sampling.

        A random node is accepted with the probability of its weight divided by the maximum weight.
        """
        while True:
            node = self.nodes[int(self.random.random() * len(self.nodes))]
            weight = node.settled_weight if node.base == UNIT else self.compute_weight(node, time)
            if self.random.random() * MAX_WEIGHT < weight and node not in busy:
                self.draws += 1
                node.drawn += 1
                return node

    def run_task(self, node: Node, time: int) -> float | None:
        """Return the seconds until a node's answer, or None if it never answers.

        Also update the node's H.
        """
        is_silent = not node.is_answering or self.random.random() < SILENT_SHARE
        if is_silent or node.base != UNIT:
            reliability = heal_reliability(node.base, node.since, time, CRYNUX)
            cause = ReliabilityCause.TIMED_OUT if is_silent else ReliabilityCause.SUCCEEDED
            node.base = change_reliability(cause, reliability, CRYNUX)
            node.since = time
        return None if is_silent else node.speed * self.random.uniform(0.7, 1.3)

    def run_group(self, time: int) -> None:
        """Let three nodes run a task, and score them by rank unless none of them answers."""
        group_nodes: list[Node] = []
        for _ in range(3):
            group_nodes.append(self.draw(time, group_nodes))
        answers = [(self.run_task(node, time), node) for node in group_nodes]
        ranked_answers = sorted(
            (answer_seconds, id(node), node)
            for answer_seconds, node in answers
            if answer_seconds is not None
        )
        ranks = {id(node): rank for rank, (_, _, node) in enumerate(ranked_answers, start=1)}
        for node in group_nodes if ranked_answers else ():
            rank = ranks.get(id(node))
            self.apply_score(
                node,
                CRYNUX.absent_score if rank is None else get_points_for_rank(rank, CRYNUX),
                time,
            )

    def apply_score(self, node: Node, score: int, time: int) -> None:
        node.pool = append_score_to_pool(node.pool, score, CRYNUX)
        node.settled_weight = self.compute_settled_weight(node)
        if len(node.pool) == CRYNUX.pool_size and is_below_kickout_threshold(
            sum(node.pool), CRYNUX
        ):
            node.kicked_out_at = time / DAY
            self.nodes.remove(node)

    def compute_settled_weight(self, node: Node) -> int:
        qos = compute_pool_mean(node.pool, None, CRYNUX)
        return compute_weight(UNIT, node.stake, qos, self.weighting)


def create_network(nodes: int, floor: str) -> Network:
    """Build the network for one minimum weight.

    The nodes are the same for every minimum weight.
    """
    random = Random(1)  # noqa: S311 - repeatable, no secret
    network = Network(Weighting(weight_floor=parse_fraction("floor", floor)), random)
    nodes_per_share = nodes // FAULTY_GROUP_DIVISOR
    node_kinds = [
        *["new"] * nodes_per_share,
        *["once good"] * nodes_per_share,
        *["unlucky"] * nodes_per_share,
    ]
    for kind in [*node_kinds, *["honest"] * (nodes - len(node_kinds))]:
        # A few nodes have a large stake, but most have a small one.
        stake = min(MAX_STAKE, random.paretovariate(1.2))
        score = compute_stake_score(int(stake * UNIT), MAX_STAKE * UNIT)
        node = Node(kind, score, random.uniform(5, 20))
        if kind in ("honest", "once good"):
            node.pool = bytes(random.choice((10, 5, 2)) for _ in range(CRYNUX.pool_size))
        if kind == "unlucky":
            node.pool = bytes(1)
        node.settled_weight = network.compute_settled_weight(node)
        network.nodes.append(node)
    return network


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--days", type=int, default=60, help="maximum number of simulated days")
    parser.add_argument("--groups", type=float, default=0.1, help="share of groups of three")
    parser.add_argument("--floors", nargs="+", default=FLOORS)
    arguments = parser.parse_args()
    print(
        f"{arguments.nodes} nodes, at most {arguments.days} days, "
        f"{arguments.groups:.0%} of jobs in groups"
    )
    print("floor   new: out  days  tasks   day 1   once good: out  days  tasks  unlucky, back")
    for floor in arguments.floors:
        print(simulate_floor(arguments, floor), flush=True)


def simulate_floor(arguments: argparse.Namespace, floor: str) -> str:
    """Simulate one minimum weight until all dead nodes are kicked out; return the printed row."""
    network = create_network(arguments.nodes, floor)
    new, good, unlucky = (
        [node for node in network.nodes if node.kind == kind]
        for kind in ("new", "once good", "unlucky")
    )
    jobs_per_day = arguments.nodes * JOBS_PER_NODE
    wasted_share = 0.0
    for job in range(arguments.days * jobs_per_day):
        start_time = job * DAY // jobs_per_day
        if network.random.random() < arguments.groups:
            network.run_group(start_time)
        else:
            network.run_task(network.draw(start_time, []), start_time)
        if job == jobs_per_day:
            wasted_share = sum(node.drawn for node in new) / network.draws
        if job % jobs_per_day == 0 and all(
            node.kicked_out_at is not None for node in (*new, *good)
        ):
            break
    recovered_count = sum(len(node.pool) == CRYNUX.pool_size for node in unlucky)
    line = f"{floor:6}{_format_group(new)}{wasted_share:8.2%}{_format_group(good):>25}"
    return f"{line}{recovered_count:14} of {len(unlucky)}"


def _format_group(nodes: list[Node]) -> str:
    """Return how many nodes were kicked out, and the median days and tasks until then."""
    kicked_out_nodes = [node for node in nodes if node.kicked_out_at is not None]
    days = (
        f"{median(node.kicked_out_at or 0 for node in kicked_out_nodes):.1f}"
        if kicked_out_nodes
        else "-"
    )
    drawn = median(node.drawn for node in kicked_out_nodes or nodes)
    return f"{len(kicked_out_nodes):4} of {len(nodes)}{days:>6}{drawn:7.0f}"


if __name__ == "__main__":
    main()
