"""The daemon's queue: its order, the offer to a node, and the entries to drop next."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from oracle.dispatch.pocket_pool import PocketPool
from oracle.domain.blocks import BEFORE_EVERYTHING
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state.node import Membership, Node
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.queue_models import (
    QueueAnswer,
    QueueCapacity,
    QueueDownload,
    QueueEntry,
    QueueGroupName,
    QueueHead,
    QueueOffer,
    QueuePosition,
)
from oracle.queries.selection.task_models import requirements_of, snapshot_time
from oracle.systems.assignment import AssignmentPlan, queue_of
from oracle.systems.crynux.crynux_policy import CrynuxPolicy, ineligibility_reason
from oracle.systems.crynux.free_nodes import FreeNodes
from oracle.systems.crynux.predownload import OPEN, requests_of
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.requirements import (
    Out,
    Requirement,
    requirement_of,
    unavailability_reason,
)
from oracle.systems.crynux.selection_weight import CRYNUX_WEIGHTING, Weighting
from oracle.systems.legacy.grading import is_gpt
from oracle.systems.legacy.legacy_eligibility import Candidacy, candidacy_of
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.legacy.trio_line import group_of as legacy_group_of, trios_of
from oracle.systems.pocket.follower import PocketFollower
from oracle.systems.policy import PolicyInput, SelectionPolicy
from oracle.systems.waiting import capacity_for, group_of
from oracle.systems.waiting_line import InLine, drop_with, line_of, tasks_by_group

PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class AskedDownload:
    """A download request that is not answered yet; `state` is `planned` or `open`.

    `until`: when the request expires, unix seconds; None while it is not on chain.
    """

    node: Address
    model: str
    state: str
    until: int | None


def downloads_in(snapshot: NetworkSnapshot) -> list[AskedDownload]:
    """Return planned and then open requests to download a model, each by node and model.

    See docs/explanation/dispatch.md#pre-download.
    """
    planned = [
        AskedDownload(each.node, each.model, PLANNED, None)
        for each in sorted(snapshot.planned, key=lambda each: (each.node, each.model))
    ]
    return planned + [
        AskedDownload(address, one.request.model, one.state, one.request.until)
        for address, node in sorted(snapshot.nodes.items())
        for one in requests_of(node, snapshot.time)
        if one.state == OPEN
    ]


# Reasons why a node with a suitable card does not take an entry.
LESS_VALUABLE = "less_valuable"
HAD_ONE_OF_ITS_GROUP = "had_one_of_its_group"
DRAWN_FOR_ANOTHER = "drawn_for_another"


class QueueQuery(NamedTuple):
    """A request about the queue.

    `alpha`: the number of waiting entries allowed per member, or None to leave out the capacity.
    `node`: the node whose offer is requested.
    """

    policy: SelectionPolicy
    pricing: Pricing
    alpha: Fraction | None = None
    node: Address | None = None


def queue_answer(snapshot: NetworkSnapshot, query: QueueQuery) -> QueueAnswer:
    """Return the answer from the same queue that the daemon draws from.

    Raises:
        InputError: the network never mentioned the node.
        ValueError: alpha is not above 0.
    """
    is_legacy = isinstance(query.policy, LegacyPolicy)
    by_value = trios_of if is_legacy else line_of
    line = by_value(snapshot.waiting, snapshot.fellows, query.pricing.value_of)
    in_line = {task.key for entry in line for task in entry.tasks}
    return QueueAnswer(
        as_of=snapshot_time(snapshot),
        waiting=len(line),
        entries=[_entry(entry, snapshot, query) for entry in line],
        left_out=[task.key for task in snapshot.waiting if task.key not in in_line],
        downloads=[
            QueueDownload(node=asked.node, model=asked.model, state=asked.state, until=asked.until)
            for asked in downloads_in(snapshot)
        ],
        capacity=None if query.alpha is None else _capacity(line, snapshot, query.alpha),
        offer=None if query.node is None else _offer(line, snapshot, query.policy, query.node),
    )


def _entry(entry: InLine, snapshot: NetworkSnapshot, query: QueueQuery) -> QueueEntry:
    task, newest = entry.task, entry.tasks[-1].created_at or BEFORE_EVERYTHING
    fees = [fellow.fee for fellow in entry.tasks if fellow.fee is not None]
    requirements = requirements_of(task).model_dump() | {"fee": sum(fees) if fees else None}
    drawn = (snapshot.drawn.get(fellow.key) for fellow in entry.tasks)
    return QueueEntry(
        **requirements,
        queue_group=_group_name(entry, query.policy),
        tasks=[fellow.key for fellow in entry.tasks],
        created=QueuePosition(block=newest.block, log=newest.log),
        queued=task.queued,
        estimated_seconds=int(query.pricing.estimated_seconds(task) * UNIT),
        value=int(entry.value * UNIT),
        drawn=[node for node in drawn if node is not None],
    )


def _group_name(entry: InLine, policy: SelectionPolicy) -> QueueGroupName:
    if isinstance(policy, LegacyPolicy):
        legacy_group = legacy_group_of(entry.task)
        return QueueGroupName(
            vram=legacy_group.vram, gpu=None, kind="gpt" if legacy_group.gpt else "sd"
        )
    group = group_of(entry.task)
    return QueueGroupName(vram=group.vram, gpu=group.gpu, kind=None)


def _capacity(line: Sequence[InLine], snapshot: NetworkSnapshot, alpha: Fraction) -> QueueCapacity:
    """Return the entries that the dispatcher would drop in the next block for one more entry.

    See docs/reference/scoring-rules.md#queue. An entry with an active draw does not count.
    """
    member = Membership.MEMBER
    members = sum(node.membership is member for node in snapshot.nodes.values())
    max_tasks = capacity_for(members, alpha)
    plan = AssignmentPlan(snapshot.drawn, frozenset())
    queue = queue_of(line, plan, 1 + (snapshot.block or 0))
    groups = tasks_by_group(snapshot.fellows)
    drops = (
        drop_with(entry.task, () if entry.task.group is None else groups[entry.task.group])
        for entry in reversed(queue[max_tasks - 1 :])
    )
    dropped = dict.fromkeys(
        key
        for drop in drops
        if drop is not None and snapshot.drawn.keys().isdisjoint(drop.tasks)
        for key in drop.tasks
    )
    return QueueCapacity(members=members, max_tasks=max_tasks, dropped_next=list(dropped))


class _Fit(NamedTuple):
    """Whether a freed node fits an entry; if `reason` is None it does, with two of `partners`."""

    reason: str | None
    partners: Sequence[Address] | None = None
    gpu: str | None = None


# Returns whether the freed node is a candidate in the daemon's pool, without the taken nodes.
_FitCheck = Callable[[InLine, frozenset[Address]], _Fit]


def _offer(
    line: Sequence[InLine], snapshot: NetworkSnapshot, policy: SelectionPolicy, address: Address
) -> QueueOffer:
    """Return the first entry that a node would take if it were free, and each group's head."""
    known = snapshot.nodes.get(address)
    if known is None:
        raise InputError(f"{address} was never seen; `qos-oracle nodes` names all there are")
    node = replace(known, running=0)
    nodes = {**snapshot.nodes, address: node}
    network = PolicyInput(nodes, snapshot.rules, snapshot.time)
    follower = policy.follow()
    is_pocket = isinstance(follower, PocketFollower)
    unfit = (
        _pocket_unfit(node)
        if is_pocket
        else unavailability_reason(node, network.time, network.rules)
    )
    if unfit is not None:
        return QueueOffer(node=address, why_not=unfit, takes=None, heads=[])
    if isinstance(follower, PocketFollower):
        check: _FitCheck = _PocketFit(follower, node, network)
    elif isinstance(policy, LegacyPolicy):
        check = _TrioFit(node, network, {})
    else:
        weighting = policy.weighting if isinstance(policy, CrynuxPolicy) else CRYNUX_WEIGHTING
        check = _CrynuxFit.of(node, network, weighting)
    fits = [(entry, _fit(entry, address, snapshot.drawn, check)) for entry in line]
    heads = _heads(fits, policy)
    takes = next((head.task for head in heads if head.why_not is None), None)
    return QueueOffer(node=address, why_not=None, takes=takes, heads=heads)


