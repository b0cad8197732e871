"""Defines the nodes, orders and tasks of a closed loop, and how nodes behave.

Money is in gwei; times are block times in seconds.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, Protocol

from lab.closed_loop.chance import RandomStream
from oracle.domain.ids import Address, GroupKey, TaskKey

# Owners of a node or a task.
HONEST_OWNER = "honest"
APPLICATIONS = "applications"
ATTACKER = "attacker"
TREASURY = "treasury"
GROUP_SIZE = 3

# An answer is a number, and two equal numbers are the same answer. All colluding nodes answer
# AGREED_LIE.
ERROR = 0
TRUTH = 1
AGREED_LIE = 2
# An answer with this or a higher number is a lie that no other node repeats.
FIRST_UNIQUE_LIE = 1000


class OrderShape(NamedTuple):
    """The shape of an order: one task, or a group of `members` equal tasks.

    `size` is the declared size and `work` the actual work of each task, both in units. `timeout`
    is in seconds. `fee` is the fee for one task in gwei.
    """

    members: int
    size: int
    work: int
    timeout: int
    fee: int


class Intention(NamedTuple):
    """A node's intended answer time.

    `delay_seconds` is the time from the start to the answer, or None. With None and
    `awaited_answers` = 0, the node never answers. With None and `awaited_answers` > 0, the node
    answers one second after that many other members, or in the last second before the timeout if
    fewer have answered by then.
    """

    delay_seconds: int | None
    awaited_answers: int = 0


class LoopScore(NamedTuple):
    """A task score, with the task's creator and the time when its group closed."""

    creator: Address
    score: int
    time: int
    is_answered: bool


class NodeAnswer(NamedTuple):
    """An answer, and the seconds that the GPU took to compute it.

    `answer` is None if the node decides not to answer. `can_reveal` is False if the node cannot
    open its commitment, for example because it copied the commitment.
    """

    answer: int | None
    computed_seconds: int
    can_reveal: bool = True


class NodeEvent(Enum):
    """The events after which a node decides whether to leave."""

    EXCLUDED = auto()
    KICKOUT_PENDING = auto()
    KICKED_OUT = auto()


class Reaction(Enum):
    """A node's reaction to a `NodeEvent`."""

    STAY = auto()
    # The node leaves and rejoins as soon as possible with the same address.
    RETURN = auto()
    # The node leaves and rejoins at once with another address.
    NEW_ADDRESS = auto()


class Behaviour(Protocol):
    """A node's behaviour, based only on what its owner's nodes and creators know."""

    def choose_answer_time(self, task: "LoopTask") -> Intention:
        """Return when to answer.

        This is called when the task starts.
        """
        ...

    def choose_answer(self, task: "LoopTask") -> NodeAnswer:
        """Return the answer.

        This is called at the time that `choose_answer_time` chose.
        """
        ...

    def choose_reaction(self, event: NodeEvent) -> Reaction:
        """Return whether the node stays or leaves after an event."""
        ...


class HonestBehaviour:
    """Computes every task, answers as soon as possible, and stays."""

    def choose_answer_time(self, task: "LoopTask") -> Intention:
        """Return when the work is done, even if this is after the timeout."""
        return Intention(task.seconds)

    def choose_answer(self, task: "LoopTask") -> NodeAnswer:
        """Return the true result."""
        return NodeAnswer(TRUTH, task.seconds)

    def choose_reaction(self, event: NodeEvent) -> Reaction:  # noqa: ARG002 - it never minds
        """Return `Reaction.STAY` for every event."""
        return Reaction.STAY


HONEST = HonestBehaviour()


@dataclass(frozen=True, slots=True)
class NodeRole:
    """The properties of one node.

    `speed` is in milliseconds of computing per unit of work. `failures` is the number of failed
    tasks per million. From `stops_at` seconds after the start of the loop, the node no longer
    answers. Nodes with the same number `gpu` share a GPU; None means a separate GPU. `cost` is
    the cost of computing and of being online, in thousandths of the usual cost. `kind` is the
    node's category in comparisons.
    """

    owner: str
    stake: int
    speed: int
    failures: int = 0
    behaviour: Behaviour = HONEST
    stops_at: int | None = None
    gpu: int | None = None
    cost: int = 1000
    kind: str = "good"


@dataclass(slots=True, eq=False)
class LoopNode:
    """The state of a node.

    `joined_at` is the time of the last join, or None while the node is not a member. `leaving` is
    the reaction that takes effect when the current task ends. `kick_at` is the time at which a
    pending kickout is executed. `recent_scores` are the node's last task scores.
    """

    role: NodeRole
    address: Address
    random_stream: RandomStream
    recent_scores: deque[LoopScore]
    gpu: int
    first_joined_at: int
    task: "LoopTask | None" = None
    joined_at: int | None = None
    leaving: Reaction | None = None
    kick_at: int | None = None
    start_count: int = 0
    earned_fees: int = 0
    # Seconds for which the node was a member before `joined_at`.
    present_seconds: int = 0
    # Time at which the node was kicked out or slashed.
    removed_at: int | None = None
    is_slashed: bool = False


@dataclass(slots=True, eq=False)
class AppOrder:
    """A creator's order for one task or one group.

    `owner` is the owner of the creator. `contested` is only set for a second group, and is the
    order whose verdict this group confirms or reverses.
    """

    number: int
    owner: str
    creator: Address
    shape: OrderShape
    group: GroupKey | None
    tasks: "list[LoopTask]" = field(default_factory=list)
    contested: "AppOrder | None" = None
    # The winning answer. It is None before the judgement, and if there is no majority.
    verdict: int | None = None
    is_judged: bool = False


@dataclass(slots=True, eq=False)
class LoopTask:
    """One task of an order.

    `jitter` is the task's duration relative to the usual duration, in thousandths. `seconds` is
    the duration on the node that runs the task. `answer` is None until the node has answered.
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
        """Whether the task has an answer or has ended without one."""
        return self.is_ended or self.answer is not None

    @property
    def group_peers(self) -> "list[LoopTask]":
        return [task for task in self.order.tasks if task is not self]
