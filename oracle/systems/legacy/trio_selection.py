"""Selects three nodes for a task by drawing a GPU group by size, then nodes by speed B.

See docs/reference/sources.md#crynux-qos-of-2024 and
docs/reference/sources.md#crynux-dispatching-of-2024.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import PopulationMaxima, compute_speed_factor
from oracle.domain.scoring.legacy_tally import compute_window_tally
from oracle.domain.scoring.node_scores import compute_long_term_score, count_effective_scores
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Node, Task
from oracle.systems.legacy.legacy_eligibility import (
    TRIO_SIZE,
    CandidateGroups,
    GpuGroup,
    find_candidate_groups,
)
from oracle.systems.policy import PolicyInput
from oracle.systems.weighted_draw import IndexDraw, NodeDraw, draw_indexes, draw_nodes


@dataclass(frozen=True, slots=True)
class SubmissionSpeed:
    """A node's submission speed B (`share`), and its weight.

    Both are in units of 10^-18. `share` is None if the node has no task in the window.
    """

    share: int | None
    weight: int


def compute_submission_speeds(
    members: Iterable[Node], time: int, rules: Rules, *, use_equal_weights: bool
) -> Mapping[Address, SubmissionSpeed]:
    """Compute each member's speed B and weight at a block time.

    A node without B has weight 1, so that new nodes get tasks. With `use_equal_weights`, every
    node has weight 1.
    """
    score_by_node = {node.address: _compute_node_score(node, time, rules) for node in members}
    best_score = max((score for score in score_by_node.values() if score is not None), default=0)
    population_maxima = PopulationMaxima(max_vram=0, max_timeout=0, max_node_score=best_score)
    speed_by_node = {}
    for address, score in score_by_node.items():
        speed_factor = compute_speed_factor(score, population_maxima)
        speed_by_node[address] = SubmissionSpeed(
            speed_factor, UNIT if speed_factor is None or use_equal_weights else speed_factor
        )
    return speed_by_node


def _compute_node_score(node: Node, time: int, rules: Rules) -> int | None:
    """Return the mean of a node's task scores.

    They are the scores in the window (legacy rules) or in the pool.
    """
    if rules.legacy is not None:
        return compute_window_tally(node, time, rules.legacy).node_score
    return (
        compute_long_term_score(node, rules, time)
        if count_effective_scores(node, time, rules)
        else None
    )


# The group of nodes with the same GPU is drawn with sha256(seed || suffix). This draw is therefore
# independent of the draws of the nodes.
_GROUP_SUFFIX = b"card group"


@dataclass(frozen=True, slots=True)
class TrioChoice:
    """The three chosen nodes in order, with the draws that explain the choice.

    `gpu` is the GPU group that was drawn for a GPT task, and `group_draw` is the draw of this
    group; both are None for other tasks. `group_draw.candidate_index` is an index of the groups
    with at least three candidates, sorted by video memory, then by name.
    """

    gpu: GpuGroup | None
    group_draw: IndexDraw | None
    nodes: Sequence[NodeDraw]


def draw_trio(
    task: Task, policy_input: PolicyInput, seed: bytes, *, use_equal_weights: bool
) -> TrioChoice | None:
    """Draw three nodes for a task, or return None if too few nodes are available.

    Args:
        task: the task to run.
        policy_input: the network at a block time.
        seed: 32 bytes; on chain, the result of `compute_draw_seed`
            (docs/reference/scoring-rules.md#the-draw).
        use_equal_weights: whether every candidate has the same chance, regardless of its B.

    Raises:
        ValueError: the seed is not 32 bytes long.
    """
    candidate_groups = find_candidate_groups(task, policy_input)
    if not candidate_groups.groups:
        return None
    speed_by_node = compute_submission_speeds(
        candidate_groups.members,
        policy_input.time,
        policy_input.rules,
        use_equal_weights=use_equal_weights,
    )
    gpu, group_draw = _draw_gpu_group(candidate_groups, seed)
    return TrioChoice(gpu, group_draw, _draw_nodes(candidate_groups, gpu, speed_by_node, seed))


def _draw_gpu_group(
    candidate_groups: CandidateGroups, seed: bytes
) -> tuple[GpuGroup | None, IndexDraw | None]:
    """Draw a GPU group.

    Its chance is proportional to its size.
    """
    groups = list(candidate_groups.groups)
    if groups == [None]:
        return None, None
    group_sizes = [len(nodes) for nodes in candidate_groups.groups.values()]
    group_seed = sha256(seed + _GROUP_SUFFIX).digest()
    group_draw = next(
        draw_indexes(group_sizes, bytearray(b"\1" * len(group_sizes)), group_seed, 1)
    )
    return groups[group_draw.candidate_index], group_draw


def _draw_nodes(
    candidate_groups: CandidateGroups,
    gpu: GpuGroup | None,
    speed_by_node: Mapping[Address, SubmissionSpeed],
    seed: bytes,
) -> list[NodeDraw]:
    candidates = [
        (node.address, speed_by_node[node.address].weight) for node in candidate_groups.groups[gpu]
    ]
    return draw_nodes(candidates, seed, TRIO_SIZE)
