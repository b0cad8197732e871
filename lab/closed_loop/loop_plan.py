"""Defines the plan of a closed loop, and its participants: nodes and creators of orders.

In a realistic network most nodes are good, some are careless or slow, and some stop permanently
(docs/how-to/backtest.md#closed-loop).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lab.closed_loop.chance import RandomStream
from lab.closed_loop.economics import Economics
from lab.closed_loop.players import (
    APPLICATIONS,
    ATTACKER,
    GROUP_SIZE,
    HONEST_OWNER,
    NodeRole,
    OrderShape,
)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """The length of a closed loop, and the load of its network.

    `nodes` is the number of honest nodes. `tasks` is the number of tasks that honest applications
    order before the loop ends. `load` is the percentage of the honest nodes' time that these tasks
    take. `groups` is the percentage of orders that are for a validation group of three.

    Raises:
        ValueError: a number is out of range; the message names the field.
    """

    nodes: int = 30
    tasks: int = 10_000
    load: int = 60
    groups: int = 25
    seed: int = 0
    economics: Economics = field(default_factory=Economics)

    def __post_init__(self) -> None:
        for name, minimum, maximum in (
            ("nodes", GROUP_SIZE, 10_000),
            ("tasks", 1, 10_000_000),
            ("load", 1, 200),
            ("groups", 0, 100),
        ):
            if not minimum <= getattr(self, name) <= maximum:
                raise ValueError(f"{name}: must be {minimum} to {maximum}")


@dataclass(frozen=True, slots=True)
class CreatorRole:
    """A creator of orders.

    `gap_milliseconds` is the mean time between two orders. Each order comes from one of the
    creator's `accounts` addresses, selected at random.
    """

    owner: str
    accounts: int
    gap_milliseconds: int
    draw_order_shape: Callable[[RandomStream, Economics], OrderShape]


@dataclass(frozen=True, slots=True)
class Participants:
    """All nodes of a closed loop, and its creators besides the honest applications."""

    nodes: Sequence[NodeRole]
    creators: Sequence[CreatorRole] = ()


# Values of honest participants. Sizes are in units, speeds in milliseconds per unit, stakes and
# fees in percent of the minimum, and failures are per million tasks.
_SIZE_RANGE = (10, 50)
_SPEED_RANGE = (800, 1600)
_STAKE_RANGE = (100, 400)
HONEST_FAILURES = 2_000
_FEE_RANGE = (100, 200)
_APPLICATION_ACCOUNTS = 20


def build_honest_node_roles(plan: LoopPlan) -> list[NodeRole]:
    """Build the roles of a plan's honest nodes, with random stakes and speeds.

    Stakes are one to four times the minimum, and speeds differ by up to a factor of two.
    """
    random_stream = RandomStream(plan.seed, "nodes")
    min_stake = plan.economics.least_stake
    return [
        NodeRole(
            owner=HONEST_OWNER,
            stake=min_stake * random_stream.draw_between(*_STAKE_RANGE) // 100,
            speed=random_stream.draw_between(*_SPEED_RANGE),
            failures=HONEST_FAILURES,
        )
        for _ in range(plan.nodes)
    ]


def build_average_attacker_role(plan: LoopPlan) -> NodeRole:
    """Build the role of an attacker node that behaves honestly.

    Its stake and speed are average.
    """
    stake = plan.economics.least_stake * sum(_STAKE_RANGE) // 200
    return NodeRole(ATTACKER, stake, sum(_SPEED_RANGE) // 2, HONEST_FAILURES)


def build_application_creator(plan: LoopPlan) -> CreatorRole:
    """Build the creator role of the honest applications.

    These cause the load of the plan.
    """

    def draw_order_shape(random_stream: RandomStream, economics: Economics) -> OrderShape:
        member_count = GROUP_SIZE if random_stream.draw_below(100) < plan.groups else 1
        size = random_stream.draw_between(*_SIZE_RANGE)
        fee = economics.compute_min_fee(size) * random_stream.draw_between(*_FEE_RANGE) // 100
        return OrderShape(member_count, size, size, economics.compute_min_timeout(size), fee)

    # Divide the mean work of an order (in milliseconds) by the number of nodes and by their load.
    # The result is the mean gap between two orders.
    work_per_task = sum(_SIZE_RANGE) * sum(_SPEED_RANGE) // 4
    tasks_per_hundred_orders = 100 + (GROUP_SIZE - 1) * plan.groups
    gap_milliseconds = work_per_task * tasks_per_hundred_orders // (plan.nodes * plan.load)
    return CreatorRole(
        APPLICATIONS, _APPLICATION_ACCOUNTS, max(1, gap_milliseconds), draw_order_shape
    )


# Percentages of nodes that are careless, that are slow, and that stop for good.
_CARELESS_PERCENT, _SLOW_PERCENT, _STOPPING_PERCENT = 10, 5, 10
# A careless node has this many failures per million tasks, and a slow node takes this many times
# as long.
_CARELESS_FAILURES, _SLOW_FACTOR = 80_000, 3
_SORT_KEY_BOUND = 1 << 32


def build_mixed_participants(plan: LoopPlan) -> Participants:
    """Build a plan's participants, with good, careless, slow and stopping nodes.

    Half of the stopping nodes never answer; the others stop after a fifth of the loop.
    """
    nodes = []
    random_stream = RandomStream(plan.seed, "kinds")
    random_order = sorted(
        range(plan.nodes), key=lambda _: random_stream.draw_below(_SORT_KEY_BOUND)
    )
    for node_index, role in enumerate(build_honest_node_roles(plan)):
        percentile = random_order[node_index] * 100 // plan.nodes
        if percentile < _CARELESS_PERCENT:
            nodes.append(replace(role, failures=_CARELESS_FAILURES, kind="careless"))
        elif percentile < _CARELESS_PERCENT + _SLOW_PERCENT:
            nodes.append(replace(role, speed=role.speed * _SLOW_FACTOR, kind="slow"))
        elif percentile < _CARELESS_PERCENT + _SLOW_PERCENT + _STOPPING_PERCENT:
            stops_at = _estimate_duration(plan) // 5 if random_order[node_index] % 2 else 0
            nodes.append(replace(role, stops_at=stops_at, kind="stopped"))
        else:
            nodes.append(role)
    return Participants(nodes)


def _estimate_duration(plan: LoopPlan) -> int:
    """Estimate the duration of a loop in seconds."""
    work_per_order = 100 + 2 * plan.groups
    return (
        plan.tasks
        * 100
        * build_application_creator(plan).gap_milliseconds
        // (work_per_order * 1000)
    )
