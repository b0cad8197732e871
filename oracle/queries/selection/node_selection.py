"""Selects nodes for a task, with the chances of all candidates and the reasons against others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oracle.dispatch.downloads import simulate_planned_downloads
from oracle.domain.events.network_events import TaskCreated
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold.fold import Fold
from oracle.domain.ids import Address
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Task
from oracle.errors import InputError
from oracle.queries.selection.network_snapshot import NetworkSnapshot
from oracle.systems.crynux.crynux_policy import CrynuxPolicy
from oracle.systems.crynux.predownload import Predownload, plan_predownloads
from oracle.systems.legacy.legacy_eligibility import TRIO_SIZE
from oracle.systems.legacy.legacy_policy import LegacyPolicy
from oracle.systems.legacy.trio_selection import TrioChoice
from oracle.systems.policy import CandidateVerdict, Follower, PolicyInput, SelectionPolicy
from oracle.systems.weighted_draw import NodeDraw, draw_nodes


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of nodes for a task by a policy; `chances` has one entry for each member.

    Entries are in the order of addresses. An entry is a pair of the verdict on the member and the
    probability that the member is drawn first. The probability is in units of 10^-18, rounded
    down, or None if the member is not a candidate. `total_weight` is the sum of the weights in the
    first draw. If no node was drawn, `seed` is None and `drawn` is empty. `trio` is the choice of
    three nodes by a legacy system, or None; if all three need the same GPU, the group of nodes
    with this GPU was drawn first. `predownloads` are the downloads that the start of the task
    would cause while the drawn nodes are busy, or None if the policy has no predownloads.
    """

    policy: str
    version: int
    task: Task
    chances: Sequence[tuple[CandidateVerdict, int | None]]
    total_weight: int
    seed: bytes | None
    drawn: Sequence[NodeDraw]
    trio: TrioChoice | None
    predownloads: Sequence[Predownload] | None

    @property
    def has_equal_weights(self) -> bool:
        """Whether all candidates have weight 0, so that each counts as 1.

        See docs/reference/scoring-rules.md#selection-weight.
        """
        return not any(verdict.weight for verdict, _ in self.chances)


def run_selection(
    snapshot: NetworkSnapshot,
    policy: SelectionPolicy,
    follower: Follower,
    task: Task,
    seed: bytes | None = None,
    draw_count: int | None = None,
) -> Selection:
    """Judge every member for the task, and draw nodes if a seed is given.

    If `draw_count` is None, the system `legacy` draws three nodes, and other systems draw one.
    `follower` belongs to the policy; if the policy has a memory, the follower must have received
    all events of the snapshot. Nodes that had another task of the same group, or that are drawn
    for another task, are not candidates.

    Raises:
        InputError: the system cannot draw this number of nodes.
    """
    policy_input = PolicyInput(
        snapshot.nodes, snapshot.rules, snapshot.time, snapshot.find_unavailable_nodes(task)
    )
    verdicts = follower.evaluate_candidates(task, policy_input)
    weights = [
        (verdict.node, verdict.weight) for verdict in verdicts if verdict.weight is not None
    ]
    total_weight = sum(weight for _, weight in weights)
    drawn_nodes, trio = _draw_nodes(policy, task, policy_input, weights, seed, draw_count)
    return Selection(
        policy=policy.name,
        version=policy.version,
        task=task,
        chances=[
            (verdict, _compute_draw_probability(verdict, total_weight, len(weights)))
            for verdict in verdicts
        ],
        total_weight=total_weight or len(weights),
        seed=seed,
        drawn=drawn_nodes,
        trio=trio,
        predownloads=_plan_predownloads(policy, task, snapshot, drawn_nodes),
    )


def build_task(event: TaskCreated, rules: Rules) -> Task:
    """Return the task that a creation event creates, built by the fold itself."""
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
    policy: SelectionPolicy, task: Task, snapshot: NetworkSnapshot, drawn: Sequence[NodeDraw]
) -> list[Predownload] | None:
    if not isinstance(policy, CrynuxPolicy):
        return None
    current_input = PolicyInput(snapshot.nodes, snapshot.rules, snapshot.time)
    nodes = simulate_planned_downloads(current_input, snapshot.planned_downloads)
    busy_nodes = {
        drawn_node.node: replace(nodes[drawn_node.node], running=1) for drawn_node in drawn
    }
    network_after = replace(
        current_input, nodes={**nodes, **busy_nodes}, reserved=frozenset(busy_nodes)
    )
    return plan_predownloads(task, network_after, policy.weighting, policy.spread)
