"""The answer of `queue`: waiting tasks in order, the offer to a node, and tasks to be dropped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal, NamedTuple

from pydantic import Field

from oracle.dispatch.drawer import PocketPool
from oracle.domain.blocks import BEFORE_EVERYTHING
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, TaskKey
from oracle.domain.state import Membership, Node
from oracle.errors import InputError
from oracle.queries.answers import AddressText, ApiModel, FixedPoint, HashText
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.selection_models import (
    SnapshotTime,
    TaskRequirements,
    build_requirements,
    build_snapshot_time,
)
from oracle.systems.assignment import AssignmentPlan, filter_queued_items
from oracle.systems.crynux.crynux_policy import (
    CRYNUX_WEIGHTING,
    CrynuxPolicy,
    Weighting,
    find_ineligibility_reason,
)
from oracle.systems.crynux.free_nodes import FreeNodes
from oracle.systems.crynux.predownload import OPEN, list_download_requests
from oracle.systems.crynux.pricing import Pricing
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    Requirement,
    build_requirement,
    find_unavailability_reason,
)
from oracle.systems.legacy.legacy_eligibility import (
    CandidateGroups,
    find_candidate_groups,
    is_gpt_task,
)
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.legacy.trio_line import (
    build_trio_queue,
    get_legacy_queue_group,
)
from oracle.systems.pocket.pocket_policy import PocketEvaluator
from oracle.systems.policy import PolicyInput, SelectionPolicy
from oracle.systems.task_queue import (
    QueueItem,
    build_queue,
    collect_tasks_by_group,
    compute_queue_capacity,
    find_queue_drop,
    get_queue_group,
)


class QueueGroupName(ApiModel):
    """A group of queued tasks that have the same requirements."""

    vram: int = Field(description="Required video memory in GB.")
    gpu: str | None = Field(description="Required GPU model; null if any GPU may be used.")
    kind: Literal["gpt", "sd"] | None = Field(
        description="Kind of the tasks under the legacy system; null under others."
    )


class QueuePosition(ApiModel):
    """The chain position at which a task was created."""

    block: int
    log: int


class QueueEntry(TaskRequirements):
    """A waiting task, or a legacy group of three tasks listed under its first task."""

    queue_group: QueueGroupName
    tasks: list[HashText] = Field(description="Tasks that start together, oldest first.")
    created: QueuePosition = Field(description="Position of the newest of `tasks` in the chain.")
    queued: bool = Field(
        description="Whether the chain records that no node was found for the tasks."
    )
    estimated_seconds: FixedPoint
    value: FixedPoint = Field(description="Value of all `tasks`, in wei per second.")
    drawn: list[AddressText] = Field(
        description="Nodes that were drawn to start the tasks; empty if none were drawn."
    )


class QueueDownload(ApiModel):
    """A request to download a model, which the node has not answered yet."""

    node: AddressText
    model: str
    state: str = Field(
        description=(
            "`planned`: the daemon will request the download. `open`: the request is on the chain."
        )
    )
    until: int | None = Field(
        description=(
            "Time at which the request ends, in unix seconds; null if it is not on the chain yet."
        )
    )


class QueueCapacity(ApiModel):
    """The maximum number of waiting entries, and the entries to be dropped next."""

    members: int
    max_tasks: int = Field(
        description="Max number of waiting entries: floor(alpha * members), at least 1."
    )
    dropped_next: list[HashText] = Field(
        description=(
            "Tasks that are dropped next if the queue is full, least valuable first. The tasks "
            "of a group are dropped together."
        )
    )


class QueueHead(ApiModel):
    """The entry of a queue group that is first in line for a node.

    This is the best entry that the node can run, or else the first entry of the group.
    """

    queue_group: QueueGroupName
    task: HashText
    value: FixedPoint = Field(description="Value of the tasks, in wei per second.")
    why_not: str | None = Field(
        description="Why the node does not take the tasks; null if it takes them.",
        examples=["less_valuable"],
    )
    gpu: str | None = Field(
        description="GPU that all nodes of a group of three must have; null if they may have any."
    )
    partners: list[AddressText] | None = Field(
        description=(
            "Nodes of which two would run the tasks together with this node; null if the tasks "
            "need no group of three."
        )
    )


class QueueOffer(ApiModel):
    """The queue entry that a node would take if it were free now."""

    node: AddressText
    why_not: str | None = Field(
        description="Why the node gets no task at all; null if it can get one.",
        examples=["paused"],
    )
    takes: HashText | None
    heads: list[QueueHead] = Field(description="The first entry of each queue group, by value.")


class QueueAnswer(ApiModel):
    """The answer of `queue`; `entries` are in the order in which they are served."""

    as_of: SnapshotTime
    waiting: int = Field(description="Number of entries in the queue.")
    entries: list[QueueEntry]
    left_out: list[HashText] = Field(
        description=(
            "Tasks that are not in the queue, because their group is incomplete or can no "
            "longer start."
        )
    )
    downloads: list[QueueDownload]
    capacity: QueueCapacity | None = Field(
        description="Limit of the queue; null if alpha is not set."
    )
    offer: QueueOffer | None = Field(
        description="Tasks that a node could take; null if the command was run without a node."
    )


PLANNED = "planned"


def list_pending_downloads(snapshot: NetworkSnapshot) -> list[QueueDownload]:
    """Return the planned and the open download requests.

    Planned requests come first. Both parts are sorted by node and model.

    See docs/explanation/dispatch.md#pre-download.
    """
    planned_downloads = [
        QueueDownload(node=download.node, model=download.model, state=PLANNED, until=None)
        for download in sorted(
            snapshot.planned_downloads, key=lambda download: (download.node, download.model)
        )
    ]
    return planned_downloads + [
        QueueDownload(
            node=address,
            model=request.model,
            state=state,
            until=request.until,
        )
        for address, node in sorted(snapshot.nodes.items())
        for request, state in list_download_requests(node, snapshot.time)
        if state == OPEN
    ]


# Reasons for which a node with a suitable GPU does not take a queue entry.
LESS_VALUABLE = "less_valuable"
HAD_ONE_OF_ITS_GROUP = "had_one_of_its_group"
DRAWN_FOR_ANOTHER = "drawn_for_another"


def build_queue_answer(
    snapshot: NetworkSnapshot,
    policy: SelectionPolicy,
    pricing: Pricing,
    alpha: Fraction | None = None,
    node: Address | None = None,
) -> QueueAnswer:
    """Return the answer about the daemon's queue.

    `alpha` is the number of waiting entries allowed per member, or None to leave out the capacity.
    `node` is the node for which an offer is requested, or None.

    Raises:
        InputError: no event refers to the node.
        ValueError: alpha is not above 0.
    """
    is_legacy = isinstance(policy, LegacyPolicy)
    build_sorted_queue = build_trio_queue if is_legacy else build_queue
    queue_entries = build_sorted_queue(
        snapshot.waiting, snapshot.group_tasks, pricing.compute_value
    )
    queued_tasks = {task.key for entry in queue_entries for task in entry.tasks}
    return QueueAnswer(
        as_of=build_snapshot_time(snapshot),
        waiting=len(queue_entries),
        entries=[_build_entry(entry, snapshot, policy, pricing) for entry in queue_entries],
        left_out=[task.key for task in snapshot.waiting if task.key not in queued_tasks],
        downloads=list_pending_downloads(snapshot),
        capacity=None if alpha is None else _build_queue_capacity(queue_entries, snapshot, alpha),
        offer=None if node is None else _build_queue_offer(queue_entries, snapshot, policy, node),
    )


def _build_entry(
    entry: QueueItem, snapshot: NetworkSnapshot, policy: SelectionPolicy, pricing: Pricing
) -> QueueEntry:
    task = entry.task
    last_created = entry.tasks[-1].created_at or BEFORE_EVERYTHING
    fees = [entry_task.fee for entry_task in entry.tasks if entry_task.fee is not None]
    requirements = build_requirements(task).model_dump() | {"fee": sum(fees) if fees else None}
    drawn_nodes = (snapshot.drawn_node_by_task.get(entry_task.key) for entry_task in entry.tasks)
    return QueueEntry(
        **requirements,
        queue_group=_build_group_name(entry, policy),
        tasks=[entry_task.key for entry_task in entry.tasks],
        created=QueuePosition(block=last_created.block, log=last_created.log),
        queued=task.queued,
        estimated_seconds=int(pricing.estimate_task_seconds(task) * UNIT),
        value=int(entry.value * UNIT),
        drawn=[node for node in drawn_nodes if node is not None],
    )


def _build_group_name(entry: QueueItem, policy: SelectionPolicy) -> QueueGroupName:
    is_legacy = isinstance(policy, LegacyPolicy)
    return QueueGroupName.model_validate(
        get_legacy_queue_group(entry.task) if is_legacy else get_queue_group(entry.task)
    )


def _build_queue_capacity(
    queue_entries: Sequence[QueueItem], snapshot: NetworkSnapshot, alpha: Fraction
) -> QueueCapacity:
    """Return the queue's capacity, and the entries that the next new entry would displace.

    See docs/reference/scoring-rules.md#queue. An entry with an active draw does not count.
    """
    member_state = Membership.MEMBER
    member_count = sum(node.membership is member_state for node in snapshot.nodes.values())
    max_tasks = compute_queue_capacity(member_count, alpha)
    plan = AssignmentPlan(snapshot.drawn_node_by_task, frozenset())
    queue = filter_queued_items(queue_entries, plan, 1 + (snapshot.block or 0))
    tasks_of_group = collect_tasks_by_group(snapshot.group_tasks)
    drops = (
        find_queue_drop(
            entry.task, () if entry.task.group is None else tasks_of_group[entry.task.group]
        )
        for entry in reversed(queue[max_tasks - 1 :])
    )
    dropped_keys = dict.fromkeys(
        key
        for drop in drops
        if drop is not None and snapshot.drawn_node_by_task.keys().isdisjoint(drop.tasks)
        for key in drop.tasks
    )
    return QueueCapacity(
        members=member_count, max_tasks=max_tasks, dropped_next=list(dropped_keys)
    )


class _Fit(NamedTuple):
    """Whether a freed node can take a queue entry; `reason` is None if it can.

    If the entry is a group of three tasks, two of `partners` would run the other tasks.
    """

    reason: str | None
    partners: Sequence[Address] | None = None
    gpu: str | None = None


# A function that returns whether the freed node is a candidate for an entry, given the nodes
# already taken.
_EligibilityCheck = Callable[[QueueItem, frozenset[Address]], _Fit]


def _build_queue_offer(
    queue_entries: Sequence[QueueItem],
    snapshot: NetworkSnapshot,
    policy: SelectionPolicy,
    address: Address,
) -> QueueOffer:
    """Return the entry that a node would take if free, and the first entry of each queue group."""
    stored_node = snapshot.nodes.get(address)
    if stored_node is None:
        raise InputError(
            f"{address}: no event refers to this node; `qos-oracle nodes` lists all nodes"
        )
    node = replace(stored_node, running=0)
    nodes = {**snapshot.nodes, address: node}
    policy_input = PolicyInput(nodes, snapshot.rules, snapshot.time)
    evaluator = policy.create_evaluator()
    is_pocket = isinstance(evaluator, PocketEvaluator)
    ineligibility_reason = (
        _find_pocket_unfit_reason(node)
        if is_pocket
        else find_unavailability_reason(node, policy_input.time, policy_input.rules)
    )
    if ineligibility_reason is not None:
        return QueueOffer(node=address, why_not=ineligibility_reason, takes=None, heads=[])
    if isinstance(evaluator, PocketEvaluator):
        check_eligibility = _build_pocket_eligibility_check(evaluator, node, policy_input)
    elif isinstance(policy, LegacyPolicy):
        check_eligibility = _build_trio_eligibility_check(node, policy_input)
    else:
        weighting = policy.weighting if isinstance(policy, CrynuxPolicy) else CRYNUX_WEIGHTING
        check_eligibility = _build_crynux_eligibility_check(node, policy_input, weighting)
    fits = [
        (
            entry,
            _evaluate_entry_fit(entry, address, snapshot.drawn_node_by_task, check_eligibility),
        )
        for entry in queue_entries
    ]
    heads = _build_queue_heads(fits, policy)
    taken_task = next((head.task for head in heads if head.why_not is None), None)
    return QueueOffer(node=address, why_not=None, takes=taken_task, heads=heads)


def _find_pocket_unfit_reason(node: Node) -> IneligibilityReason | None:
    if node.membership is not Membership.MEMBER:
        return IneligibilityReason.NO_MEMBER
    return IneligibilityReason.PAUSED if node.paused else None


def _build_queue_heads(
    fits: Iterable[tuple[QueueItem, _Fit]], policy: SelectionPolicy
) -> list[QueueHead]:
    """Return each queue group's first entry for a node, and mark the entry it would take."""
    head_by_group: dict[QueueGroupName, tuple[QueueItem, _Fit]] = {}
    taken_task: TaskKey | None = None
    for entry, fit in fits:
        group_name = _build_group_name(entry, policy)
        if fit.reason is None and taken_task is None:
            taken_task = entry.task.key
        previous_head = head_by_group.get(group_name)
        if previous_head is None or (previous_head[1].reason is not None and fit.reason is None):
            head_by_group[group_name] = (entry, fit)
    return [
        QueueHead(
            queue_group=group_name,
            task=entry.task.key,
            value=int(entry.value * UNIT),
            why_not=None if entry.task.key == taken_task else fit.reason or LESS_VALUABLE,
            gpu=fit.gpu,
            partners=None if fit.partners is None else list(fit.partners),
        )
        for group_name, (entry, fit) in head_by_group.items()
    ]


