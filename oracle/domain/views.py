"""What can be read off a node at a time: status, long-term score, H, QoS (scoring.md 3 to 5).

Numbers between 0 and 1 are in units of 10^-18. Times are block times in seconds.
"""

from oracle.domain.fixed_point import times
from oracle.domain.nodes import Membership, Node
from oracle.domain.pool import mean_of, pool_at
from oracle.domain.reliability import healed
from oracle.domain.rules import Rules


def status_of(node: Node) -> str:
    """Return available, busy, paused, quit, slashed, kicked_out or unknown (events.md)."""
    if node.membership is not Membership.MEMBER:
        return node.membership.value
    if node.paused:
        return "paused"
    return "busy" if node.running else "available"


def reliability_at(node: Node, time: int, rules: Rules) -> int:
    """Return H, healed up to `time`."""
    return healed(node.base, node.since, time, rules)


def long_term(node: Node, rules: Rules, time: int) -> int:
    """Return Q_long / Q_max; `time` matters only to rules that have restarts."""
    return mean_of(pool_at(node, time, rules), node.prior, rules)


def qos_at(node: Node, time: int, rules: Rules) -> int | None:
    """Return the QoS, or None for a node that is no member: it has none."""
    if node.membership is not Membership.MEMBER:
        return None
    return times(long_term(node, rules, time), reliability_at(node, time, rules))


def is_excluded(node: Node, time: int, rules: Rules) -> bool:
    """Tell whether a member is to get no tasks for the time being."""
    if node.membership is not Membership.MEMBER:
        return False
    if not rules.remembers_exclusion:
        return reliability_at(node, time, rules) < rules.exclude_enter
    return node.excluded and reliability_at(node, time, rules) < rules.exclude_exit


def is_kickout_due(node: Node, rules: Rules, time: int | None = None) -> bool:
    """Tell whether a member's pool is full and its mean below the line.

    `time` matters only to rules that have restarts; without it the pool counts as it was left.
    """
    if node.membership is not Membership.MEMBER:
        return False
    pool = node.pool if time is None else pool_at(node, time, rules)
    return len(pool) == rules.pool_size and sum(pool) < rules.kickout_below * rules.pool_size
