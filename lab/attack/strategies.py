"""The attack strategies, with their baselines and the orders of dishonest creators.

docs/explanation/attacks.md#strategies explains each strategy, and lists known attacks that cannot
be simulated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from lab.attack.cheats import (
    ColludingBehaviour,
    CopyingBehaviour,
    ErrorBehaviour,
    GroupGarbageBehaviour,
    GroupSkippingBehaviour,
    GroupStallingBehaviour,
    LeavingBehaviour,
    OutageBehaviour,
    OwnerAwareBehaviour,
    SilentBehaviour,
    SingleTaskFakingBehaviour,
)
from lab.closed_loop.chance import RandomStream
from lab.closed_loop.economics import Economics
from lab.closed_loop.loop_plan import (
    HONEST_FAILURES,
    CreatorRole,
    LoopPlan,
    Participants,
    build_application_creator,
    build_average_attacker_role,
    build_honest_node_roles,
)
from lab.closed_loop.players import (
    ATTACKER,
    GROUP_SIZE,
    HONEST,
    Behaviour,
    NodeEvent,
    NodeRole,
    OrderShape,
    Reaction,
)

# An understated task declares a small size, but takes about an hour. These are the declared size
# and the actual work, in units.
_DECLARED_SIZE, _ACTUAL_WORK = 1, 3000
# Declared size of orders for the creator's own nodes. The actual work is the same.
_SELF_DEALING_SIZE = 1
_HONEST_ORDERS_PER_ATTACK_ORDER = 4


def build_understated_group_creator(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of groups that time out on all but the attacker's nodes.

    Fee and timeout are the contract's minimum. Only the attacker's nodes know the result in
    advance and can answer in time.
    """
    return _build_fixed_shape_creator(
        plan, accounts, OrderShape(GROUP_SIZE, _DECLARED_SIZE, _ACTUAL_WORK, 1, 0)
    )


