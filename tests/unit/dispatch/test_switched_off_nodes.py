"""A node that is switched off without leaving is kicked out by the dispatcher's own tasks."""

from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256

from oracle.dispatch.drawer import BlockDrawer
from oracle.domain.blocks import BlockRef
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import GroupKey, Hash
from oracle.domain.scoring.node_scores import is_kickout_due
from oracle.domain.state import Node, Task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.pocket.pocket_policy import PocketEvaluator
from oracle.systems.task_queue import is_waiting
from tests.support.histories import History, make_node_address, make_task_key
from tests.support.txmgr.dispatch_harness import build_dispatch_settings

ALIVE = ("A", "B", "C")
OFF = "D"
LIMIT = 300
# Between two waves, the reliability of all nodes has healed.
REST = 6 * 3600


@dataclass
class Network:
    """A history that is folded as it grows, and the drawer's view of it."""

    history: History = field(default_factory=History)
    fold: Fold = field(default_factory=lambda: Fold(CRYNUX))
    folded: int = 0

    def catch_up(self) -> None:
        self.fold.fold_events(self.history.events[self.folded :])
        self.folded = len(self.history.events)
        self.fold.drain_changes()

    def get_waiting_tasks(self) -> Sequence[Task]:
        return [task for task in self.fold.ledger.tasks.values() if is_waiting(task)]

    def get_group_tasks(self, groups: AbstractSet[GroupKey]) -> Sequence[Task]:
        return [task for task in self.fold.ledger.tasks.values() if task.group in groups]

    def pop_changed_tasks(self) -> Sequence[Task]:
        return list(self.fold.ledger.tasks.values())

    def get_nodes_changed_since(self, _: int | None) -> Iterable[Node]:
        return self.fold.ledger.nodes.values()

    def get_pocket_evaluator(self, _: int) -> PocketEvaluator:
        raise AssertionError("this policy remembers nothing")

    def node(self, name: str) -> Node:
        return self.fold.ledger.nodes[make_node_address(name)]


class Play:
    """Waves of two groups of three for four nodes: one node of each group is drawn,
    whatever its weight.
    """

    def __init__(self) -> None:
        self.network = Network()
        self.drawer = BlockDrawer(
            build_dispatch_settings(self.network.history.block, rules=CRYNUX)
        )
        self.draws: list[str] = []
        self.runs: dict[str, str] = {}
        self.network.history.joins(*ALIVE, OFF, stake=1)
        self.drawn()

    def wave(self, number: int) -> None:
        history = self.network.history
        groups = {f"g{number}{half}": [f"{number}{half}{n}" for n in range(3)] for half in "xy"}
        for name, tasks in groups.items():
            history.creates(*tasks, of=name, fee=1, timeout=LIMIT)
        while groups:
            self.drawn()
            self.answers()
            for name in [name for name, tasks in groups.items() if self.is_settled(tasks)]:
                self.judged(name, groups.pop(name))
        self.wait(REST)

    def drawn(self) -> None:
        """End a block, and start the drawn tasks in the next one."""
        history, network = self.network.history, self.network
        network.catch_up()
        hashed = Hash("0x" + sha256(str(history.block).encode()).hexdigest())
        turn = self.drawer.draw_at_block(
            network, BlockRef(history.block, hashed, hashed, history.time)
        )
        history.after(1)
        for draw in turn.new_draws:
            name = decode_task_name(draw.task)
            runner = decode_task_name(draw.node)
            self.draws.append(runner)
            self.runs[name] = runner
            history.starts(name, runner)

    def answers(self) -> None:
        """Let running nodes answer in the block of their start,
        and nodes that are off time out.
        """
        for name in self.open():
            if self.runs[name] != OFF:
                self.network.history.submits(name)
        silent = [name for name in self.open() if self.runs[name] == OFF]
        if silent:
            self.wait(LIMIT)
            for name in silent:
                self.network.history.times_out(name)

    def wait(self, seconds: int) -> None:
        self.drawn()
        self.network.history.time += seconds

    def open(self) -> Iterator[str]:
        self.network.catch_up()
        for name, _ in list(self.runs.items()):
            stored_task = self.network.fold.ledger.tasks[make_task_key(name)]
            if stored_task.stopped_at is None and stored_task.ending is None:
                yield name

    def is_settled(self, tasks: Sequence[str]) -> bool:
        self.network.catch_up()
        stored_tasks = [self.network.fold.ledger.tasks[make_task_key(name)] for name in tasks]
        return all(
            stored_task.stopped_at is not None or stored_task.ending is not None
            for stored_task in stored_tasks
        )

    def judged(self, name: str, tasks: Sequence[str]) -> None:
        history, ledger = self.network.history, self.network.fold.ledger
        history.closes(name, *tasks)
        for task_name in tasks:
            if ledger.tasks[make_task_key(task_name)].ending is None:
                history.succeeds(task_name)


def decode_task_name(key: str) -> str:
    return bytes.fromhex(key[2:]).lstrip(b"\0").decode()


def test_unresponsive_node_is_drawn_until_it_is_due_for_kickout():
    play = Play()
    waves = 0
    while waves < 60 and not is_kickout_due(play.network.node(OFF), CRYNUX):
        waves += 1
        play.wave(waves)
        play.network.catch_up()

    off = play.network.node(OFF)
    assert is_kickout_due(off, CRYNUX)
    assert (off.pool, off.scored) == (bytes(50), 50)
    assert play.draws.count(OFF) >= 50
    assert not any(is_kickout_due(play.network.node(name), CRYNUX) for name in ALIVE)
