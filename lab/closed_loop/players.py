"""Nodes, orders and tasks of a closed loop, and how a node may behave.

Money is in gwei, times are block times in seconds.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from lab.closed_loop.chance import Chance
from oracle.domain.ids import Address, GroupKey, TaskKey

# Owners: whose node, whose task.
HONEST_OWNER = "honest"
APPLICATIONS = "applications"
ATTACKER = "attacker"
TREASURY = "treasury"
GROUP = 3

# Answers, where two are equal if their numbers are. A lie that friends agree on is one number.
ERROR = 0
TRUTH = 1
AGREED_LIE = 2
# Of this number and above: lies of one's own, equal to nobody's.
OWN_LIES = 1000


class OrderShape(NamedTuple):
    """What an application asks for: `members` tasks alike, 1 or a group.

    `size` is what it says, `work` what it takes, both in units; `timeout` in seconds; `fee` of
    each task.
    """

    members: int
    size: int
    work: int
    timeout: int
    fee: int


class Intention(NamedTuple):
    """When a node means to answer.

    `after` so many seconds; None: not at all, unless `fellows` of its group have answered: then a
    second later, and without them at the last moment.
    """

    after: int | None
    fellows: int = 0


class NodeAnswer(NamedTuple):
    """An answer, and for how many seconds the card computed it.

    `answer` None: it stays silent after all. `opens`: whether it can show what it committed to.
    """

    answer: int | None
    computed: int
    opens: bool = True


class Turnpoint(Enum):
    """What makes a node think about leaving."""

    EXCLUDED = auto()
    KICKOUT_PENDING = auto()
    KICKED_OUT = auto()


class Reaction(Enum):
    """What a node does about it."""

    STAY = auto()
    # It leaves, and joins again as soon as it may, by the same address.
    RETURN = auto()
    # It leaves, and joins at once by another address.
    NEW_ADDRESS = auto()


class Behaviour(Protocol):
    """How a node plays. It knows what its owner's nodes and creators know, and no more."""

    def begin(self, task: "LoopTask") -> Intention:
        """Decide, as the task starts, when to answer."""
        ...

    def finish(self, task: "LoopTask") -> NodeAnswer:
        """Decide, at that time, what to answer."""
        ...

    def react(self, happening: Turnpoint) -> Reaction:
        """Decide whether to stay."""
        ...


class HonestBehaviour:
    """Computes every task, answers as soon as it can, and stays."""

    def begin(self, task: "LoopTask") -> Intention:
        """Answer when the work is done; where that is too late, it is too late."""
        return Intention(task.seconds)

    def finish(self, task: "LoopTask") -> NodeAnswer:
        """Say what came of the work."""
        return NodeAnswer(TRUTH, task.seconds)

    def react(self, happening: Turnpoint) -> Reaction:  # noqa: ARG002 - it never minds
        """Stay, whatever happens."""
        return Reaction.STAY


HONEST = HonestBehaviour()


@dataclass(frozen=True, slots=True)
class NodeRole:
    """One node: `speed` in milliseconds a unit, `failures` in a million tasks.

    `stops_at`: from so many seconds after the begin it answers nothing. `card`: nodes of one
    number compute on the same; None: on one of its own. `cost`: what it costs to compute and to
    be there, in thousandths of the usual. `kind`: as a comparison counts it.
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
    """A node as it plays, and what it has come to.

    `entered`: when it first joined. `joined_at` None: no member now. `leaving`: what it does when
    its task ends. `kick_at`: when a pending kickout is executed. `scored_for`: creator and
    score of its last scored tasks.
    """

    role: NodeRole
    address: Address
    chance: Chance
    scored_for: deque[tuple[Address, int]]
    card: int
    entered: int
    task: "LoopTask | None" = None
    joined_at: int | None = None
    leaving: Reaction | None = None
    kick_at: int | None = None
    starts: int = 0
    earned: int = 0
    # Seconds as a member before `joined_at`, and when it was put out for good.
    present: int = 0
    out_at: int | None = None
    is_slashed: bool = False


@dataclass(slots=True, eq=False)
class AppOrder:
    """What a creator ordered: one task, or a group.

    `contested`: the order whose verdict this group decides about. `owner` is the creator's.
    """

    number: int
    owner: str
    creator: Address
    shape: OrderShape
    group: GroupKey | None
    tasks: "list[LoopTask]" = field(default_factory=list)
    contested: "AppOrder | None" = None
    # The answer that won; None: none did, or it is not judged yet.
    verdict: int | None = None
    is_judged: bool = False


@dataclass(slots=True, eq=False)
class LoopTask:
    """One task of an order.

    `jitter`: how much longer than usual it takes, in thousandths. `seconds`: what it takes the
    node that has it. `answer` None: none so far.
    """

    key: TaskKey
    order: AppOrder
    jitter: int
    node: LoopNode | None = None
    started: int | None = None
    seconds: int = 0
    answer: int | None = None
    answered: int | None = None
    opens: bool = True
    waits_for: int = 0
    is_ended: bool = False

    @property
    def is_settled(self) -> bool:
        """Tell whether it has an answer, or has ended without."""
        return self.is_ended or self.answer is not None

    @property
    def fellows(self) -> "list[LoopTask]":
        """Return the other tasks of its group."""
        return [task for task in self.order.tasks if task is not self]
