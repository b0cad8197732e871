"""Orders of dishonest creators: work that cannot be done in time or that pays its creator."""

from lab.closed_loop.chance import Chance
from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import CreatorRole, LoopPlan, applications
from lab.closed_loop.players import ATTACKER, GROUP, OrderShape

# An order that declares a small size but takes an hour.
_SAYS, _TAKES = 1, 3000
# Orders for the creator's own nodes have the minimum size.
_WASHED = 1
# Number of honest orders per order of the attacker.
_ONE_IN = 4


def impossible_group(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of groups that only nodes who know the result can answer in time.

    Fee and timeout are the minimum.
    """
    return _role(plan, accounts, OrderShape(GROUP, _SAYS, _TAKES, 1, 0))


def impossible_alone(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of single tasks that only nodes who know the result can answer in time."""
    return _role(plan, accounts, OrderShape(1, _SAYS, _TAKES, 1, 0))


def wash_group(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of groups in which the creator's own nodes answer first and are paid."""
    least = plan.economics.least_timeout(_WASHED)
    return _role(plan, accounts, OrderShape(GROUP, _WASHED, _WASHED, least, 0))


def _role(plan: LoopPlan, accounts: int, shape: OrderShape) -> CreatorRole:
    """Return a creator of one order shape; the contract raises values below its floors."""

    def same(_chance: Chance, _economics: Economics) -> OrderShape:
        return shape

    return CreatorRole(ATTACKER, accounts, applications(plan).gap * _ONE_IN, same)
