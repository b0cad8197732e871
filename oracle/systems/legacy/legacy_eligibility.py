"""Finds the nodes that may get a task of the legacy system, and groups them.

Nodes are grouped by GPU model and video memory, and tasks by kind. See
docs/reference/sources.md#crynux-dispatching-of-2024, Node Grading and Task Grading.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from oracle.domain.events.network_events import TaskKind
from oracle.domain.ids import Address
from oracle.domain.state import Membership, Node, Task
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    Requirement,
    build_requirement,
    find_misfit_reason,
    find_unavailability_reason,
)
from oracle.systems.policy import PolicyInput

# Every task in the legacy system runs on three nodes.
TRIO_SIZE = 3


class GpuGroup(NamedTuple):
    """Nodes with the same GPU model and the same video memory in GB."""

    vram: int
    model: str

    @property
    def text(self) -> str:
        """The group as a text, such as `NVIDIA GeForce RTX 4090, 24 GB`."""
        return f"{self.model}, {self.vram} GB"


def is_gpt_task(task: Task) -> bool:
    """Return whether the task needs three nodes with the same GPU.

    A task of unknown kind is not a GPT task.
    """
    return task.kind is TaskKind.LLM


def find_gpu_group(node: Node) -> GpuGroup | None:
    """Return the GPU group of a node, or None if its GPU is unknown."""
    if node.gpu_name is None or node.gpu_vram is None:
        return None
    return GpuGroup(node.gpu_vram, node.gpu_name)


def group_nodes_by_gpu(nodes: Iterable[Node]) -> dict[GpuGroup, list[Node]]:
    """Group nodes by GPU, with the smallest memory first.

    The nodes of each group are sorted by address.
    """
    nodes_by_gpu: dict[GpuGroup, list[Node]] = {}
    for node in sorted(nodes, key=lambda member: member.address):
        group = find_gpu_group(node)
        if group is not None:
            nodes_by_gpu.setdefault(group, []).append(node)
    return {group: nodes_by_gpu[group] for group in sorted(nodes_by_gpu)}


class TooFewReason(StrEnum):
    """The reason why an eligible node is no candidate for a task that needs three nodes."""

    CANDIDATES = "too_few_candidates"
    # Reason for GPT tasks, which need three nodes with the same GPU.
    OF_ITS_GPU = "too_few_of_its_gpu"


@dataclass(frozen=True, slots=True)
class CandidateGroups:
    """The candidates of a task in groups, and why each other member is excluded.

    The nodes of a group are sorted by address. A GPT task has a group for each GPU that at least
    three nodes have, in order; any other task has a single group with the key None. If there is no
    group, the task has to wait.
    """

    members: Sequence[Node]
    groups: dict[GpuGroup | None, list[Node]]
    reason_by_node: dict[Address, str] = field(default_factory=dict)

    @property
    def candidate_count(self) -> int:
        return sum(map(len, self.groups.values()))


def find_candidate_groups(task: Task, policy_input: PolicyInput) -> CandidateGroups:
    """Find the candidate groups for a task among all members of the network."""
    member_status = Membership.MEMBER
    members = [node for node in policy_input.nodes.values() if node.membership is member_status]
    members.sort(key=lambda node: node.address)
    requirement = build_requirement(task)
    is_gpt = is_gpt_task(task)
    eligible_nodes: list[Node] = []
    reason_by_node: dict[Address, str] = {}
    for node in members:
        reason = find_part_ineligibility_reason(
            node, requirement, policy_input, is_gpt_part=is_gpt
        )
        if reason is None:
            eligible_nodes.append(node)
        else:
            reason_by_node[node.address] = reason
    groups: Iterable[tuple[GpuGroup | None, list[Node]]] = (
        group_nodes_by_gpu(eligible_nodes).items() if is_gpt else [(None, eligible_nodes)]
    )
    full_groups = {group: nodes for group, nodes in groups if len(nodes) >= TRIO_SIZE}
    too_few_reason = TooFewReason.OF_ITS_GPU if is_gpt else TooFewReason.CANDIDATES
    candidates = {node.address for nodes in full_groups.values() for node in nodes}
    reason_by_node |= {
        node.address: too_few_reason for node in eligible_nodes if node.address not in candidates
    }
    return CandidateGroups(members, full_groups, reason_by_node)


def find_part_ineligibility_reason(
    node: Node, requirement: Requirement, policy_input: PolicyInput, *, is_gpt_part: bool
) -> IneligibilityReason | None:
    """Return why a node cannot run a part of the task, or None if it can.

    It is not checked whether there are enough other nodes.
    """
    reason = find_unavailability_reason(node, policy_input.time, policy_input.rules)
    if reason is None and node.address in policy_input.reserved:
        return IneligibilityReason.TAKEN
    return reason or find_hardware_misfit_reason(node, requirement, is_gpt_part=is_gpt_part)


def find_hardware_misfit_reason(
    node: Node, requirement: Requirement, *, is_gpt_part: bool
) -> IneligibilityReason | None:
    """Return why a node's GPU or version does not fit, or None if both fit.

    A GPT task needs a node whose GPU is known.
    """
    reason = find_misfit_reason(node, requirement)
    if reason is None and is_gpt_part and find_gpu_group(node) is None:
        if node.gpu_name is None:
            return IneligibilityReason.GPU_UNKNOWN
        return IneligibilityReason.VRAM_UNKNOWN
    return reason
