"""The interfaces of a selection policy, which weighs the candidates of a task."""

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
    """The network at a block time in seconds: all inputs of a policy besides its own memory.

    `nodes`: every node ever seen, members or not. `reserved`: nodes that must not get this task
    though they look free, because they were drawn for another task or given one of the same group.
    """

    nodes: Mapping[Address, Node]
    rules: Rules
    time: int
    reserved: AbstractSet[Address] = frozenset()


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """A policy's verdict on one node and one task.

    `weight`: the node's share in the draw, in the policy's own unit, 0 or more; None if the node
    is no candidate, for `reason`. `parts`: the components of the weight, by their names in the
    source, as text (fractions with 18 digits), in the order of an explanation.
    """

    node: Address
    weight: int | None
    reason: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)


class Follower(Protocol):
    """A policy that follows a history; it keeps any state beyond the stored rows."""

    def apply_event(self, event: DomainEvent) -> None:
        """Apply one event; events are in order of position, before any verdict of a later time."""
        ...

    def judge_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member for the task, ascending by address."""
        ...


class SelectionPolicy(Protocol):
    """A way of selecting nodes; its name and version are recorded with every decision."""

    @property
    def name(self) -> str:
        """Return the name used on the command line."""
        ...

    @property
    def version(self) -> int:
        """Return the version, 1 or more; it rises when a history may give another result."""
        ...

    def create_follower(self) -> Follower:
        """Return a follower that has seen no event."""
        ...