def _evaluate_entry_fit(
    entry: QueueItem,
    address: Address,
    drawn_node_by_task: Mapping[TaskKey, Address],
    check_eligibility: _EligibilityCheck,
) -> _Fit:
    """Return whether a node can take an entry by the planner's rules for the next block."""
    drawn_nodes = frozenset(
        drawn_node_by_task[task.key] for task in entry.tasks if task.key in drawn_node_by_task
    )
    if drawn_nodes and address not in drawn_nodes:
        return _Fit(DRAWN_FOR_ANOTHER)
    if address in entry.sibling_nodes:
        return _Fit(HAD_ONE_OF_ITS_GROUP)
    return check_eligibility(
        entry, entry.get_unavailable_nodes(frozenset(drawn_node_by_task.values()) - drawn_nodes)
    )


def _build_crynux_eligibility_check(
    node: Node, network: PolicyInput, weighting: Weighting
) -> _EligibilityCheck:
    """Return a function that checks whether the freed node can take an entry (Crynux)."""
    free_nodes = FreeNodes(network.rules, weighting)
    free_nodes.advance_to(network.time)
    free_nodes.update_node(node)

    def check(entry: QueueItem, taken_nodes: frozenset[Address]) -> _Fit:
        requirement = entry.criteria.requirement
        if free_nodes.has_matching_node(requirement, taken_nodes):
            return _Fit(None)
        reason = find_ineligibility_reason(
            node, requirement, replace(network, reserved=taken_nodes)
        )
        return _Fit(reason or IneligibilityReason.MODELS_NOT_ON_DISK)

    return check


