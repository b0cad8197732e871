"""The Crynux policy, which decides which nodes may get a task and how much they weigh.

The weight is the harmonic mean of stake and QoS, times model locality. Numbers are in units of
10^-18, rounded down at every step. See docs/reference/scoring-rules.md#selection-weight and
docs/reference/sources.md#crynux-dispatching, Selection Weight.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isqrt

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_scores import compute_node_qos, is_excluded
from oracle.domain.state import Membership, Node, Task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS
from oracle.systems.crynux.requirements import (
    IneligibilityReason,
    Requirement,
    build_requirement,
    find_misfit_reason,
    find_unavailability_reason,
)
from oracle.systems.policy import CandidateVerdict, PolicyInput

# A model with one of these prefixes modifies a base model. All other models are base models.
_AUXILIARY_PREFIXES = ("lora:", "controlnet:")


# Maximum of a parameter. The model boost M is then at most 9, so that weights and their parts are
# below 2^64.
_MAX_PARAMETER = 4 * UNIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighting:
    """The parameters of a node's weight.

    Fractions are in units of 10^-18.

    Raises:
        ValueError: a parameter is below 0 or above 4; the message names the field.
    """

    # Minimum weight W of a candidate. Because of it, a failing node can complete its 50 scores,
    # and any eligible node may be chosen (decision 0173). If it were 0, a node whose mean is 0
    # would never be drawn again.
    weight_floor: int = UNIT // 100
    # Additions to the model boost M = 1. The first applies if all required models are on disk, and
    # the second if all of them are in GPU memory.
    disk_boost: int = 7 * UNIT // 10
    memory_boost: int = 3 * UNIT // 10
    # True if nodes that lack the models are candidates when no eligible node has all of them.
    fallback: bool = True
    # True if only base models count, for eligibility and for the boosts, as in the relay.
    base_models_only: bool = False

    def __post_init__(self) -> None:
        for name in ("weight_floor", "disk_boost", "memory_boost"):
            if not 0 <= getattr(self, name) <= _MAX_PARAMETER:
                raise ValueError(f"{name}: must be 0 to 4")

    def select_counted_models(self, models: Iterable[str]) -> frozenset[str]:
        """Return the models of a task that count for locality, without duplicates."""
        if self.base_models_only:
            return frozenset(
                model for model in models if not model.startswith(_AUXILIARY_PREFIXES)
            )
        return frozenset(models)


# The documented weighting (docs/reference/sources.md#crynux-dispatching), but with a minimum
# weight.
CRYNUX_WEIGHTING = Weighting()
# The documented weighting, without a minimum weight.
DOCS_WEIGHTING = Weighting(weight_floor=0)
# The relay requires the base model to be on disk, but it gives no boost for this
# (docs/explanation/crynux.md#the-relays-selection).
RELAY_WEIGHTING = Weighting(weight_floor=0, disk_boost=0, fallback=False, base_models_only=True)


def compute_max_stake(nodes: Iterable[Node]) -> int:
    """Return the largest stake among members, in wei.

    An unknown stake counts as 0.
    """
    member_state = Membership.MEMBER
    return max((node.stake or 0 for node in nodes if node.membership is member_state), default=0)


def compute_stake_score(stake: int | None, max_stake: int) -> int:
    """Compute the stake score S = sqrt(stake / max_stake), or 0 if no member has a stake."""
    if not max_stake:
        return 0
    return isqrt((stake or 0) * UNIT * UNIT // max_stake)


def compute_locality_boost(
    node: Node, counted_models: frozenset[str], weighting: Weighting
) -> int:
    """Compute the boost M for models on disk and in GPU memory.

    The boost is 1 if no models count.
    """
    model_count = len(counted_models)
    if not model_count:
        return UNIT
    local_model_count = len(counted_models.intersection(node.models))
    in_use_count = len(counted_models.intersection(node.in_use))
    disk_boost = weighting.disk_boost * local_model_count // model_count
    return UNIT + disk_boost + weighting.memory_boost * in_use_count // model_count


def compute_weight(boost: int, stake_score: int, qos: int, weighting: Weighting) -> int:
    """Compute the weight W = M*S*QoS / (S + QoS), which is at least the floor.

    `stake_score` is S.
    """
    score_sum = stake_score + qos
    weight = boost * stake_score * qos // score_sum // UNIT if score_sum else 0
    return max(weight, weighting.weight_floor)


@dataclass(frozen=True, slots=True)
class ModelSpread:
    """The conditions for downloading a model, and the number of nodes that download it.

    See docs/explanation/dispatch.md#pre-download.

    Downloads start if fewer than `scarce_below` available nodes have the model. `target_nodes` is
    the number of nodes that should have the model or a request to download it. `per_day` and
    `per_node_per_day` limit the requests in a day, for all nodes together and for a single node.
    """

    scarce_below: int = 3
    target_nodes: int = 10
    per_day: int = 200
    per_node_per_day: int = 4


SPREAD = ModelSpread()


@dataclass(frozen=True, slots=True)
class CrynuxPolicy:
    """Selects nodes by weights from stake, QoS and models.

    `spread` limits the downloads of models.
    """

    name: str
    version: int
    weighting: Weighting
    spread: ModelSpread = SPREAD

    def create_evaluator(self) -> "CrynuxPolicy":
        """Return the policy itself, which needs no state besides the rows of the nodes."""
        return self

    def apply_event(self, event: DomainEvent) -> None:
        """Ignore the event, which the fold has already applied to the rows of the nodes."""

    def evaluate_candidates(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member, like `evaluate_members`."""
        return evaluate_members(task, policy_input, self.weighting)


