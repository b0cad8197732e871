"""What a selection policy is: it follows a history, and says who may have a task, how likely."""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Node
from oracle.domain.state.task import Task


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """The network at a block time in seconds: all that a policy sees beside its own memory.

    `nodes`: every node ever named, members or not. `taken`: nodes that must not get this task
    though they look free: drawn for another one, or given another task of the same group.
    """

    nodes: Mapping[Address, Node]
    rules: Rules
    time: int
    taken: AbstractSet[Address] = frozenset()


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """What a policy says of one node and one task.

    `weight`: its share in the draw, in the policy's own unit, 0 or more; None: no candidate, for
    the reason `out`. `parts`: what the weight was made of, by the names of the source, as text
    (fractions with 18 digits), in the order in which one explains it.
    """

    node: Address
    weight: int | None
    out: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)


class Follower(Protocol):
    """A policy that goes along a history. What it knows beyond nodes and tasks, it remembers."""

    def take(self, event: DomainEvent) -> None:
        """See one event; they come in order of position, before any verdict of a later time."""
        ...

    def verdicts(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Judge every member of the scene for the task, ascending by address."""
        ...


class SelectionPolicy(Protocol):
    """One way of picking nodes. Its name and version stand beside everything it decided."""

    @property
    def name(self) -> str:
        """Return what it is called on the command line."""
        ...

    @property
    def version(self) -> int:
        """Return 1 or more; it rises when the same history may give another answer."""
        ...

    def follow(self) -> Follower:
        """Return one that has seen nothing yet."""
        ...
