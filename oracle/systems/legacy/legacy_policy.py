"""The legacy system's rule set, as far as it was published, with its selection policy.

The policy returns the candidates of a task, each with its chance to be drawn first. See
docs/explanation/legacy.md, docs/explanation/crynux.md#weighted-sum-of-scores.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.ids import Address
from oracle.domain.state import Membership, Task
from oracle.systems.legacy.legacy_eligibility import GpuGroup, find_candidate_groups
from oracle.systems.legacy.trio_selection import (
    SubmissionSpeed,
    TrioChoice,
    compute_submission_speeds,
    draw_trio,
)
from oracle.systems.policy import CandidateVerdict, PolicyInput

# The published values (docs/reference/sources.md#crynux-qos-of-2024 and its figure), in the JSON
# form of `Rules`. Reliability (H) plays no role here. Neither timeouts nor successes change it,
# and no node is excluded.
LEGACY_BASE_RULES: Mapping[str, Any] = MappingProxyType({
    "name": "legacy",
    "version": 2,
    # Scores by rank in a round (figure "round score"). Two rounds give at most 20.
    "rank_scores": [10, 5, 2],
    "absent_score": 0,
    "q_max": 20,
    # Each task runs on three nodes.
    "group_size": 3,
    # A node without a task in the window has no speed score. This counts as 0.
    "new_node_long_term": "0",
    "penalty": "1",
    "boost": "0",
    # The user must give every value except `window_seconds`, whose default is the calendar month.
    "legacy": {},
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class LegacyPolicy:
    """Selects three nodes for a task by their submission speed.

    With `equal`, all nodes have the same chance.
    """

    name: str
    version: int
    equal: bool

    def create_evaluator(self) -> "LegacyPolicy":
        """Return the policy itself, which needs no state besides the rows of the nodes."""
        return self

    def draw_trio(self, task: Task, policy_input: PolicyInput, seed: bytes) -> TrioChoice | None:
        """Draw three nodes, or return None if the task must wait.

        A GPT task needs three nodes with the same GPU.
        """
        return draw_trio(task, policy_input, seed, use_equal_weights=self.equal)

    def compute_weights(self, policy_input: PolicyInput) -> Mapping[Address, SubmissionSpeed]:
        """Compute each member's weight in the draw within its group."""
        member_status = Membership.MEMBER
        members = [
            node for node in policy_input.nodes.values() if node.membership is member_status
        ]
        return compute_submission_speeds(
            members, policy_input.time, policy_input.rules, use_equal_weights=self.equal
        )

    def apply_event(self, event: DomainEvent) -> None:
        """Ignore the event, which the fold has already applied to the rows of the nodes."""

    def evaluate_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member, sorted by address.

        The weight is the chance to be drawn first, in units of 10^-18. For a GPT task, it is the
        chance of the node's GPU group times the node's chance within the group. Nodes that are
        drawn one by one with these weights could have different GPUs, so callers use `draw_trio`
        to draw all three nodes.
        """
        candidate_groups = find_candidate_groups(task, policy_input)
        all_speeds = compute_submission_speeds(
            candidate_groups.members,
            policy_input.time,
            policy_input.rules,
            use_equal_weights=self.equal,
        )
        verdicts = [
            CandidateVerdict(address, None, reason, _format_speed(all_speeds[address]))
            for address, reason in candidate_groups.reason_by_node.items()
        ]
        for group, nodes in candidate_groups.groups.items():
            speed_by_node = {node.address: all_speeds[node.address] for node in nodes}
            verdicts.extend(
                _iter_group_verdicts(group, speed_by_node, candidate_groups.candidate_count)
            )
        return sorted(verdicts, key=lambda verdict: verdict.node)


def _iter_group_verdicts(
    group: GpuGroup | None, speed_by_node: Mapping[Address, SubmissionSpeed], candidate_count: int
) -> Iterator[CandidateVerdict]:
    """Yield verdicts on the candidates of a group.

    The group is drawn in proportion to its size.
    """
    total_weight = sum(speed.weight for speed in speed_by_node.values())
    group_chance = len(speed_by_node) * UNIT // candidate_count
    group_parts = (
        {}
        if group is None
        else {
            "gpu": group.text,
            "of_its_gpu": str(len(speed_by_node)),
            "gpu_chance": format_decimal(group_chance),
        }
    )
    for address, speed in speed_by_node.items():
        # If all weights are zero, each candidate has the weight 1, as in the draw.
        node_chance = (
            group_chance * speed.weight // total_weight
            if total_weight
            else group_chance // len(speed_by_node)
        )
        yield CandidateVerdict(address, node_chance, None, group_parts | _format_speed(speed))


def _format_speed(speed: SubmissionSpeed) -> dict[str, str]:
    share_text = "none" if speed.share is None else format_decimal(speed.share)
    return {"B": share_text, "weight": format_decimal(speed.weight)}


# The first policy draws nodes by their speed B. The second draws them with equal chances, as in
# the documents' section on groups (docs/reference/sources.md#crynux-dispatching-of-2024).
LEGACY_POLICY = LegacyPolicy("legacy", 2, equal=False)
LEGACY_EQUAL_POLICY = LegacyPolicy("legacy-equal", 2, equal=True)
