"""The weights of a policy's candidates at a task's start, from the policy or from a faster index.

Both give the same weights. With the index, the policy does not judge every node for every task.
"""

from typing import Protocol

from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.systems.crynux.candidate_pool import CandidatePool
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.policy import Follower, PolicyInput, SelectionPolicy


class CandidateWeights(Protocol):
    """Lists the candidates for a task with their weights."""

    def update_node(self, node: Node) -> None:
        """Update a node that an event has just changed."""
        ...

    def list_weights(self, task: Task, policy_input: PolicyInput) -> list[tuple[Address, int]]:
        """Return the address and the weight of each candidate, in ascending order of address."""
        ...


class _JudgedWeights:
    """Lets the policy judge all nodes for each task."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def update_node(self, node: Node) -> None:
        """Do nothing, because the policy reads the nodes themselves."""

    def list_weights(self, task: Task, policy_input: PolicyInput) -> list[tuple[Address, int]]:
        return [
            (verdict.node, verdict.weight)
            for verdict in self._follower.judge_candidates(task, policy_input)
            if verdict.weight is not None
        ]


class _IndexedWeights:
    """Keeps the candidates of a Crynux policy in an index."""

    def __init__(self, rules: Rules, policy: CrynuxPolicy) -> None:
        self._pool = CandidatePool(rules, policy.weighting)

    def update_node(self, node: Node) -> None:
        self._pool.update_node(node)

    def list_weights(self, task: Task, policy_input: PolicyInput) -> list[tuple[Address, int]]:
        return self._pool.list_candidates(task, policy_input.time, policy_input.reserved)


def create_candidate_weights(
    policy: SelectionPolicy, follower: Follower, rules: Rules
) -> CandidateWeights:
    """Return the index for a Crynux policy, else an implementation that asks the policy."""
    return (
        _IndexedWeights(rules, policy)
        if isinstance(policy, CrynuxPolicy)
        else _JudgedWeights(follower)
    )
