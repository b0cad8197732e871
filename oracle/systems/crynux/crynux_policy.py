"""The Crynux policy over all nodes: which nodes may have a task, and with what weight.

See docs/reference/scoring-rules.md#selection-weight.
"""

from dataclasses import dataclass

from oracle.domain.events.network_events import DomainEvent
from oracle.domain.fixed_point import decimal_text
from oracle.domain.ids import Address
from oracle.domain.scoring.legacy_factors import PopulationMaxima, peers_at
from oracle.domain.scoring.node_scores import is_excluded, qos_at
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import Task
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, CRYNUX_DOCS
from oracle.systems.crynux.requirements import (
    Out,
    Requirement,
    misfit_reason,
    requirement_of,
    unavailability_reason,
)
from oracle.systems.crynux.selection_weight import (
    CRYNUX_WEIGHTING,
    DOCS_WEIGHTING,
    RELAY_WEIGHTING,
    Weighting,
    largest_stake,
    locality_boost,
    stake_score,
    weight_of,
)
from oracle.systems.policy import CandidateVerdict, PolicyInput


@dataclass(frozen=True, slots=True)
class ModelSpread:
    """When and how widely a model is downloaded (docs/explanation/dispatch.md#pre-download).

    `scarce_below`: downloads start with fewer available holders of the model than this.
    `target_nodes`: the number of nodes to have or be asked for the model. `per_day` and
    `per_node_per_day` bound the requests of a day, of all nodes together and of one node.
    """

    scarce_below: int = 3
    enough: int = 10
    per_day: int = 200
    per_node_per_day: int = 4


SPREAD = ModelSpread()


@dataclass(frozen=True, slots=True)
class CrynuxPolicy:
    """Weighted selection by stake, QoS and models; `spread`: limits of model downloads."""

    name: str
    version: int
    weighting: Weighting
    spread: ModelSpread = SPREAD

    def follow(self) -> "CrynuxFollower":
        """Return a follower of a history; it has no memory of its own."""
        return CrynuxFollower(self.weighting)


@dataclass(frozen=True, slots=True)
class CrynuxFollower:
    """A follower without memory: all inputs are in the nodes' rows."""

    weighting: Weighting

    def take(self, event: DomainEvent) -> None:
        """Ignore the event, because the fold has applied it to the nodes' rows."""

    def verdicts(self, task: Task, policy_input: PolicyInput) -> list[CandidateVerdict]:
        """Return a verdict on every member, by address, with parts S, QoS, M and W."""
        wanted = requirement_of(task)
        members = _members(policy_input)
        reasons = {
            node.address: ineligibility_reason(node, wanted, policy_input) for node in members
        }
        counted = self.weighting.counted(wanted.models)
        able = [node for node in members if reasons[node.address] is None]
        local = {node.address for node in able if counted.issubset(node.models)}
        if local or not self.weighting.fallback:
            for node in able:
                if node.address not in local:
                    reasons[node.address] = Out.MODELS_NOT_ON_DISK
        measure = _measure(members, counted, self.weighting, policy_input)
        return [_verdict(node, reasons[node.address], measure) for node in members]


def ineligibility_reason(node: Node, wanted: Requirement, policy_input: PolicyInput) -> Out | None:
    """Return why a node may not have a task whatever models it has, or None if it is eligible."""
    reason = unavailability_reason(node, policy_input.time, policy_input.rules)
    if reason is None and node.address in policy_input.taken:
        return Out.TAKEN
    return reason or misfit_reason(node, wanted)


def downloader_weights(
    wanted: Requirement, policy_input: PolicyInput, weighting: Weighting
) -> list[tuple[Address, int]]:
    """Return the nodes that could run such a task once free, with their weights, ascending.

    Their models do not matter, because a node downloads while it runs a task.
    """
    members = _members(policy_input)
    counted = weighting.counted(wanted.models)
    measure = _measure(members, counted, weighting, policy_input)
    return [
        (node.address, measure.parts_of(node)["W"])
        for node in members
        if not node.paused
        and not is_excluded(node, policy_input.time, policy_input.rules)
        and node.address not in policy_input.taken
        and misfit_reason(node, wanted) is None
    ]


def _members(policy_input: PolicyInput) -> list[Node]:
    """Return the members of the network, ascending by address."""
    member = Membership.MEMBER
    found = [node for node in policy_input.nodes.values() if node.membership is member]
    return sorted(found, key=lambda node: node.address)


@dataclass(frozen=True, slots=True)
class _Measure:
    """The inputs of a node's weight for one task that do not depend on the node."""

    counted: frozenset[str]
    largest: int
    peers: PopulationMaxima | None
    weighting: Weighting
    policy_input: PolicyInput

    def parts_of(self, node: Node) -> dict[str, int]:
        stake = stake_score(node.stake, self.largest)
        qos = qos_at(node, self.policy_input.time, self.policy_input.rules, self.peers) or 0
        boost = locality_boost(node, self.counted, self.weighting)
        weight = weight_of(boost, stake, qos, self.weighting)
        return {"S": stake, "QoS": qos, "M": boost, "W": weight}


def _measure(
    members: list[Node], counted: frozenset[str], weighting: Weighting, policy_input: PolicyInput
) -> _Measure:
    peers = peers_at(members, policy_input.time, policy_input.rules)
    return _Measure(counted, largest_stake(members), peers, weighting, policy_input)


def _verdict(node: Node, out: Out | None, measure: _Measure) -> CandidateVerdict:
    parts = measure.parts_of(node)
    said = {name: decimal_text(value) for name, value in parts.items()}
    return CandidateVerdict(node.address, None if out else parts["W"], out, said)


# Three variants: the documents (docs/reference/sources.md#crynux-dispatching) with a weight floor,
# the documents to the letter, and the production relay of 2026-08
# (docs/explanation/crynux.md#the-relays-selection).
CRYNUX_POLICY = CrynuxPolicy("crynux", CRYNUX.version, CRYNUX_WEIGHTING)
CRYNUX_DOCS_POLICY = CrynuxPolicy("crynux-docs", CRYNUX_DOCS.version, DOCS_WEIGHTING)
RELAY_POLICY = CrynuxPolicy("relay", 2, RELAY_WEIGHTING)
