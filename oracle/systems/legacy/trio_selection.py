"""Selects three nodes for a task: first a card group by its size, then nodes by weight.

See docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from oracle.domain.ids import Address
from oracle.domain.state.task import Task
from oracle.systems.legacy.grading import TRIO, CardGroup
from oracle.systems.legacy.legacy_eligibility import Candidacy, candidacy_of
from oracle.systems.legacy.submission_speed import SubmissionSpeed, speeds
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import Drawn, Pick, draw, draw_places

# The card group is drawn by sha256(seed || suffix), independent of the nodes' draws.
_GROUP_SUFFIX = b"card group"


@dataclass(frozen=True, slots=True)
class TrioChoice:
    """The chosen nodes, in order, with the draws that explain the choice.

    `card` is the group that was drawn for a GPT task, `group_draw` its draw (the place counts the
    groups with three candidates, the smallest video memory first, then by name); both are None for
    other tasks.
    """

    card: CardGroup | None
    lot: Pick | None
    nodes: Sequence[Drawn]


def choose_trio(
    task: Task, policy_input: PolicyInput, seed: bytes, *, equal: bool
) -> TrioChoice | None:
    """Draw three nodes for a task, or return None if there are not enough and it has to wait.

    Args:
        task: the task to run.
        policy_input: the network at a time.
        seed: 32 bytes, on chain `compute_draw_seed` (docs/reference/scoring-rules.md#the-draw).
        equal: every candidate has the same chance, whatever its B.

    Raises:
        ValueError: a seed of another length.
    """
    found = candidacy_of(task, policy_input)
    if not found.groups:
        return None
    weights = speeds(found.members, policy_input.time, policy_input.rules, equal=equal)
    card, lot = _draw_group(found, seed)
    return TrioChoice(card, lot, _draw_nodes(found, card, weights, seed))


def _draw_group(found: Candidacy, seed: bytes) -> tuple[CardGroup | None, Pick | None]:
    """Draw a group by its size, so that each node has the chance 1 / number of candidates."""
    groups = list(found.groups)
    if groups == [None]:
        return None, None
    sizes = [len(nodes) for nodes in found.groups.values()]
    of_groups = sha256(seed + _GROUP_SUFFIX).digest()
    lot = next(draw_places(sizes, bytearray(b"\1" * len(sizes)), of_groups, 1))
    return groups[lot.place], lot


def _draw_nodes(
    found: Candidacy,
    card: CardGroup | None,
    weights: Mapping[Address, SubmissionSpeed],
    seed: bytes,
) -> list[Drawn]:
    candidates = [(node.address, weights[node.address].weight) for node in found.groups[card]]
    return draw(candidates, seed, TRIO)
