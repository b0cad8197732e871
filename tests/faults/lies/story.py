"""The events on the chain of the lies, block by block, generated from a seed.

The module knows nothing of contracts, logs or `oracle`. `networks` encodes a story for a profile,
and `expected` computes its expected result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

NODES = 8


@dataclass(frozen=True, slots=True)
class Action:
    """One action in its own transaction.

    `kind` is join, refused, pause, resume, create, start, submit, time_out, validate or noise.
    `node`, `group` and `tasks` are numbers. For `validate`, the first `node` tasks were submitted;
    the first of all is accepted, and the others are refunded. `fee` is in wei.
    """

    kind: str
    node: int = 0
    tasks: tuple[int, ...] = ()
    group: int = 0
    fee: int = 0
    # Of `validate`: the nodes of those tasks that submitted, which come first.
    runners: tuple[int, ...] = ()


@dataclass
class Story:
    """Groups of three tasks run on eight nodes; some tasks are late, and some nodes pause."""

    seed: int
    idle: list[int] = field(default_factory=list)
    paused: list[int] = field(default_factory=list)
    groups: int = 0
    # Running groups: their number, and the node of each of their tasks.
    running: list[tuple[int, dict[int, int]]] = field(default_factory=list)
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)  # noqa: S311 - repeatable, no secret

    def blocks(self, busy: int, quiet: int = 0) -> list[list[Action]]:
        """Return the actions of each block: `busy` blocks, mostly not empty, then `quiet` ones."""
        opening = [
            [Action("join", node, fee=10**18 + node) for node in (n, n + 1)]
            for n in range(1, NODES + 1, 2)
        ]
        self.idle = list(range(1, NODES + 1))
        later_blocks = [list(self._block()) for _ in range(busy - len(opening))]
        return [*opening, *later_blocks, *([] for _ in range(quiet))]

    def _block(self) -> Iterator[Action]:
        for _ in range(self.chance.choice([1, 1, 1, 2, 2, 0])):
            yield from self.chance.choice(
                [
                    self._start_group,
                    self._start_group,
                    self._end_group,
                    self._end_group,
                    self._toggle_pause,
                    self._add_noise,
                ]
            )()

    def _start_group(self) -> list[Action]:
        if len(self.idle) < 3:
            return self._end_group()
        self.groups += 1
        nodes = self.chance.sample(self.idle, 3)
        self.idle = [node for node in self.idle if node not in nodes]
        tasks = {self.groups * 10 + place: node for place, node in enumerate(nodes)}
        self.running.append((self.groups, tasks))
        fee = 10**15 + self.groups
        actions = [Action("create", 0, (task,), self.groups, fee) for task in tasks]
        return [*actions, *(Action("start", node, (task,)) for task, node in tasks.items())]

    def _end_group(self) -> list[Action]:
        if not self.running:
            return []
        group, tasks = self.running.pop(self.chance.randrange(len(self.running)))
        self.idle += tasks.values()
        order = self.chance.sample(list(tasks), 3)
        late = order.pop() if self.chance.random() < 0.3 else None
        actions = [Action("submit", tasks[task], (task,)) for task in order]
        if late is not None:
            actions.append(Action("time_out", tasks[late], (late,)))
        tasks_in_order = (*order, *([] if late is None else [late]))
        runners = tuple(tasks[task] for task in order)
        return [*actions, Action("validate", len(order), tasks_in_order, group, runners=runners)]

    def _toggle_pause(self) -> list[Action]:
        if self.paused:
            node = self.paused.pop()
            self.idle.append(node)
            return [Action("resume", node)]
        if len(self.idle) < 4:
            return self._add_noise()
        node = self.idle.pop()
        self.paused.append(node)
        return [Action("pause", node)]

    def _add_noise(self) -> list[Action]:
        """Return actions without an effect: a log of another contract, and a reverted call."""
        return [Action("noise"), Action("refused", self.chance.randint(1, NODES))]
