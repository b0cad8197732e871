"""Selects three nodes for a task: first a card group by its size, then nodes by weight.

See docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from oracle.domain.ids import Address
from oracle.domain.state import Task
from oracle.systems.legacy.grading import TRIO_SIZE, CardGroup
from oracle.systems.legacy.legacy_eligibility import CandidateGroups, find_candidate_groups
from oracle.systems.legacy.submission_speed import SubmissionSpeed, compute_submission_speeds
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import IndexDraw, NodeDraw, draw_indexes, draw_nodes

# The card group is drawn by sha256(seed || suffix), independent of the nodes' draws.
_GROUP_SUFFIX = b"card group"


@dataclass(frozen=True, slots=True)
class TrioChoice:
    """The chosen nodes in order, and the draws that explain the choice.

    `card` is the card group that was drawn for a GPT task, and `group_draw` its draw; both are
    None for other tasks. The place in `group_draw` counts the groups with at least three
    candidates, sorted by video memory, then by name.
    """

    card: CardGroup | None
    group_draw: IndexDraw | None
    nodes: Sequence[NodeDraw]


def choose_trio(
    task: Task, policy_input: PolicyInput, seed: bytes, *, equal: bool
) -> TrioChoice | None:
    """Draw three nodes for a task, or return None if there are too few and the task must wait.

    Args:
        task: the task to run.
        policy_input: the network at a time.
        seed: 32 bytes; on chain, the result of `compute_draw_seed`
            (docs/reference/scoring-rules.md#the-draw).
        equal: whether every candidate has the same chance, whatever its B.

    Raises:
        ValueError: the seed is not 32 bytes long.
    """
    candidate_groups = find_candidate_groups(task, policy_input)
    if not candidate_groups.groups:
        return None
    speed_by_node = compute_submission_speeds(
        candidate_groups.members, policy_input.time, policy_input.rules, equal=equal
    )
    card, group_draw = _draw_group(candidate_groups, seed)
    return TrioChoice(card, group_draw, _draw_nodes(candidate_groups, card, speed_by_node, seed))


def _draw_group(
    candidate_groups: CandidateGroups, seed: bytes
) -> tuple[CardGroup | None, IndexDraw | None]:
    """Draw a card group with a chance proportional to its size."""
    groups = list(candidate_groups.groups)
    if groups == [None]:
        return None, None
    sizes = [len(nodes) for nodes in candidate_groups.groups.values()]
    group_seed = sha256(seed + _GROUP_SUFFIX).digest()
    group_draw = next(draw_indexes(sizes, bytearray(b"\1" * len(sizes)), group_seed, 1))
    return groups[group_draw.place], group_draw


def _draw_nodes(
    candidate_groups: CandidateGroups,
    card: CardGroup | None,
    speed_by_node: Mapping[Address, SubmissionSpeed],
    seed: bytes,
) -> list[NodeDraw]:
    candidates = [
        (node.address, speed_by_node[node.address].weight)
        for node in candidate_groups.groups[card]
    ]
    return draw_nodes(candidates, seed, TRIO_SIZE)
