"""The attack strategies, each with its baseline.

docs/explanation/attacks.md#strategies explains each strategy, and lists known attacks that cannot
be simulated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from lab.attack.cheats import (
    AlwaysError,
    AlwaysSilent,
    Colludes,
    CopiesAnswers,
    FakesAlone,
    GarbageFirst,
    KnowsItsOwner,
    Leaves,
    SkipsGroups,
    SlowInGroups,
)
from lab.attack.trap_orders import impossible_alone, impossible_group, wash_group
from lab.closed_loop.loop_plan import (
    FAILURES,
    Cast,
    CreatorRole,
    LoopPlan,
    honest_nodes,
    typical_node,
)
from lab.closed_loop.players import HONEST, Behaviour, NodeRole, Reaction, Turnpoint

_HONEST = "honest"
# The number of the attacker's nodes, unless a strategy needs another.
OWN_NODES = 4
# For strategies whose nodes must meet in a group by chance.
_FRIENDS = 9
# The number of rich nodes, and the parts that each stake is split into.
_RICH, _PARTS = 2, 8
_BIG = 16
# A GPU that takes twice as long, longer than any honest one, at a third of the cost.
_SLOW, _CHEAP = 2, 333
# Failures of careless nodes, in a million tasks; for a slow node a few are below the threshold.
_CARELESS, _LITTLE = 300_000, 120_000


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to cheat.

    `baseline` names the cast for the comparison; `description` describes the strategy in one line.
    `second_groups`: contested work is repeated by a second group; else contests lapse, whatever
    the network's settings are.
    """

    name: str
    about: str
    cast: Callable[[LoopPlan], Cast]
    baseline: str = _HONEST
    second_groups: bool = True

    def network_of(self, loop: LoopPlan) -> LoopPlan:
        """Return the plan with the network settings of the strategy."""
        if self.second_groups:
            return loop
        return replace(loop, economics=replace(loop.economics, second_groups=False))


def _with(plan: LoopPlan, own: Sequence[NodeRole]) -> Cast:
    return Cast((*honest_nodes(plan), *own))


def _nodes(
    behaviour: Behaviour, many: int = OWN_NODES, failures: int = FAILURES
) -> Callable[[LoopPlan], Cast]:
    """Return a function that builds a cast whose attacker's nodes share a behaviour."""

    def cast(plan: LoopPlan) -> Cast:
        role = replace(typical_node(plan), behaviour=behaviour, failures=failures)
        return _with(plan, [role] * many)

    return cast


def _copying(plan: LoopPlan) -> Cast:
    return _nodes(CopiesAnswers(hidden=plan.economics.commit_reveal))(plan)


def _rich(plan: LoopPlan) -> Cast:
    stake = plan.economics.least_stake * _PARTS
    return _with(plan, [replace(typical_node(plan), stake=stake)] * _RICH)


def _split(plan: LoopPlan) -> Cast:
    part = replace(typical_node(plan), stake=plan.economics.least_stake)
    return _with(plan, [part] * (_RICH * _PARTS))


def _split_on_few_cards(plan: LoopPlan) -> Cast:
    part = replace(typical_node(plan), stake=plan.economics.least_stake)
    own = [replace(part, card=number % _RICH) for number in range(_RICH * _PARTS)]
    return _with(plan, own)


def _big_stake(plan: LoopPlan) -> Cast:
    one = typical_node(plan)
    big = replace(one, stake=plan.economics.least_stake * _BIG)
    return _with(plan, [big, *[one] * (OWN_NODES - 1)])


def _slow_cards(behaviour: Behaviour, failures: int = FAILURES) -> Callable[[LoopPlan], Cast]:
    """Return a function that builds a cast whose attacker has the slowest nodes."""

    def cast(plan: LoopPlan) -> Cast:
        one = replace(typical_node(plan), behaviour=behaviour, failures=failures)
        return _with(plan, [replace(one, speed=one.speed * _SLOW, cost=_CHEAP)] * OWN_NODES)

    return cast


def _ordering(
    orders: Callable[[LoopPlan, int], CreatorRole], accounts: int
) -> Callable[[LoopPlan], Cast]:
    """Return a function that builds a cast whose attacker also orders tasks.

    The attacker's nodes know the results of those tasks.
    """

    def cast(plan: LoopPlan) -> Cast:
        role = replace(typical_node(plan), behaviour=KnowsItsOwner())
        return Cast((*honest_nodes(plan), *[role] * OWN_NODES), [orders(plan, accounts)])

    return cast