def build_understated_task_creator(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator of single tasks that time out on all but the attacker's nodes.

    Only nodes that know the result finish these tasks in time.
    """
    return _build_fixed_shape_creator(
        plan, accounts, OrderShape(1, _DECLARED_SIZE, _ACTUAL_WORK, 1, 0)
    )


def build_self_dealing_group_creator(plan: LoopPlan, accounts: int) -> CreatorRole:
    """Return a creator whose own nodes answer its groups first.

    The creator's nodes so earn the fees.
    """
    min_timeout = plan.economics.compute_min_timeout(_SELF_DEALING_SIZE)
    return _build_fixed_shape_creator(
        plan,
        accounts,
        OrderShape(GROUP_SIZE, _SELF_DEALING_SIZE, _SELF_DEALING_SIZE, min_timeout, 0),
    )


def _build_fixed_shape_creator(plan: LoopPlan, accounts: int, shape: OrderShape) -> CreatorRole:
    """Return a creator whose orders all have the same shape.

    Values below the contract's minimum are raised to it when an order is placed.
    """

    def get_shape(_chance: RandomStream, _economics: Economics) -> OrderShape:
        return shape

    return CreatorRole(
        ATTACKER,
        accounts,
        build_application_creator(plan).gap_milliseconds * _HONEST_ORDERS_PER_ATTACK_ORDER,
        get_shape,
    )


_HONEST = "honest"
# Number of the attacker's nodes, unless a strategy needs a different number.
OWN_NODES = 4
# Number of the attacker's nodes in strategies that need a group with several of them. They are so
# many because nodes are drawn at random.
_COLLUDING_NODES = 9
# Half of the network, which is enough to imitate an outage.
_OUTAGE_NODES = 30
# Number of nodes with a large stake, and number of parts into which each stake is split.
_RICH_NODES, _STAKE_PARTS = 2, 8
_BIG_STAKE_FACTOR = 16
# A slow GPU takes this many times as long as a typical one, which is longer than any honest GPU.
# Its cost is in thousandths of that of a typical GPU.
_SLOW_FACTOR, _CHEAP_COST = 2, 333
# Failures per million tasks of careless nodes, and of careless nodes with a slow GPU. The latter
# need fewer failures for their scores to fall below the threshold.
_CARELESS_FAILURES, _SLOW_FAILURES = 300_000, 120_000


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to cheat, and the baseline for its results.

    `description` describes the strategy in one line. `baseline` is the name of the participants
    that the strategy is compared with. If `second_groups` is False, no second groups are ordered,
    so that contests lapse regardless of the network's settings.
    """

    name: str
    description: str
    build_participants: Callable[[LoopPlan], Participants]
    baseline: str = _HONEST
    second_groups: bool = True

    def apply_to_plan(self, plan: LoopPlan) -> LoopPlan:
        """Apply the strategy's network settings to a plan, and return the new plan."""
        if self.second_groups:
            return plan
        return replace(plan, economics=replace(plan.economics, second_groups=False))


def _build_participants(plan: LoopPlan, attacker_nodes: Sequence[NodeRole]) -> Participants:
    return Participants((*build_honest_node_roles(plan), *attacker_nodes))


def _make_participants_builder(
    behaviour: Behaviour, node_count: int = OWN_NODES, failures: int = HONEST_FAILURES
) -> Callable[[LoopPlan], Participants]:
    """Return a function that builds participants whose attacker nodes all behave alike."""

    def build_participants(plan: LoopPlan) -> Participants:
        role = replace(build_average_attacker_role(plan), behaviour=behaviour, failures=failures)
        return _build_participants(plan, [role] * node_count)

    return build_participants


def _build_copying_participants(plan: LoopPlan) -> Participants:
    return _make_participants_builder(
        CopyingBehaviour(are_answers_hidden=plan.economics.commit_reveal)
    )(plan)


def _build_unsplit_stake_participants(plan: LoopPlan) -> Participants:
    stake = plan.economics.least_stake * _STAKE_PARTS
    return _build_participants(
        plan, [replace(build_average_attacker_role(plan), stake=stake)] * _RICH_NODES
    )


def _build_split_stake_participants(plan: LoopPlan) -> Participants:
    role = replace(build_average_attacker_role(plan), stake=plan.economics.least_stake)
    return _build_participants(plan, [role] * (_RICH_NODES * _STAKE_PARTS))


def _build_shared_gpu_participants(plan: LoopPlan) -> Participants:
    role = replace(build_average_attacker_role(plan), stake=plan.economics.least_stake)
    attacker_nodes = [
        replace(role, gpu=node_index % _RICH_NODES)
        for node_index in range(_RICH_NODES * _STAKE_PARTS)
    ]
    return _build_participants(plan, attacker_nodes)


def _build_big_stake_participants(plan: LoopPlan) -> Participants:
    average_role = build_average_attacker_role(plan)
    big_node = replace(average_role, stake=plan.economics.least_stake * _BIG_STAKE_FACTOR)
    return _build_participants(plan, [big_node, *[average_role] * (OWN_NODES - 1)])


def _make_slow_gpu_builder(
    behaviour: Behaviour, failures: int = HONEST_FAILURES
) -> Callable[[LoopPlan], Participants]:
    """Return a function that builds participants with slow attacker nodes.

    The attacker's nodes are the slowest of all.
    """

    def build_participants(plan: LoopPlan) -> Participants:
        role = replace(build_average_attacker_role(plan), behaviour=behaviour, failures=failures)
        return _build_participants(
            plan, [replace(role, speed=role.speed * _SLOW_FACTOR, cost=_CHEAP_COST)] * OWN_NODES
        )

    return build_participants


def _make_creator_builder(
    create_creator: Callable[[LoopPlan, int], CreatorRole], accounts: int
) -> Callable[[LoopPlan], Participants]:
    """Return a function that builds participants with an attacker who also orders tasks.

    The attacker's nodes know the results of these tasks.
    """

    def build_participants(plan: LoopPlan) -> Participants:
        role = replace(build_average_attacker_role(plan), behaviour=OwnerAwareBehaviour())
        return Participants(
            (*build_honest_node_roles(plan), *[role] * OWN_NODES), [create_creator(plan, accounts)]
        )

    return build_participants


_REJOINING = LeavingBehaviour(HONEST, {NodeEvent.EXCLUDED: Reaction.RETURN})
_KICKOUT_EVADING = LeavingBehaviour(
    HONEST,
    {NodeEvent.KICKOUT_PENDING: Reaction.RETURN, NodeEvent.KICKED_OUT: Reaction.RETURN},
)
_ADDRESS_CHANGING = LeavingBehaviour(HONEST, {NodeEvent.KICKED_OUT: Reaction.NEW_ADDRESS})
_MANY_ACCOUNTS = 50

_HONEST_GROUP, _ONE_STAKE = "honest friends", "one stake"
_HONEST_HALF = "honest half"
_CARELESS_STAYS, _SLOW_STAYS = "careless, and stays", "slow, and stays"
BASELINES: Mapping[str, Callable[[LoopPlan], Participants]] = MappingProxyType({
    _HONEST: _make_participants_builder(HONEST),
    _HONEST_GROUP: _make_participants_builder(HONEST, _COLLUDING_NODES),
    _HONEST_HALF: _make_participants_builder(HONEST, _OUTAGE_NODES),
    _ONE_STAKE: _build_unsplit_stake_participants,
    _CARELESS_STAYS: _make_participants_builder(HONEST, failures=_CARELESS_FAILURES),
    _SLOW_STAYS: _make_slow_gpu_builder(HONEST, _SLOW_FAILURES),
})  # fmt: skip

STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "instant-error",
        "reports an error for every task after one second",
        _make_participants_builder(ErrorBehaviour()),
    ),
    Strategy("copy", "repeats the answer of another group member", _build_copying_participants),
    Strategy(
        "leave-and-return",
        "fails three tasks in ten; leaves and joins again when it is excluded",
        _make_participants_builder(_REJOINING, failures=_CARELESS_FAILURES),
        _CARELESS_STAYS,
    ),
    Strategy(
        "kickout-wash",
        "slow and careless; leaves when it is accused, and joins again when it may",
        _make_slow_gpu_builder(_KICKOUT_EVADING, _SLOW_FAILURES),
        _SLOW_STAYS,
    ),
    Strategy(
        "new-address",
        "slow and careless; joins with another address after its kickout",
        _make_slow_gpu_builder(_ADDRESS_CHANGING, _SLOW_FAILURES),
        _SLOW_STAYS,
    ),
    Strategy(
        "split-stake",
        "splits each of two stakes over eight nodes, each with its own GPU",
        _build_split_stake_participants,
        _ONE_STAKE,
    ),
    Strategy(
        "split-one-gpu",
        "splits each of two stakes over eight nodes that share one GPU",
        _build_shared_gpu_participants,
        _ONE_STAKE,
    ),
    Strategy(
        "big-stake",
        "has one node with four times the largest honest stake",
        _build_big_stake_participants,
    ),
    Strategy(
        "collusion",
        "nine nodes agree on a false result when they are the majority of a group",
        _make_participants_builder(ColludingBehaviour(), _COLLUDING_NODES),
        _HONEST_GROUP,
    ),
    Strategy(
        "garbage-first",
        "answers group tasks with garbage at once, and computes single tasks",
        _make_participants_builder(GroupGarbageBehaviour()),
    ),
    Strategy(
        "garbage-first-lapsed",
        "like garbage-first, but no second group is ordered, so no node is slashed",
        _make_participants_builder(GroupGarbageBehaviour()),
        second_groups=False,
    ),
    Strategy(
        "fake-alone",
        "makes up the results of single tasks, which nobody compares",
        _make_participants_builder(SingleTaskFakingBehaviour()),
    ),
    Strategy(
        "skip-groups",
        "ignores group tasks, of which only one in three is paid",
        _make_participants_builder(GroupSkippingBehaviour()),
    ),
    Strategy(
        "fake-outage",
        "half of the nodes let every task time out for ten minutes in every four hours",
        _make_participants_builder(OutageBehaviour(), _OUTAGE_NODES),
        _HONEST_HALF,
    ),
    Strategy(
        "silent", "accepts tasks and never answers", _make_participants_builder(SilentBehaviour())
    ),
    Strategy(
        "always-third",
        "computes on a GPU of half the speed, at a third of the cost",
        _make_slow_gpu_builder(HONEST),
    ),
    Strategy(
        "slow-roll",
        "answers group tasks in the last second",
        _make_participants_builder(GroupStallingBehaviour()),
    ),
    Strategy(
        "trap-groups",
        "orders groups that only its own nodes can answer in time",
        _make_creator_builder(build_understated_group_creator, 1),
    ),
    Strategy(
        "trap-groups-many",
        "like trap-groups, with orders from fifty accounts",
        _make_creator_builder(build_understated_group_creator, _MANY_ACCOUNTS),
    ),
    Strategy(
        "trap-alone",
        "orders single tasks that time out on all other nodes",
        _make_creator_builder(build_understated_task_creator, 1),
    ),
    Strategy(
        "wash-groups",
        "orders groups in which its own nodes answer first and are paid",
        _make_creator_builder(build_self_dealing_group_creator, 1),
    ),
)


def get_strategy(name: str) -> Strategy:
    """Return the strategy with this name.

    Raises:
        ValueError: the strategy does not exist; the message lists the known ones.
    """
    for strategy in STRATEGIES:
        if strategy.name == name:
            return strategy
    known_names = ", ".join(strategy.name for strategy in STRATEGIES)
    raise ValueError(f"unknown strategy {name!r}; expected one of: {known_names}")
