"""What dishonest creators order: work that nobody can do in time, and work that pays itself."""

from lab.closed_loop.chance import Chance
from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import CreatorRole, LoopPlan, applications
from lab.closed_loop.players import ATTACKER, GROUP, OrderShape

# An order that says it is small, and takes an hour.
_SAYS, _TAKES = 1, 3000
# What is ordered from one's own nodes is as small as it can be.
_WASHED = 1
# How many honest orders come for each of the attacker's.
_ONE_IN = 4


def impossible_group(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Groups in which only who knows the result answers in time, at the least fee and timeout."""
    return _role(plan, accounts, OrderShape(GROUP, _SAYS, _TAKES, 1, 0))


def impossible_alone(plan: LoopPlan, accounts: int) -> CreatorRole:
    """The same, one task at a time."""
    return _role(plan, accounts, OrderShape(1, _SAYS, _TAKES, 1, 0))


def wash_group(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Groups that can be done, in which the creator's own nodes are the first and are paid."""
    least = plan.economics.least_timeout(_WASHED)
    return _role(plan, accounts, OrderShape(GROUP, _WASHED, _WASHED, least, 0))


def _role(plan: LoopPlan, accounts: int, shape: OrderShape) -> CreatorRole:
    """Return a creator of one shape; the contract raises what is below its floors."""

    def same(_chance: Chance, _economics: Economics) -> OrderShape:
        return shape

    return CreatorRole(ATTACKER, accounts, applications(plan).gap * _ONE_IN, same)
