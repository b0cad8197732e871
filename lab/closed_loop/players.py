"""Nodes, orders and tasks of a closed loop, and the behaviours of nodes.

Money is in gwei; times are block times in seconds.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from lab.closed_loop.chance import RandomStream
from oracle.domain.ids import Address, GroupKey, TaskKey

# Owners of nodes and tasks.
HONEST_OWNER = "honest"
APPLICATIONS = "applications"
ATTACKER = "attacker"
TREASURY = "treasury"
GROUP_SIZE = 3

# Answers; two answers are equal if their numbers are. An agreed lie is one number.
ERROR = 0
TRUTH = 1
AGREED_LIE = 2
# Numbers from here on are individual lies, which equal no other answer.
FIRST_UNIQUE_LIE = 1000


class OrderShape(NamedTuple):
    """The shape of an order: `members` equal tasks, 1 or a group.

    `size` is the declared size and `work` the real work, both in units; `timeout` in seconds;
    `fee` per task.
    """

    members: int
    size: int
    work: int
    timeout: int
    fee: int


class Intention(NamedTuple):
    """When a node intends to answer.

    `delay_seconds` is the delay in seconds. None means never, unless `awaited_answers` other
    members have answered: then one second later, and without them at the last moment.
    """

    delay_seconds: int | None
    awaited_answers: int = 0


class NodeAnswer(NamedTuple):
    """An answer, and for how many seconds the GPU computed it.

    `answer` None: no answer after all. `can_reveal`: whether the node can reveal what it committed
    to.
    """

    answer: int | None
    computed_seconds: int
    can_reveal: bool = True


class NodeEvent(Enum):
    """Events at which a node decides whether to leave."""

    EXCLUDED = auto()
    KICKOUT_PENDING = auto()
    KICKED_OUT = auto()


class Reaction(Enum):
    """A node's reaction to such an event."""

    STAY = auto()
    # Leave, and join again as soon as possible with the same address.
    RETURN = auto()
    # Leave, and join at once with another address.
    NEW_ADDRESS = auto()


class Behaviour(Protocol):
    """The behaviour of a node, with the knowledge of its owner's nodes and creators only."""

    def begin(self, task: "LoopTask") -> Intention:
        """Decide, when the task starts, when to answer."""
        ...

    def finish(self, task: "LoopTask") -> NodeAnswer:
        """Decide, at that time, what to answer."""
        ...

    def react(self, event: NodeEvent) -> Reaction:
        """Decide whether to stay."""
        ...


class HonestBehaviour:
    """Computes every task, answers as soon as it can, and stays."""

    def begin(self, task: "LoopTask") -> Intention:
        """Answer when the work is done, even if that is too late."""
        return Intention(task.seconds)

    def finish(self, task: "LoopTask") -> NodeAnswer:
        """Return the true result."""
        return NodeAnswer(TRUTH, task.seconds)

    def react(self, event: NodeEvent) -> Reaction:  # noqa: ARG002 - it never minds
        """Stay, whatever the event."""
        return Reaction.STAY


HONEST = HonestBehaviour()


@dataclass(frozen=True, slots=True)
class NodeRole:
    """One node: `speed` in milliseconds per unit, `failures` in a million tasks.

    `stops_at`: seconds after the begin from which it answers nothing. `card`: nodes with the same
    number share a GPU; None for a GPU of its own. `cost`: cost of computing and of being online,
    in thousandths of the usual. `kind`: its category in comparisons.
    """

    owner: str
    stake: int
    speed: int
    failures: int = 0
    behaviour: Behaviour = HONEST
    stops_at: int | None = None
    card: int | None = None
    cost: int = 1000
    kind: str = "good"


@dataclass(slots=True, eq=False)
class LoopNode:
    """The state of a node.

    `first_joined_at`: when it first joined. `joined_at` is None while it is not a member.
    `leaving`: its reaction when its task ends. `kick_at`: when a pending kickout is executed.
    `recent_scores`: creator and score of its last scored tasks.
    """

    role: NodeRole
    address: Address
    chance: RandomStream
    recent_scores: deque[tuple[Address, int]]
    card: int
    first_joined_at: int
    task: "LoopTask | None" = None
    joined_at: int | None = None
    leaving: Reaction | None = None
    kick_at: int | None = None
    start_count: int = 0
    earned_fees: int = 0
    # Seconds as a member before `joined_at`, and the time of the permanent removal.
    present_seconds: int = 0
    removed_at: int | None = None
    is_slashed: bool = False


@dataclass(slots=True, eq=False)
class AppOrder:
    """An order of a creator: one task, or a group.

    `contested`: the order whose verdict this group decides. `owner` is the creator's owner.
    """

    number: int
    owner: str
    creator: Address
    shape: OrderShape
    group: GroupKey | None
    tasks: "list[LoopTask]" = field(default_factory=list)
    contested: "AppOrder | None" = None
    # The winning answer; None if there is none, or none yet.
    verdict: int | None = None
    is_judged: bool = False


@dataclass(slots=True, eq=False)
class LoopTask:
    """One task of an order.

    `jitter`: the duration compared with the usual one, in thousandths. `seconds`: the duration on
    the node that has the task. `answer` is None until there is one.
    """

    key: TaskKey
    order: AppOrder
    jitter: int
    node: LoopNode | None = None
    started_at: int | None = None
    seconds: int = 0
    answer: int | None = None
    answered_at: int | None = None
    can_reveal: bool = True
    awaited_answers: int = 0
    is_ended: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether the task has an answer, or has ended without one."""
        return self.is_ended or self.answer is not None

    @property
    def group_peers(self) -> "list[LoopTask]":
        """The other tasks of the group."""
        return [task for task in self.order.tasks if task is not self]
