"""The Crynux policy: which nodes may get a task, and with what weight.

See docs/reference/scoring-rules.md#selection-weight.
"""

from collections.abc import Callable
from dataclasses import dataclass

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import format_decimal
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_scores import is_excluded, qos_at
from oracle.domain.state import Membership, Node, Task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    Requirement,
    build_requirement,
    misfit_reason,
    unavailability_reason,
)
from oracle.systems.crynux.selection_weight import (
    CRYNUX_WEIGHTING,
    DOCS_WEIGHTING,
    RELAY_WEIGHTING,
    Weighting,
    compute_locality_boost,
    compute_stake_score,
    compute_weight,
    find_largest_stake,
)
from oracle.systems.policy import CandidateVerdict, PolicyInput


@dataclass(frozen=True, slots=True)
class ModelSpread:
    """When and how widely a model is downloaded (docs/explanation/dispatch.md#pre-download).

    Downloads start if fewer than `scarce_below` available nodes have the model. `target_nodes` is
    the number of nodes that should have the model or be asked for it. `per_day` and
    `per_node_per_day` limit the requests in a day, for all nodes together and for one node.
    """

    scarce_below: int = 3
    target_nodes: int = 10
    per_day: int = 200
    per_node_per_day: int = 4


SPREAD = ModelSpread()


@dataclass(frozen=True, slots=True)
class CrynuxPolicy:
    """Weighted selection by stake, QoS and models; `spread` limits model downloads."""

    name: str
    version: int
    weighting: Weighting
    spread: ModelSpread = SPREAD

    def create_follower(self) -> "CrynuxPolicy":
        """Return the policy itself, because all inputs are in the nodes' rows."""
        return self

    def apply_event(self, event: DomainEvent) -> None:
        """Ignore the event, because the fold has applied it to the nodes' rows."""

    def judge_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member, as `judge_members` does."""
        return judge_members(task, policy_input, self.weighting)


def judge_members(
    task: Task, policy_input: PolicyInput, weighting: Weighting
) -> list[CandidateVerdict]:
    """Return a verdict on every member, sorted by address, with the parts S, QoS, M and W."""
    requirement = build_requirement(task)
    members = _sort_members(policy_input)
    reason_by_node = {
        node.address: ineligibility_reason(node, requirement, policy_input) for node in members
    }
    counted_models = weighting.select_counted_models(requirement.models)
    eligible = [node for node in members if reason_by_node[node.address] is None]
    nodes_with_models = {node.address for node in eligible if counted_models.issubset(node.models)}
    if nodes_with_models or not weighting.fallback:
        for node in eligible:
            if node.address not in nodes_with_models:
                reason_by_node[node.address] = IneligibilityReason.MODELS_NOT_ON_DISK
    compute_parts = _build_weigher(members, counted_models, weighting, policy_input)
    verdicts = []
    for node in members:
        parts, reason = compute_parts(node), reason_by_node[node.address]
        formatted_parts = {name: format_decimal(value) for name, value in parts.items()}
        weight = None if reason else parts["W"]
        verdicts.append(CandidateVerdict(node.address, weight, reason, formatted_parts))
    return verdicts


def ineligibility_reason(
    node: Node, requirement: Requirement, policy_input: PolicyInput
) -> IneligibilityReason | None:
    """Return why a node cannot get a task, whatever models it has, or None if it is eligible."""
    reason = unavailability_reason(node, policy_input.time, policy_input.rules)
    if reason is None and node.address in policy_input.reserved:
        return IneligibilityReason.TAKEN
    return reason or misfit_reason(node, requirement)


def compute_downloader_weights(
    requirement: Requirement, policy_input: PolicyInput, weighting: Weighting
) -> list[tuple[Address, int]]:
    """Return the nodes that could run such a task once they are free, with their weights.

    The list is sorted by address. It includes nodes without the models, because a node can
    download a model while it runs a task.
    """
    members = _sort_members(policy_input)
    counted_models = weighting.select_counted_models(requirement.models)
    compute_parts = _build_weigher(members, counted_models, weighting, policy_input)
    return [
        (node.address, compute_parts(node)["W"])
        for node in members
        if not node.paused
        and not is_excluded(node, policy_input.time, policy_input.rules)
        and node.address not in policy_input.reserved
        and misfit_reason(node, requirement) is None
    ]


def _sort_members(policy_input: PolicyInput) -> list[Node]:
    """Return the members of the network, sorted by address."""
    member = Membership.MEMBER
    members = [node for node in policy_input.nodes.values() if node.membership is member]
    return sorted(members, key=lambda node: node.address)


def _build_weigher(
    members: list[Node],
    counted_models: frozenset[str],
    weighting: Weighting,
    policy_input: PolicyInput,
) -> Callable[[Node], dict[str, int]]:
    """Return a function that computes the parts of a node's weight for one task.

    The inputs that are the same for all nodes are computed once.
    """
    time, rules = policy_input.time, policy_input.rules
    peers = compute_population_maxima(members, time, rules)
    largest_stake = find_largest_stake(members)

    def compute_parts(node: Node) -> dict[str, int]:
        stake = compute_stake_score(node.stake, largest_stake)
        qos = qos_at(node, time, rules, peers) or 0
        boost = compute_locality_boost(node, counted_models, weighting)
        return {
            "S": stake,
            "QoS": qos,
            "M": boost,
            "W": compute_weight(boost, stake, qos, weighting),
        }

    return compute_parts


# Three variants: the documents (docs/reference/sources.md#crynux-dispatching) with a weight floor,
# the documents to the letter, and the production relay of 2026-08
# (docs/explanation/crynux.md#the-relays-selection).
CRYNUX_POLICY = CrynuxPolicy("crynux", CRYNUX.version, CRYNUX_WEIGHTING)
CRYNUX_DOCS_POLICY = CrynuxPolicy("crynux-docs", CRYNUX_DOCS.version, DOCS_WEIGHTING)
RELAY_POLICY = CrynuxPolicy("relay", 2, RELAY_WEIGHTING)
