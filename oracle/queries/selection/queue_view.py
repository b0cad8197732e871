"""The tasks that wait: in which groups and order, what a node would take, who would be dropped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from oracle.domain.ids import Address
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.crynux_queue import (
    QueuedTask,
    QueueGroup,
    TaskQueue,
    capacity_for,
    group_of,
)
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.requirements import Out, misfit, requirement_of, unavailable
from oracle.systems.crynux.selection_weight import SEED_WEIGHTING
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.legacy.legacy_queue import LegacyQueue, TrioTask as LegacyOffer
from oracle.systems.legacy.trio_line import as_one_task, trios_of
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.policy import PolicyInput, SelectionPolicy
from oracle.systems.waiting_line import line_of


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The tasks in the daemon's line, in the groups of one system, and by what they are valued.

    `left_out`: tasks that wait and are in no line: their group is not complete, or can start no
    more.
    """

    queue: TaskQueue | LegacyQueue
    pricing: Pricing
    policy: SelectionPolicy
    left_out: Sequence[Task] = ()


@dataclass(frozen=True, slots=True)
class QueueCapacity:
    """How many tasks may wait, and who goes when one more comes that is worth more.

    `dropped`: the least valuable first.
    """

    members: int
    most: int
    dropped: Sequence[QueuedTask]


@dataclass(frozen=True, slots=True)
class Head:
    """What a group offers a node: its best task that the node can run.

    `why_not` None: this one is taken. `waiting` is the group's first where it can run none.
    """

    group: QueueGroup
    waiting: QueuedTask
    why_not: str | None


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What a node would take if it were freed now; `unfit`: why it would get nothing at all."""

    node: Address
    unfit: Out | None
    heads: Sequence[Head]

    @property
    def taken(self) -> Head | None:
        """Return the head that the node would take."""
        if self.unfit is not None:
            return None
        return next((head for head in self.heads if head.why_not is None), None)


# Why a head is not taken by a node that has the card for it.
LESS_VALUABLE = "less_valuable"
HAD_ONE_OF_ITS_GROUP = "had_one_of_its_group"
DRAWN_FOR_ANOTHER = "drawn_for_another"


@dataclass(frozen=True, slots=True)
class TrioOffer:
    """What a node would take together with two others if it were freed now (legacy system).

    `offers`: one for each group of which three nodes could run a task, the best first, which is
    taken. `unfit`: why the node would get nothing at all.
    """

    node: Address
    unfit: Out | None
    offers: Sequence[LegacyOffer]


def line_up(snapshot: NetworkSnapshot, policy: SelectionPolicy, pricing: Pricing) -> QueueSnapshot:
    """Put the tasks of the line that the daemon draws from into the groups of a policy's system.

    What the daemon cannot start yet, or not any more, is left out.
    """
    by_value = trios_of if isinstance(policy, LegacyPolicy) else line_of
    line = by_value(snapshot.waiting, snapshot.fellows, pricing.value_of)
    in_line = {task.key for entry in line for task in entry.tasks}
    left_out = [task for task in snapshot.waiting if task.key not in in_line]
    queue: TaskQueue | LegacyQueue
    if isinstance(policy, LegacyPolicy):
        queue = LegacyQueue(pricing.value_of, map(as_one_task, line))
    else:
        # Pocket's policies ask nothing of models: any weighting orders their tasks.
        weighting = policy.weighting if isinstance(policy, CrynuxPolicy) else SEED_WEIGHTING
        queue = TaskQueue(pricing, weighting, (entry.task for entry in line))
    return QueueSnapshot(queue, pricing, policy, left_out)


def capacity_in(line: QueueSnapshot, snapshot: NetworkSnapshot, alpha: Fraction) -> QueueCapacity:
    """Say how many tasks may wait: floor(alpha * members), at least 1.

    See docs/reference/scoring-rules.md#queue.

    Raises:
        ValueError: alpha is not above 0.
    """
    member = Membership.MEMBER
    members = sum(node.membership is member for node in snapshot.nodes.values())
    most = capacity_for(members, alpha)
    return QueueCapacity(members, most, line.queue.overflow(most - 1))


def offer_to(
    line: QueueSnapshot, snapshot: NetworkSnapshot, address: Address
) -> NodeOffer | TrioOffer:
    """Say what a node would take if its task, if it has one, ended now; nothing is taken out.

    Tasks of a group of which it had one already, and tasks drawn for another, are not for it.

    Raises:
        InputError: the network never mentioned this node.
    """
    node = _freed(snapshot, address)
    if isinstance(line.queue, LegacyQueue):
        return _trio_with(line.queue, snapshot, node)
    follower = line.policy.follow()
    if isinstance(follower, PocketFollower):
        return _first_in_line(line.queue, follower, snapshot, node)
    return _alone(line.queue, snapshot, node)


def _first_in_line(
    queue: TaskQueue, follower: PocketFollower, snapshot: NetworkSnapshot, node: Node
) -> NodeOffer:
    """Return the first task for which Pocket's pool has the node, of each group one head."""
    network = PolicyInput({**snapshot.nodes, node.address: node}, snapshot.rules, snapshot.time)
    heads, is_taken = dict[QueueGroup, Head](), False
    for entry in queue.in_order():
        group = group_of(entry.task)
        taken = snapshot.taken_from(entry.task)
        out = follower.why_out(node, entry.task, replace(network, taken=taken))
        if snapshot.drawn.get(entry.key, node.address) != node.address:
            why_not: str | None = DRAWN_FOR_ANOTHER
        elif out is not None:
            why_not = HAD_ONE_OF_ITS_GROUP if out is Out.TAKEN else out.value
        else:
            why_not = LESS_VALUABLE if is_taken else None
            is_taken = True
        known = heads.get(group)
        if known is None or (why_not is None and known.why_not is not None):
            heads[group] = Head(group, entry, why_not)
    unfit = Out.PAUSED if node.paused else None
    if node.membership is not Membership.MEMBER:
        unfit = Out.NO_MEMBER
    return NodeOffer(node.address, unfit, [*heads.values()])