def _pocket_unfit(node: Node) -> Out | None:
    if node.membership is not Membership.MEMBER:
        return Out.NO_MEMBER
    return Out.PAUSED if node.paused else None


def _heads(fits: Iterable[tuple[InLine, _Fit]], policy: SelectionPolicy) -> list[QueueHead]:
    """Return one head for each queue group; the first entry that fits is taken."""
    chosen: dict[QueueGroupName, tuple[InLine, _Fit]] = {}
    taken: TaskKey | None = None
    for entry, fit in fits:
        group = _group_name(entry, policy)
        if fit.reason is None and taken is None:
            taken = entry.task.key
        before = chosen.get(group)
        if before is None or (before[1].reason is not None and fit.reason is None):
            chosen[group] = (entry, fit)
    return [
        QueueHead(
            queue_group=group,
            task=entry.task.key,
            value=int(entry.value * UNIT),
            why_not=None if entry.task.key == taken else fit.reason or LESS_VALUABLE,
            gpu=fit.gpu,
            partners=None if fit.partners is None else list(fit.partners),
        )
        for group, (entry, fit) in chosen.items()
    ]


def _fit(
    entry: InLine, address: Address, drawn: Mapping[TaskKey, Address], check: _FitCheck
) -> _Fit:
    """Return whether the entry fits the node, as the planner of the next block sees it."""
    holders = frozenset(drawn[task.key] for task in entry.tasks if task.key in drawn)
    if holders and address not in holders:
        return _Fit(DRAWN_FOR_ANOTHER)
    if address in entry.barred:
        return _Fit(HAD_ONE_OF_ITS_GROUP)
    return check(entry, entry.out_of_reach(frozenset(drawn.values()) - holders))