def evaluate_members(
    task: Task, policy_input: PolicyInput, weighting: Weighting
) -> list[CandidateVerdict]:
    """Return a verdict on every member, sorted by address.

    The parts of a verdict are S, QoS, M and W.
    """
    requirement = build_requirement(task)
    members = _list_sorted_members(policy_input)
    reason_by_node = {
        node.address: find_ineligibility_reason(node, requirement, policy_input)
        for node in members
    }
    counted_models = weighting.select_counted_models(requirement.models)
    eligible_nodes = [node for node in members if reason_by_node[node.address] is None]
    nodes_with_models = {
        node.address for node in eligible_nodes if counted_models.issubset(node.models)
    }
    if nodes_with_models or not weighting.fallback:
        for node in eligible_nodes:
            if node.address not in nodes_with_models:
                reason_by_node[node.address] = IneligibilityReason.MODELS_NOT_ON_DISK
    compute_parts = _build_weight_function(members, counted_models, weighting, policy_input)
    verdicts = []
    for node in members:
        parts = compute_parts(node)
        reason = reason_by_node[node.address]
        formatted_parts = {name: format_decimal(value) for name, value in parts.items()}
        weight = None if reason else parts["W"]
        verdicts.append(CandidateVerdict(node.address, weight, reason, formatted_parts))
    return verdicts


def find_ineligibility_reason(
    node: Node, requirement: Requirement, policy_input: PolicyInput
) -> IneligibilityReason | None:
    """Return why a node cannot get a task, or None if it is eligible.

    The models of the node are disregarded.
    """
    reason = find_unavailability_reason(node, policy_input.time, policy_input.rules)
    if reason is None and node.address in policy_input.reserved:
        return IneligibilityReason.TAKEN
    return reason or find_misfit_reason(node, requirement)


def compute_downloader_weights(
    requirement: Requirement, policy_input: PolicyInput, weighting: Weighting
) -> list[tuple[Address, int]]:
    """Return the weights of nodes that will meet the requirement once they are free.

    The list is sorted by address. It includes nodes without the models, because a node can
    download a model while it runs a task.
    """
    members = _list_sorted_members(policy_input)
    counted_models = weighting.select_counted_models(requirement.models)
    compute_parts = _build_weight_function(members, counted_models, weighting, policy_input)
    return [
        (node.address, compute_parts(node)["W"])
        for node in members
        if not node.paused
        and not is_excluded(node, policy_input.time, policy_input.rules)
        and node.address not in policy_input.reserved
        and find_misfit_reason(node, requirement) is None
    ]


def _list_sorted_members(policy_input: PolicyInput) -> list[Node]:
    """Return the members of the network, sorted by address."""
    member_state = Membership.MEMBER
    members = [node for node in policy_input.nodes.values() if node.membership is member_state]
    return sorted(members, key=lambda node: node.address)


def _build_weight_function(
    members: list[Node],
    counted_models: frozenset[str],
    weighting: Weighting,
    policy_input: PolicyInput,
) -> Callable[[Node], dict[str, int]]:
    """Build a function that computes the parts of a node's weight for a task.

    Inputs that are the same for all nodes are computed only once.
    """
    time, rules = policy_input.time, policy_input.rules
    population_maxima = compute_population_maxima(members, time, rules)
    max_stake = compute_max_stake(members)

    def compute_parts(node: Node) -> dict[str, int]:
        stake_score = compute_stake_score(node.stake, max_stake)
        qos = compute_node_qos(node, time, rules, population_maxima) or 0
        boost = compute_locality_boost(node, counted_models, weighting)
        return {
            "S": stake_score,
            "QoS": qos,
            "M": boost,
            "W": compute_weight(boost, stake_score, qos, weighting),
        }

    return compute_parts


# There are three variants of the policy. The first follows the documents
# (docs/reference/sources.md#crynux-dispatching), but has a minimum weight. The second follows the
# documents as written. The third follows the production relay of 2026-08
# (docs/explanation/crynux.md#the-relays-selection).
CRYNUX_POLICY = CrynuxPolicy("crynux", CRYNUX.version, CRYNUX_WEIGHTING)
CRYNUX_DOCS_POLICY = CrynuxPolicy("crynux-docs", CRYNUX_DOCS.version, DOCS_WEIGHTING)
RELAY_POLICY = CrynuxPolicy("relay", 2, RELAY_WEIGHTING)