def _alone(queue: TaskQueue, snapshot: NetworkSnapshot, node: Node) -> NodeOffer:
    address = node.address
    open_to_it = [
        task
        for task in (entry.task for entry in queue.in_order())
        if address not in snapshot.given_in(task.group)
        and snapshot.drawn.get(task.key, address) == address
    ]
    own = TaskQueue(queue.pricing, queue.weighting, open_to_it)
    offered, best = own.heads_for(node), own.next_for(node)
    heads = []
    for group, entries in queue.groups().items():
        waiting = offered.get(group)
        if waiting is None:
            heads.append(Head(group, entries[0], _why_not(queue, snapshot, node, entries[0])))
        else:
            heads.append(Head(group, waiting, None if waiting == best else LESS_VALUABLE))
    return NodeOffer(address, unavailable(node, snapshot.time, snapshot.rules), heads)


def _trio_with(queue: LegacyQueue, snapshot: NetworkSnapshot, node: Node) -> TrioOffer:
    available = [
        each
        for each in snapshot.nodes.values()
        if unavailable(each, snapshot.time, snapshot.rules) is None
    ]
    unfit = unavailable(node, snapshot.time, snapshot.rules)
    return TrioOffer(node.address, unfit, [] if unfit else queue.offers_for(node, available))


def _freed(snapshot: NetworkSnapshot, address: Address) -> Node:
    known = snapshot.nodes.get(address)
    if known is None:
        raise InputError(f"{address} was never seen; `qos-oracle nodes` names all there are")
    return replace(known, running=0)


def _why_not(queue: TaskQueue, snapshot: NetworkSnapshot, node: Node, waiting: QueuedTask) -> str:
    if snapshot.drawn.get(waiting.key, node.address) != node.address:
        return DRAWN_FOR_ANOTHER
    if queue.can_run(node, waiting.task):
        return HAD_ONE_OF_ITS_GROUP
    return misfit(node, requirement_of(waiting.task)) or Out.MODELS_NOT_ON_DISK
