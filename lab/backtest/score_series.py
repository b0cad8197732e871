"""Computes the scores of all members at a given time.

A system with rules is scored by the rules, a system without rules by its policy.
"""

from collections.abc import Mapping
from dataclasses import replace

from oracle.domain.events.network_events import TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_scores import qos_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership, Node, create_task
from oracle.systems.policy import CandidateVerdict, Follower, PolicyInput

# The part of a verdict from which a system without rules gets its score
# (docs/explanation/pocket.md#evaluation: tickets / max_tickets).
_TICKETS = "tickets"
_ANY_TASK = create_task(TaskKey("0x" + 64 * "0"))


def compute_scores_by_rules(
    nodes: Mapping[Address, Node], time: int, rules: Rules
) -> dict[Address, int]:
    """Return each member's QoS in units of 10^-18, or the combined score under legacy rules."""
    peers = compute_population_maxima(nodes.values(), time, rules)
    scores = {
        address: qos_at(node, time, rules, peers)
        for address, node in nodes.items()
        if node.membership is Membership.MEMBER
    }
    return {address: score for address, score in scores.items() if score is not None}


def compute_scores_by_policy(
    follower: Follower, policy_input: PolicyInput, kind: TaskKind | None, max_tickets: int
) -> dict[Address, int]:
    """Return each member's number of tickets divided by `max_tickets`, in units of 10^-18.

    The policy judges a task of this kind without other requirements, as if all members were free.
    """
    free_nodes = {
        address: replace(node, running=0, paused=False)
        for address, node in policy_input.nodes.items()
        if node.membership is Membership.MEMBER
    }
    any_task = replace(_ANY_TASK, kind=kind)
    verdicts = follower.judge_candidates(any_task, replace(policy_input, nodes=free_nodes))
    return {verdict.node: _get_tickets(verdict) * UNIT // max_tickets for verdict in verdicts}


def _get_tickets(verdict: CandidateVerdict) -> int:
    """Return the number of tickets of a verdict.

    The weight is only used if the verdict does not state the tickets, because a node without
    tickets may still have a small weight.
    """
    tickets = verdict.parts.get(_TICKETS)
    return (verdict.weight or 0) if tickets is None else int(tickets)