@dataclass(frozen=True, slots=True)
class _CrynuxFit:
    """The daemon's index of free nodes, with the freed node as the only one."""

    node: Node
    network: PolicyInput
    free: FreeNodes

    @classmethod
    def of(cls, node: Node, network: PolicyInput, weighting: Weighting) -> "_CrynuxFit":
        free = FreeNodes(network.rules, weighting)
        free.settle(network.time)
        free.put(node)
        return cls(node, network, free)

    def __call__(self, entry: InLine, taken: frozenset[Address]) -> _Fit:
        wanted = entry.asked.wanted
        if self.free.has_fitting(wanted, taken):
            return _Fit(None)
        reason = ineligibility_reason(self.node, wanted, replace(self.network, taken=taken))
        return _Fit(reason or Out.MODELS_NOT_ON_DISK)


@dataclass(frozen=True, slots=True)
class _PocketFit:
    """Pocket's candidate pool, with the freed node as the only one."""

    follower: PocketFollower
    node: Node
    network: PolicyInput

    def __call__(self, entry: InLine, taken: frozenset[Address]) -> _Fit:
        pool = PocketPool(self.follower, self.network, [self.node], explains=False)
        if pool.has_candidates(entry, taken):
            return _Fit(None)
        network = replace(self.network, taken=taken)
        return _Fit(self.follower.why_out(self.node, entry.task, network))


@dataclass(frozen=True, slots=True)
class _TrioFit:
    """The candidates of a group of three among all free nodes, including the freed one."""

    node: Node
    network: PolicyInput
    # Cached by its inputs, because many waiting groups have the same requirements.
    known: dict[tuple[Requirement, bool, frozenset[Address]], Candidacy]

    def __call__(self, entry: InLine, taken: frozenset[Address]) -> _Fit:
        query = (requirement_of(entry.task), is_gpt(entry.task), taken)
        if query not in self.known:
            self.known[query] = candidacy_of(entry.task, replace(self.network, taken=taken))
        candidacy, address = self.known[query], self.node.address
        for card, nodes in candidacy.groups.items():
            partners = [node.address for node in nodes if node.address != address]
            if len(partners) < len(nodes):
                return _Fit(None, partners, None if card is None else card.text)
        return _Fit(candidacy.out.get(address))
