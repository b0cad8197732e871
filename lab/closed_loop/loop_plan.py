"""The plan of a closed loop and its cast: honest nodes, honest applications, and others."""

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
    """The length of a closed loop, and the load of its network.

    `nodes`: honest ones. `tasks`: tasks of honest applications before the loop ends. `load`: the
    part of the honest nodes' time that these take, in percent. `groups`: orders in a hundred that
    are for a validation group of three.

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
    """A creator of orders; `gap_milliseconds` is the mean time between them.

    Each order comes from one of `accounts` addresses, drawn at random.
    """

    owner: str
    accounts: int
    gap: int
    shape: Callable[[Chance, Economics], OrderShape]


@dataclass(frozen=True, slots=True)
class Cast:
    """All participants: nodes, and creators beside the honest applications."""

    nodes: Sequence[NodeRole]
    creators: Sequence[CreatorRole] = ()


# Honest participants: sizes in units, speeds of GPUs, stakes in percent of the minimum, failures
# in a million tasks, fees in percent of the minimum.
_SIZES = (10, 50)
_SPEEDS = (800, 1600)
_STAKES = (100, 400)
FAILURES = 2_000
_MARKET = (100, 200)
_ACCOUNTS = 20


def honest_nodes(plan: LoopPlan) -> list[NodeRole]:
    """Return the honest nodes.

    Stakes are one to four times the minimum, and speeds differ by up to a factor of two.
    """
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
    """Return an honest node of the attacker with average stake and speed."""
    stake = plan.economics.least_stake * sum(_STAKES) // 200
    return NodeRole(ATTACKER, stake, sum(_SPEEDS) // 2, FAILURES)


def applications(plan: LoopPlan) -> CreatorRole:
    """Return the honest applications, which together cause the plan's load."""

    def shape(chance: Chance, economics: Economics) -> OrderShape:
        members = GROUP if chance.below(100) < plan.groups else 1
        size = chance.between(*_SIZES)
        fee = economics.least_fee(size) * chance.between(*_MARKET) // 100
        return OrderShape(members, size, size, economics.least_timeout(size), fee)

    # Milliseconds of work in an order, divided by those that the nodes can spend on it.
    per_task = sum(_SIZES) * sum(_SPEEDS) // 4
    in_hundred = 100 + (GROUP - 1) * plan.groups
    gap = per_task * in_hundred // (plan.nodes * plan.load)
    return CreatorRole(APPLICATIONS, _ACCOUNTS, max(1, gap), shape)
