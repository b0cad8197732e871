"""What a block costs the dispatcher by how many tasks wait: a catch-up with 50, 1,000 and more.

Run: .venv/bin/python benchmarks/waiting.py [--waiting 1000] [--nodes 10000] [--blocks 30]
Nobody fits the tasks that wait, as where they ask for a card that is busy; each block a hundred
nodes start or end something. The obvious way asks of each task anew whether a free node fits it.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# A checkout that is not installed runs it too; so the imports below cannot stand above (E402).
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin, end  # noqa: E402
from benchmarks.selection import Case, Network  # noqa: E402
from oracle.dispatch.dispatch_settings import DispatchSettings  # noqa: E402
from oracle.dispatch.drawer import BlockDrawer  # noqa: E402
from oracle.domain.blocks import BlockRef, Position  # noqa: E402
from oracle.domain.events.network_events import TaskKind  # noqa: E402
from oracle.domain.ids import Address, GroupKey, Hash, TaskKey  # noqa: E402
from oracle.domain.state.node import Node  # noqa: E402
from oracle.domain.state.task import Task, new_task  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import SEED  # noqa: E402
from oracle.systems.crynux.pricing import Pricing  # noqa: E402
from oracle.systems.crynux.requirements import misfit, requirement_of  # noqa: E402
from oracle.systems.crynux.selection_weight import SEED_WEIGHTING  # noqa: E402

FEW = 50
# Nobody has more than 80.
TOO_MUCH_MEMORY = 96
KINDS = 5
SETTINGS = DispatchSettings(
    start_block=0,
    rules=SEED,
    policy="seed",
    weighting=SEED_WEIGHTING,
    pricing=Pricing(dict.fromkeys(TaskKind, Fraction(1)), dict.fromkeys(TaskKind, Fraction(0))),
    alpha=Fraction(1, 4),
    max_in_flight=64,
)


@dataclass
class WaitingNetwork:
    """The network of `selection.py`, and tasks that nobody fits."""

    network: Network
    tasks: list[Task]
    changed: Sequence[Node] = ()

    def waiting(self) -> Sequence[Task]:
        return self.tasks

    def of_groups(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for task in self.tasks if task.group in groups]

    def nodes(self, addresses: Iterable[Address]) -> Mapping[Address, Node]:
        return {one: self.network.nodes[one] for one in addresses}

    def changed_since(self, block: int | None) -> Iterable[Node]:
        return self.network.nodes.values() if block is None else self.changed


def waiting_tasks(count: int) -> list[Task]:
    tasks = []
    for number in range(count):
        one = new_task(TaskKey(f"0x{number:064x}"))
        one.created_at, one.min_vram = Position(0, number, 0), TOO_MUCH_MEMORY + number % KINDS
        tasks.append(one)
    return tasks


def block_at(number: int, seconds: int) -> BlockRef:
    told = Hash("0x" + sha256(b"%d" % number).hexdigest())
    return BlockRef(number, told, told, seconds)


def milliseconds(network: Network, waiting: int, blocks: int) -> float:
    """Return the median of a block, CPU."""
    view = WaitingNetwork(network, waiting_tasks(waiting))
    drawer = BlockDrawer(SETTINGS)
    spent = []
    for number in range(blocks + 1):
        view.changed = network.block()
        begun = time.process_time()
        drawer.turn(view, block_at(number, network.time))
        spent.append(1000 * (time.process_time() - begun))
    return median(spent[1:])


def obvious(network: Network, waiting: int) -> float:
    """Return what asking each task of each free node takes, CPU."""
    tasks = waiting_tasks(waiting)
    free = [one for one in network.nodes.values() if not one.running and not one.paused]
    begun = time.process_time()
    for task in tasks:
        wanted = requirement_of(task)
        assert not any(misfit(node, wanted) is None for node in free)
    return 1000 * (time.process_time() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=30)
    told = parser.parse_args()
    begin("the database's reading of the waiting tasks, calls on chain; tasks are of five kinds")
    network = Network(Case("waiting", told.nodes))
    few, many = (milliseconds(network, count, told.blocks) for count in (FEW, told.waiting))
    plain = obvious(network, told.waiting)
    print(f"a block with {FEW} waiting: {few:.2f} ms; with {told.waiting:,}: {many:.2f} ms")
    return end(
        [
            Outcome(
                what=f"a block with {told.waiting:,} waiting; target: twice that with {FEW}",
                got=many,
                unit="ms CPU",
                target=2 * few,
                baseline=plain,
                source="asking each task of each free node",
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
