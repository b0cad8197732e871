"""How long a closed loop runs, and who plays: honest nodes, honest applications, and others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lab.closed_loop.chance import Chance
from lab.closed_loop.economics import Economics
from lab.closed_loop.players import (
    APPLICATIONS,
    ATTACKER,
    GROUP,
    HONEST_OWNER,
    NodeRole,
    OrderShape,
)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """How long a loop runs, and how busy its network is.

    `nodes`: honest ones. `tasks`: what honest applications create before the loop ends. `load`:
    how much of the honest nodes' time that is, in percent. `groups`: how many orders in a hundred
    are for a validation group of three.

    Raises:
        ValueError: a number outside of what it means; the field is named.
    """

    nodes: int = 30
    tasks: int = 10_000
    load: int = 60
    groups: int = 25
    seed: int = 0
    economics: Economics = field(default_factory=Economics)

    def __post_init__(self) -> None:
        for name, low, high in (
            ("nodes", GROUP, 10_000),
            ("tasks", 1, 10_000_000),
            ("load", 1, 200),
            ("groups", 0, 100),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name}: must be {low} to {high}")


@dataclass(frozen=True, slots=True)
class CreatorRole:
    """Somebody who orders, every `gap` milliseconds on average, through `accounts` addresses."""

    owner: str
    accounts: int
    gap: int
    shape: Callable[[Chance, Economics], OrderShape]


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody who plays: nodes, and who orders beside the honest applications."""

    nodes: Sequence[NodeRole]
    creators: Sequence[CreatorRole] = ()


# What honest people do: sizes in units, how fast cards are, how often one fails in a million,
# what they pay in percent of the least fee.
_SIZES = (10, 50)
_SPEEDS = (800, 1600)
_STAKES = (100, 400)
FAILURES = 2_000
_MARKET = (100, 200)
_ACCOUNTS = 20


def honest_nodes(plan: LoopPlan) -> list[NodeRole]:
    """Return the honest nodes: stakes of one to four times the least, cards of a factor of two."""
    chance = Chance(plan.seed, "nodes")
    least = plan.economics.least_stake
    return [
        NodeRole(
            owner=HONEST_OWNER,
            stake=least * chance.between(*_STAKES) // 100,
            speed=chance.between(*_SPEEDS),
            failures=FAILURES,
        )
        for _ in range(plan.nodes)
    ]


def typical_node(plan: LoopPlan) -> NodeRole:
    """Return a node of the attacker's in the middle of the honest ones, and honest itself."""
    stake = plan.economics.least_stake * sum(_STAKES) // 200
    return NodeRole(ATTACKER, stake, sum(_SPEEDS) // 2, FAILURES)


def applications(plan: LoopPlan) -> CreatorRole:
    """Return the honest applications, who together make the plan's load."""

    def shape(chance: Chance, economics: Economics) -> OrderShape:
        members = GROUP if chance.below(100) < plan.groups else 1
        size = chance.between(*_SIZES)
        fee = economics.least_fee(size) * chance.between(*_MARKET) // 100
        return OrderShape(members, size, size, economics.least_timeout(size), fee)

    # Milliseconds of work in an order, over those that the nodes have for it.
    per_task = sum(_SIZES) * sum(_SPEEDS) // 4
    in_hundred = 100 + (GROUP - 1) * plan.groups
    gap = per_task * in_hundred // (plan.nodes * plan.load)
    return CreatorRole(APPLICATIONS, _ACCOUNTS, max(1, gap), shape)
