"""Orders of dishonest creators: tasks that time out on other nodes, or that pay their creator."""

from lab.closed_loop.chance import RandomStream
from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import CreatorRole, LoopPlan, create_applications
from lab.closed_loop.players import ATTACKER, GROUP_SIZE, OrderShape

# Size and actual work of a trap in units: it declares a small size but takes about an hour.
_DECLARED_SIZE, _REAL_WORK = 1, 3000
# Declared size and actual work of orders for the creator's own nodes.
_WASH_SIZE = 1
# Number of honest orders for each order of the attacker.
_HONEST_ORDERS_PER_TRAP = 4


def create_trap_group(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of groups that only nodes that know the result can answer in time.

    Fee and timeout are the contract's minimum.
    """
    return _create_role(plan, accounts, OrderShape(GROUP_SIZE, _DECLARED_SIZE, _REAL_WORK, 1, 0))


def create_trap_task(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of single tasks that only nodes that know the result can answer in time."""
    return _create_role(plan, accounts, OrderShape(1, _DECLARED_SIZE, _REAL_WORK, 1, 0))


def create_wash_group(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of groups in which the creator's own nodes answer first and are paid."""
    min_timeout = plan.economics.compute_min_timeout(_WASH_SIZE)
    return _create_role(
        plan, accounts, OrderShape(GROUP_SIZE, _WASH_SIZE, _WASH_SIZE, min_timeout, 0)
    )


def _create_role(plan: LoopPlan, accounts: int, shape: OrderShape) -> CreatorRole:
    """Return a creator whose orders all have one shape.

    Values below the contract's minimum are raised to it when an order is placed.
    """

    def get_shape(_chance: RandomStream, _economics: Economics) -> OrderShape:
        return shape

    return CreatorRole(
        ATTACKER,
        accounts,
        create_applications(plan).gap_milliseconds * _HONEST_ORDERS_PER_TRAP,
        get_shape,
    )