def _build_pocket_eligibility_check(
    evaluator: PocketEvaluator, node: Node, network: PolicyInput
) -> _EligibilityCheck:
    """Return a function that checks whether the freed node can take an entry (Pocket)."""

    def check(entry: QueueItem, taken_nodes: frozenset[Address]) -> _Fit:
        pool = PocketPool(evaluator, network, [node], explains=False)
        if pool.has_candidates(entry, taken_nodes):
            return _Fit(None)
        reserving_network = replace(network, reserved=taken_nodes)
        return _Fit(evaluator.find_ineligibility_reason(node, entry.task, reserving_network))

    return check


def _build_trio_eligibility_check(freed_node: Node, network: PolicyInput) -> _EligibilityCheck:
    """Return a function that checks whether the freed node and others can run three tasks."""
    # Results are cached, because many waiting groups have the same requirements.
    candidacy_by_query: dict[tuple[Requirement, bool, frozenset[Address]], CandidateGroups] = {}

    def check(entry: QueueItem, taken_nodes: frozenset[Address]) -> _Fit:
        candidacy_key = (build_requirement(entry.task), is_gpt_task(entry.task), taken_nodes)
        if candidacy_key not in candidacy_by_query:
            candidacy_by_query[candidacy_key] = find_candidate_groups(
                entry.task, replace(network, reserved=taken_nodes)
            )
        candidacy = candidacy_by_query[candidacy_key]
        address = freed_node.address
        for gpu, nodes in candidacy.groups.items():
            other_nodes = [node.address for node in nodes if node.address != address]
            if len(other_nodes) < len(nodes):
                return _Fit(None, other_nodes, None if gpu is None else gpu.text)
        return _Fit(candidacy.reason_by_node.get(address))

    return check