_RETURNS = Leaves(HONEST, {Turnpoint.EXCLUDED: Reaction.RETURN})
_EVADES = Leaves(
    HONEST,
    {Turnpoint.KICKOUT_PENDING: Reaction.RETURN, Turnpoint.KICKED_OUT: Reaction.RETURN},
)
_ANEW = Leaves(HONEST, {Turnpoint.KICKED_OUT: Reaction.NEW_ADDRESS})
_MANY_ACCOUNTS = 50

_FRIENDLY, _ONE_STAKE = "honest friends", "one stake"
_CARELESS_STAYS, _SLOW_STAYS = "careless, and stays", "slow, and stays"
BASELINES: Mapping[str, Callable[[LoopPlan], Cast]] = MappingProxyType({
    _HONEST: _nodes(HONEST),
    _FRIENDLY: _nodes(HONEST, _FRIENDS),
    _ONE_STAKE: _rich,
    _CARELESS_STAYS: _nodes(HONEST, failures=_CARELESS),
    _SLOW_STAYS: _slow_cards(HONEST, _LITTLE),
})  # fmt: skip

STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "instant-error", "reports an error at once, whatever the task", _nodes(AlwaysError())
    ),
    Strategy("copy", "says in a group what another has said", _copying),
    Strategy(
        "leave-and-return",
        "fails three tasks in ten, and leaves and joins again where it is excluded",
        _nodes(_RETURNS, failures=_CARELESS),
        _CARELESS_STAYS,
    ),
    Strategy(
        "kickout-wash",
        "slow and careless, leaves when its kickout is proposed, and joins again when it may",
        _slow_cards(_EVADES, _LITTLE),
        _SLOW_STAYS,
    ),
    Strategy(
        "new-address",
        "slow and careless, and joins by another address once it is kicked out",
        _slow_cards(_ANEW, _LITTLE),
        _SLOW_STAYS,
    ),
    Strategy("split-stake", "one stake as eight nodes with a card each", _split, _ONE_STAKE),
    Strategy(
        "split-one-card",
        "one stake as eight nodes on one card",
        _split_on_few_cards,
        _ONE_STAKE,
    ),
    Strategy("big-stake", "one of its nodes has four times the largest stake", _big_stake),
    Strategy(
        "collusion",
        "friends make one result up where they are two of three",
        _nodes(Colludes(), _FRIENDS),
        _FRIENDLY,
    ),
    Strategy(
        "garbage-first",
        "answers groups with garbage at once, and works where it is paid alone",
        _nodes(GarbageFirst()),
    ),
    Strategy(
        "garbage-first-lapsed",
        "the same where no second group is ordered, so that nobody is slashed",
        _nodes(GarbageFirst()),
        second_groups=False,
    ),
    Strategy("fake-alone", "makes results up where nobody compares them", _nodes(FakesAlone())),
    Strategy("skip-groups", "is silent where only one of three is paid", _nodes(SkipsGroups())),
    Strategy("silent", "takes tasks and answers none", _nodes(AlwaysSilent())),
    Strategy(
        "always-third",
        "computes on a card of half the speed, for a third of the cost",
        _slow_cards(HONEST),
    ),
    Strategy("slow-roll", "answers in groups at the last moment", _nodes(SlowInGroups())),
    Strategy(
        "trap-groups",
        "orders groups that only its own nodes can answer in time",
        _ordering(impossible_group, 1),
    ),
    Strategy(
        "trap-groups-many",
        "the same, through fifty accounts",
        _ordering(impossible_group, _MANY_ACCOUNTS),
    ),
    Strategy(
        "trap-alone",
        "orders tasks that time out on everybody else",
        _ordering(impossible_alone, 1),
    ),
    Strategy(
        "wash-groups",
        "orders groups in which its own nodes are first, and paid",
        _ordering(wash_group, 1),
    ),
)


def strategy_named(name: str) -> Strategy:
    """Return a strategy by its name.

    Raises:
        ValueError: no such strategy; the message lists the known ones.
    """
    for strategy in STRATEGIES:
        if strategy.name == name:
            return strategy
    listed = ", ".join(strategy.name for strategy in STRATEGIES)
    raise ValueError(f"no strategy {name!r} (there is {listed})")
