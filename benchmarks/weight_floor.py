"""What a least weight brings and costs: how long until a dead node is out, and the work it wastes.

Run: .venv/bin/python benchmarks/weight_floor.py [--nodes 1000] [--days 60] [--groups 0.1]
A closed loop: who is drawn follows from the scores, and scores from who was drawn. Scores, H and
weights are those of `crynux`; honest nodes are of different stakes and speeds, silent in one task
of a hundred, 2 % of the nodes never answer anything from their first task on (new), 2 % have a
full pool of good scores and stop answering (once good), 2 % are honest and unlucky: a 0 is their
first score. Every node is always free, and every job a node's own or a group of three.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# A checkout that is not installed runs it too; so the imports below cannot stand above (E402).
sys.path.insert(0, str(ROOT))

from oracle.domain.fixed_point import UNIT, multiply_fixed  # noqa: E402
from oracle.domain.scoring.group_ranking import get_rank_score  # noqa: E402
from oracle.domain.scoring.node_scores import is_below_line  # noqa: E402
from oracle.domain.scoring.reliability import (  # noqa: E402
    boost_reliability,
    heal_reliability,
    penalize_reliability,
)
from oracle.domain.scoring.rule_json import parse_fraction  # noqa: E402
from oracle.domain.scoring.score_window import append_score, compute_pool_mean  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from oracle.systems.crynux.selection_weight import Weighting, compute_stake_score, compute_weight  # noqa: E402

FLOORS = ("0", "0.003", "0.01", "0.03", "0.1")
DAY = 86_400
JOBS_A_NODE = 100
SHARE_OF_EACH = 50
SILENT = 0.01
MAX_STAKE = 20
# No weight without models is above S = QoS = 1: a half.
HIGHEST = UNIT // 2


@dataclass(slots=True)
class Node:
    kind: str
    stake: int
    speed: float
    pool: bytes = b""
    base: int = UNIT
    since: int = 0
    # The weight while H is 1.
    settled: int = 0
    drawn: int = 0
    out_at: float | None = None

    @property
    def answers(self) -> bool:
        return self.kind in ("honest", "unlucky")


@dataclass
class Network:
    """Everybody, and the chances that they have."""

    weighting: Weighting
    random: Random
    nodes: list[Node] = field(default_factory=list)
    draws: int = 0

    def weigh(self, node: Node, time: int) -> int:
        """Return W; 0 where H excludes it."""
        h = heal_reliability(node.base, node.since, time, CRYNUX)
        if h < CRYNUX.exclude_enter:
            return 0
        qos = multiply_fixed(compute_pool_mean(node.pool, None, CRYNUX), h)
        return compute_weight(UNIT, node.stake, qos, self.weighting)

    def draw(self, time: int, busy: list[Node]) -> Node:
        """Choose by weight: anybody, accepted with the chance of his weight in the highest."""
        while True:
            node = self.nodes[int(self.random.random() * len(self.nodes))]
            weight = node.settled if node.base == UNIT else self.weigh(node, time)
            if self.random.random() * HIGHEST < weight and node not in busy:
                self.draws += 1
                node.drawn += 1
                return node

    def runs(self, node: Node, time: int) -> float | None:
        """Return how long it takes a node to answer, and bring the end into H; None: never."""
        is_silent = not node.answers or self.random.random() < SILENT
        if is_silent or node.base != UNIT:
            h = heal_reliability(node.base, node.since, time, CRYNUX)
            node.base = (
                penalize_reliability(h, CRYNUX) if is_silent else boost_reliability(h, CRYNUX)
            )
            node.since = time
        return None if is_silent else node.speed * self.random.uniform(0.7, 1.3)

    def group(self, time: int) -> None:
        """Three nodes run the same, and are ranked; nobody answers: no scores."""
        members: list[Node] = []
        for _ in range(3):
            members.append(self.draw(time, members))
        ran = [(self.runs(node, time), node) for node in members]
        ranked = sorted((took, id(node), node) for took, node in ran if took is not None)
        ranks = {id(node): rank for rank, (_, _, node) in enumerate(ranked, start=1)}
        for node in members if ranked else ():
            rank = ranks.get(id(node))
            self.score(
                node, CRYNUX.absent_score if rank is None else get_rank_score(rank, CRYNUX), time
            )

    def score(self, node: Node, score: int, time: int) -> None:
        node.pool = append_score(node.pool, score, CRYNUX)
        node.settled = self.settled(node)
        if len(node.pool) == CRYNUX.pool_size and is_below_line(sum(node.pool), CRYNUX):
            node.out_at = time / DAY
            self.nodes.remove(node)

    def settled(self, node: Node) -> int:
        qos = compute_pool_mean(node.pool, None, CRYNUX)
        return compute_weight(UNIT, node.stake, qos, self.weighting)


def network(nodes: int, floor: str) -> Network:
    """Build the same crowd for every floor."""
    random = Random(1)  # noqa: S311 - repeatable, no secret
    simulated = Network(Weighting(weight_floor=parse_fraction("floor", floor)), random)
    nodes_per_share = nodes // SHARE_OF_EACH
    kinds = [
        *["new"] * nodes_per_share,
        *["once good"] * nodes_per_share,
        *["unlucky"] * nodes_per_share,
    ]
    for kind in [*kinds, *["honest"] * (nodes - len(kinds))]:
        # Few have much, most have little.
        stake = min(MAX_STAKE, random.paretovariate(1.2))
        score = compute_stake_score(int(stake * UNIT), MAX_STAKE * UNIT)
        node = Node(kind, score, random.uniform(5, 20))
        if kind in ("honest", "once good"):
            node.pool = bytes(random.choice((10, 5, 2)) for _ in range(CRYNUX.pool_size))
        if kind == "unlucky":
            node.pool = bytes(1)
        node.settled = simulated.settled(node)
        simulated.nodes.append(node)
    return simulated


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--days", type=int, default=60, help="at most; less where all are out")
    parser.add_argument("--groups", type=float, default=0.1, help="jobs that are groups of three")
    parser.add_argument("--floors", nargs="+", default=FLOORS)
    arguments = parser.parse_args()
    print(
        f"{arguments.nodes} nodes, at most {arguments.days} days, "
        f"{arguments.groups:.0%} of jobs in groups"
    )
    print("floor   new: out  days  tasks   day 1   once good: out  days  tasks   unlucky: back")
    for floor in arguments.floors:
        print(played(arguments, floor), flush=True)


def played(arguments: argparse.Namespace, floor: str) -> str:
    """Play one floor until all the dead are out, and say what became of each kind."""
    crowd = network(arguments.nodes, floor)
    new, good, unlucky = (
        [node for node in crowd.nodes if node.kind == kind]
        for kind in ("new", "once good", "unlucky")
    )
    jobs_a_day, wasted = arguments.nodes * JOBS_A_NODE, 0.0
    for job in range(arguments.days * jobs_a_day):
        time = job * DAY // jobs_a_day
        if crowd.random.random() < arguments.groups:
            crowd.group(time)
        else:
            crowd.runs(crowd.draw(time, []), time)
        if job == jobs_a_day:
            wasted = sum(node.drawn for node in new) / crowd.draws
        if job % jobs_a_day == 0 and all(node.out_at is not None for node in (*new, *good)):
            break
    back = sum(len(node.pool) == CRYNUX.pool_size for node in unlucky)
    line = f"{floor:6}{_shown(new)}{wasted:8.2%}{_shown(good):>25}"
    return f"{line}{back:14} of {len(unlucky)}"


def _shown(nodes: list[Node]) -> str:
    """Say how many are out, after how many days, and how many tasks each had; the middle ones."""
    out = [node for node in nodes if node.out_at is not None]
    days = f"{median(node.out_at or 0 for node in out):.1f}" if out else "-"
    drawn = median(node.drawn for node in out or nodes)
    return f"{len(out):4} of {len(nodes)}{days:>6}{drawn:7.0f}"


if __name__ == "__main__":
    main()
