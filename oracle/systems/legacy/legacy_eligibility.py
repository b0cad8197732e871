"""Finds the nodes that may have a task of the legacy system, in groups of candidates.

See docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from oracle.domain.ids import Address
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.requirements import (
    Out,
    Requirement,
    misfit_reason,
    requirement_of,
    unavailability_reason,
)
from oracle.systems.legacy.grading import TRIO, CardGroup, card_group_of, group_by_card, is_gpt
from oracle.systems.policy import PolicyInput


class TooFew(StrEnum):
    """The reason why an eligible node is no candidate: a task needs three nodes."""

    CANDIDATES = "too_few_candidates"
    # For GPT tasks, which need three nodes of one card.
    OF_ITS_CARD = "too_few_of_its_card"


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The candidates of a task in `groups`, by address, and the reasons of all other members.

    A GPT task has one group for each card that three nodes have, in order; any other task has one
    group under None. Without a group the task has to wait.
    """

    members: Sequence[Node]
    groups: dict[CardGroup | None, list[Node]]
    out: dict[Address, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return how many candidates there are."""
        return sum(map(len, self.groups.values()))


def candidacy_of(task: Task, policy_input: PolicyInput) -> Candidacy:
    """Return the candidate groups of a task, from every member of the network."""
    is_member = Membership.MEMBER
    members = [node for node in policy_input.nodes.values() if node.membership is is_member]
    members.sort(key=lambda node: node.address)
    wanted, gpt = requirement_of(task), is_gpt(task)
    able: list[Node] = []
    out: dict[Address, str] = {}
    for node in members:
        reason = inability_reason(node, wanted, policy_input, gpt=gpt)
        if reason is None:
            able.append(node)
        else:
            out[node.address] = reason
    groups: Iterable[tuple[CardGroup | None, list[Node]]] = (
        group_by_card(able).items() if gpt else [(None, able)]
    )
    enough = {group: nodes for group, nodes in groups if len(nodes) >= TRIO}
    few = TooFew.OF_ITS_CARD if gpt else TooFew.CANDIDATES
    chosen = {node.address for nodes in enough.values() for node in nodes}
    out |= {node.address: few for node in able if node.address not in chosen}
    return Candidacy(members, enough, out)


def inability_reason(
    node: Node, wanted: Requirement, policy_input: PolicyInput, *, gpt: bool
) -> Out | None:
    """Return why a node cannot run a part of the task, whichever nodes run the other parts."""
    reason = unavailability_reason(node, policy_input.time, policy_input.rules)
    if reason is None and node.address in policy_input.taken:
        return Out.TAKEN
    return reason or hardware_misfit_reason(node, wanted, gpt=gpt)


def hardware_misfit_reason(node: Node, wanted: Requirement, *, gpt: bool) -> Out | None:
    """Return why card or version do not fit; a GPT task needs a known card."""
    reason = misfit_reason(node, wanted)
    if reason is None and gpt and card_group_of(node) is None:
        return Out.GPU_UNKNOWN if node.gpu_name is None else Out.VRAM_UNKNOWN
    return reason
