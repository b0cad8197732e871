"""The score of every member at a time, by a system's rules or, where it has none, its policy."""

from collections.abc import Mapping
from dataclasses import replace

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, TaskKey
from oracle.domain.nodes import Membership, Node
from oracle.domain.tasks import new_task
from oracle.domain.views import qos_at
from oracle.services.backtest.columns import Column
from oracle.systems.policy import Follower, Scene

# Pocket's best: ten tickets (pocket.md 4.4: score = tickets / max_tickets).
_TICKETS = 10
_ANY_TASK = new_task(TaskKey("0x" + 64 * "0"))


def scores_at(
    column: Column, nodes: Mapping[Address, Node], time: int, follower: Follower | None
) -> dict[Address, int]:
    """Return each member's score in units of 10^-18."""
    if column.has_rules:
        return _by_rules(column, nodes, time)
    return {} if follower is None else _by_policy(column, nodes, time, follower)


def _by_rules(column: Column, nodes: Mapping[Address, Node], time: int) -> dict[Address, int]:
    scores = {
        address: qos_at(node, time, column.rules)
        for address, node in nodes.items()
        if node.membership is Membership.MEMBER
    }
    return {address: score for address, score in scores.items() if score is not None}


def _by_policy(
    column: Column, nodes: Mapping[Address, Node], time: int, follower: Follower
) -> dict[Address, int]:
    """Ask the policy for a task that anybody may have, as if every member were free."""
    free = {
        address: replace(node, running=0, paused=False)
        for address, node in nodes.items()
        if node.membership is Membership.MEMBER
    }
    verdicts = follower.verdicts(_ANY_TASK, Scene(free, column.rules, time))
    return {verdict.node: (verdict.weight or 0) * UNIT // _TICKETS for verdict in verdicts}
