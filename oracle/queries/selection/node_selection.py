"""Selects nodes for a task, and shows the chances of candidates and why others are ineligible."""

from collections.abc import Sequence
from dataclasses import replace

from oracle.dispatch.downloads import simulate_planned_downloads
from oracle.domain.events.network_events import TaskCreated
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Task
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.queries.selection.selection_models import (
    CandidateEntry,
    DrawnGpu,
    ScarceModel,
    SelectionFigures,
    build_drawn_node,
    build_requirements,
)
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.predownload import plan_predownloads
from oracle.systems.legacy.legacy_eligibility import TRIO_SIZE
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.legacy.trio_selection import TrioChoice
from oracle.systems.policy import (
    CandidateEvaluator,
    CandidateVerdict,
    PolicyInput,
    SelectionPolicy,
)
from oracle.systems.weighted_draw import NodeDraw, draw_nodes


def run_selection(
    snapshot: NetworkSnapshot,
    policy: SelectionPolicy,
    evaluator: CandidateEvaluator,
    task: Task,
    seed: bytes | None = None,
    draw_count: int | None = None,
) -> SelectionFigures:
    """Judge every member for the task, and draw nodes if a seed is given.

    If `draw_count` is None, the system `legacy` draws three nodes, and other systems draw one.
    If all weights are 0, each candidate counts with weight 1
    (docs/reference/scoring-rules.md#selection-weight).
    `evaluator` belongs to the policy; if the policy has a memory, the evaluator must have received
    all events of the snapshot. Nodes that had another task of the same group, or that are drawn
    for another task, are not candidates.

    Raises:
        InputError: the system cannot draw this number of nodes.
    """
    policy_input = PolicyInput(
        snapshot.nodes, snapshot.rules, snapshot.time, snapshot.find_unavailable_nodes(task)
    )
    verdicts = evaluator.evaluate_candidates(task, policy_input)
    weights = [
        (verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None
    ]
    total_weight = sum(weight for _, weight in weights)
    drawn_nodes, trio = _draw_nodes(policy, task, policy_input, weights, seed, draw_count)
    draw_order = {node_draw.node: place for place, node_draw in enumerate(drawn_nodes, start=1)}
    return SelectionFigures(
        policy=policy.name,
        version=policy.version,
        rules=snapshot.rules.name,
        changed={},
        task=build_requirements(task),
        sum=total_weight or len(weights),
        candidates=len(weights),
        equal_weights=not total_weight,
        nodes=[
            CandidateEntry(
                node=verdict.node,
                candidate=verdict.weight is not None,
                why_not=verdict.reason,
                weight=verdict.weight if total_weight or verdict.weight is None else 1,
                parts=dict(verdict.parts),
                chance=_compute_draw_probability(verdict, total_weight, len(weights)),
                drawn=draw_order.get(verdict.node),
            )
            for verdict in verdicts
        ],
        seed=None if seed is None else "0x" + seed.hex(),
        gpu=None if trio is None else _build_drawn_gpu(trio),
        draws=[build_drawn_node(node_draw) for node_draw in drawn_nodes],
        predownload=_plan_predownloads(policy, task, snapshot, drawn_nodes),
    )


def build_task(event: TaskCreated, rules: Rules) -> Task:
    """Build the task that a creation event creates, by folding the event."""
    fold = Fold(rules)
    fold.fold_events([event])
    return fold.ledger.tasks[event.task]


def _draw_nodes(
    policy: SelectionPolicy,
    task: Task,
    policy_input: PolicyInput,
    weights: Sequence[tuple[Address, int]],
    seed: bytes | None,
    draw_count: int | None,
) -> tuple[Sequence[NodeDraw], TrioChoice | None]:
    if seed is None:
        return [], None
    if not isinstance(policy, LegacyPolicy):
        return draw_nodes(weights, seed, 1 if draw_count is None else draw_count), None
    if draw_count not in (None, TRIO_SIZE):
        raise InputError(f"the legacy system draws {TRIO_SIZE} nodes, not {draw_count}")
    trio = policy.draw_trio(task, policy_input, seed)
    return ([], None) if trio is None else (trio.nodes, trio)


def _compute_draw_probability(
    verdict: CandidateVerdict, total_weight: int, candidate_count: int
) -> int | None:
    """Return a candidate's probability of being drawn first, in units of 10^-18.

    All candidates have the same probability if all weights are 0. See
    docs/reference/scoring-rules.md#selection-weight.
    """
    if verdict.weight is None:
        return None
    return verdict.weight * UNIT // total_weight if total_weight else UNIT // candidate_count


def _plan_predownloads(
    policy: SelectionPolicy, task: Task, snapshot: NetworkSnapshot, node_draws: Sequence[NodeDraw]
) -> list[ScarceModel] | None:
    if not isinstance(policy, CrynuxPolicy):
        return None
    current_input = PolicyInput(snapshot.nodes, snapshot.rules, snapshot.time)
    nodes = simulate_planned_downloads(current_input, snapshot.planned_downloads)
    busy_nodes = {
        drawn_node.node: replace(nodes[drawn_node.node], running=1) for drawn_node in node_draws
    }
    network_after = replace(
        current_input, nodes={**nodes, **busy_nodes}, reserved=frozenset(busy_nodes)
    )
    return [
        ScarceModel(
            model=scarce.model,
            holders=scarce.holders,
            pending=scarce.pending,
            requested_nodes=list(scarce.nodes),
        )
        for scarce in plan_predownloads(task, network_after, policy.weighting, policy.spread)
    ]


def _build_drawn_gpu(trio: TrioChoice) -> DrawnGpu | None:
    """Return the drawn group of nodes with the same GPU, or None if no group was drawn."""
    if trio.gpu is None or trio.group_draw is None:
        return None
    return DrawnGpu(
        name=trio.gpu.model,
        vram=trio.gpu.vram,
        digest=trio.group_draw.digest,
        x=trio.group_draw.x,
        sum=trio.group_draw.total,
    )
