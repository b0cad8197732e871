"""Nodes, tasks and scenes for tests of selection; by default all nodes are free."""

from collections.abc import Iterable, Set as AbstractSet
from typing import Any

from oracle.domain.blocks import Position
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, Task, create_node, create_task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from oracle.systems.policy import PolicyInput
from tests.support import histories

NOW = 100_000


def a_node(name: str, **values: Any) -> Node:
    """Return an idle member with H = 1; `values` replace values of its row."""
    new_node = create_node(histories.make_node_address(name), 0, NOW, 0)
    new_node.membership = Membership.MEMBER
    new_node.stake = 100 * UNIT
    for field, value in values.items():
        setattr(new_node, field, value)
    new_node.pool_sum = sum(new_node.pool)
    return new_node


def a_task(name: str = "t", **values: Any) -> Task:
    """Return a task created in block 1 without requirements;
    `values` replace values of its row.
    """
    new_task = create_task(histories.make_task_key(name))
    new_task.created_at = Position(1, 0, 0)
    for field, value in values.items():
        setattr(new_task, field, value)
    return new_task


def a_policy_input(
    nodes: Iterable[Node],
    rules: Rules = CRYNUX,
    *,
    time: int = NOW,
    taken: AbstractSet[Address] = frozenset(),
) -> PolicyInput:
    return PolicyInput({node.address: node for node in nodes}, rules, time, taken)
