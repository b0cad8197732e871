"""The interfaces of selection policies, which compute the weights of candidates."""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """The network at a block time (seconds), which a policy uses besides its own state.

    `nodes` holds every node ever seen, whether a member or not. `reserved` holds nodes that look
    free but must not get this task, because they were drawn for another task or were given another
    task of the same group.
    """

    nodes: Mapping[Address, Node]
    rules: Rules
    time: int
    reserved: AbstractSet[Address] = frozenset()


@dataclass(frozen=True, slots=True)
class CandidateVerdict:
    """The verdict of a policy on a node for one task.

    `weight` is the node's share in the draw, in the policy's own unit, 0 or more. If the node is
    not a candidate, `weight` is None, and `reason` is why. `parts` holds the components of the
    weight as text, by their names in the source and in the order in which they are shown;
    fractions have 18 digits.
    """

    node: Address
    weight: int | None
    reason: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)


class CandidateEvaluator(Protocol):
    """Receives the events of a history, and evaluates candidates by events and rows."""

    def apply_event(self, event: DomainEvent) -> None:
        """Apply an event.

        Events are sorted by position, and precede all later verdicts.
        """
        ...

    def evaluate_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member for the task, sorted by address."""
        ...


class SelectionPolicy(Protocol):
    """A method of selecting nodes.

    Its name and version are recorded with every decision.
    """

    @property
    def name(self) -> str:
        """The name of the policy on the command line."""
        ...

    @property
    def version(self) -> int:
        """The version of the policy.

        It increases whenever the same history may give other results.
        """
        ...

    def create_evaluator(self) -> CandidateEvaluator:
        """Create an evaluator that has received no event yet."""
        ...
