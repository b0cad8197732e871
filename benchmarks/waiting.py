"""Measure the dispatcher's time per block with few and with many waiting tasks.

Run: .venv/bin/python benchmarks/waiting.py [--waiting 1000] [--nodes 10000] [--blocks 30]
No free node fits the waiting tasks, as if they required a GPU model that is busy. In each block a
hundred nodes start or end a task, ten tasks are created and ten end. The measured code is the hook
at the end of a block with SQLite, as it runs while the daemon catches up. The baseline reads all
waiting tasks and checks for each of them whether a free node fits.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
# Set the path before the imports below (hence noqa E402), so that the script also runs in a
# checkout that is not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.outcome import Outcome, begin_benchmark, finish_benchmark  # noqa: E402
from benchmarks.selection import Case, Network  # noqa: E402
from oracle.dispatch.assigner import DrawHook  # noqa: E402
from oracle.dispatch.dispatch_settings import DispatchSettings  # noqa: E402
from oracle.domain.blocks import BlockRef, Position  # noqa: E402
from oracle.domain.events.network_events import TaskKind  # noqa: E402
from oracle.domain.fold.working_set import Changes  # noqa: E402
from oracle.domain.ids import Hash, TaskKey  # noqa: E402
from oracle.domain.reports.contract_state import ContractState  # noqa: E402
from oracle.domain.roots.pieces import KEPT_ROUNDS  # noqa: E402
from oracle.domain.state import (  # noqa: E402
    Ending,
    Node,
    Task,
    create_task,
)
from oracle.store.database import Store, UnitOfWork  # noqa: E402
from oracle.systems.crynux.crynux_policy import CRYNUX_WEIGHTING  # noqa: E402
from oracle.systems.crynux.crynux_rule_sets import CRYNUX  # noqa: E402
from oracle.systems.crynux.pricing import Pricing  # noqa: E402
from oracle.systems.crynux.requirements import build_requirement, find_misfit_reason  # noqa: E402
from tests.support.scripted import ScriptedReader  # noqa: E402

FEW_TASKS = 50
# Number of tasks per block that are created, and number that end.
CHANGED_TASKS = 10
# Required video memory in GB. No node has more than 80, so the tasks keep waiting.
TOO_MUCH_MEMORY = 96
MEMORY_KINDS = 5
SETTINGS = DispatchSettings(
    start_block=0,
    rules=CRYNUX,
    policy="crynux",
    weighting=CRYNUX_WEIGHTING,
    pricing=Pricing(dict.fromkeys(TaskKind, Fraction(1)), dict.fromkeys(TaskKind, Fraction(0))),
    alpha=Fraction(1, 4),
    max_in_flight=64,
)


class WaitingTasks:
    """Waiting tasks that fit no node; in each block as many tasks end as are created."""

    def __init__(self, count: int) -> None:
        self.tasks = [create_waiting_task(number) for number in range(count)]
        self._created_count = count

    def advance_block(self) -> list[Task]:
        """Advance by one block, and return the tasks that the block changed."""
        ended_tasks = self.tasks[:CHANGED_TASKS]
        self.tasks = self.tasks[CHANGED_TASKS:]
        for task in ended_tasks:
            task.ending = Ending.ABORTED
        new_tasks = [
            create_waiting_task(self._created_count + number) for number in range(CHANGED_TASKS)
        ]
        self.tasks += new_tasks
        self._created_count += CHANGED_TASKS
        return ended_tasks + new_tasks


def create_waiting_task(number: int) -> Task:
    task = create_task(TaskKey(f"0x{number:064x}"))
    task.created_at = Position(0, number, 0)
    task.min_vram = TOO_MUCH_MEMORY + number % MEMORY_KINDS
    return task


def build_block_ref(number: int, seconds: int) -> BlockRef:
    block_hash = Hash("0x" + sha256(b"%d" % number).hexdigest())
    return BlockRef(number, block_hash, block_hash, seconds)


def measure_block_milliseconds(nodes: int, waiting: int, blocks: int) -> float:
    """Return the median of the CPU milliseconds per block."""
    network = Network(Case("waiting", nodes))
    with (
        tempfile.TemporaryDirectory(prefix="qos-oracle-waiting.") as folder_name,
        Store.open(f"sqlite:///{folder_name}/oracle.sqlite", create=True) as store,
    ):
        tasks = WaitingTasks(waiting)
        save_rows(store, list(network.nodes.values()), tasks.tasks)
        hook = DrawHook(SETTINGS, ScriptedReader())
        hook_milliseconds = []
        for number in range(blocks + 1):
            changed_nodes = network.advance_block()
            changed_tasks = tasks.advance_block()
            for node in changed_nodes:
                node.changed_at = number
            save_rows(store, changed_nodes, changed_tasks)
            hook.on_folded(Changes(tasks={task.key: task for task in changed_tasks}))
            with store.transaction() as uow:
                hook_milliseconds.append(
                    measure_hook(hook, uow, build_block_ref(number, network.time))
                )
    return median(hook_milliseconds[1:])


def save_rows(store: Store, nodes: Sequence[Node], tasks: Sequence[Task]) -> None:
    with store.transaction() as uow:
        uow.nodes.save(nodes)
        uow.tasks.save(tasks)


def measure_hook(hook: DrawHook, uow: UnitOfWork, block: BlockRef) -> float:
    start = time.process_time()
    hook.on_block(uow, ContractState(KEPT_ROUNDS), block, final_number=-1)
    return 1000 * (time.process_time() - start)


def measure_plain_check(network: Network, waiting: int) -> float:
    """Return the CPU milliseconds of checking each waiting task against each free node."""
    free_nodes = [node for node in network.nodes.values() if not node.running and not node.paused]
    with (
        tempfile.TemporaryDirectory(prefix="qos-oracle-waiting.") as folder_name,
        Store.open(f"sqlite:///{folder_name}/oracle.sqlite", create=True) as store,
    ):
        save_rows(store, [], WaitingTasks(waiting).tasks)
        start = time.process_time()
        with store.read_transaction() as uow:
            for task in uow.tasks.list_waiting():
                requirement = build_requirement(task)
                assert not any(
                    find_misfit_reason(node, requirement) is None for node in free_nodes
                )
        return 1000 * (time.process_time() - start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--blocks", type=int, default=30)
    arguments = parser.parse_args()
    begin_benchmark("the fold, draws, calls on chain, tasks of more than five kinds")
    few_ms, many_ms = (
        measure_block_milliseconds(arguments.nodes, count, arguments.blocks)
        for count in (FEW_TASKS, arguments.waiting)
    )
    baseline_ms = measure_plain_check(Network(Case("waiting", arguments.nodes)), arguments.waiting)
    print(
        f"block with {FEW_TASKS} waiting tasks: {few_ms:.2f} ms; "
        f"with {arguments.waiting:,}: {many_ms:.2f} ms"
    )
    return finish_benchmark(
        [
            Outcome(
                title=f"block with {arguments.waiting:,} waiting tasks (target: twice the time "
                f"with {FEW_TASKS})",
                value=many_ms,
                unit="ms CPU",
                target=2 * few_ms,
                baseline=baseline_ms,
                baseline_name="checking each task against each free node",
            )
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
