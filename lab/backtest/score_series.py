"""The score of every member at a time, by a system's rules or, where it has none, its policy."""

from collections.abc import Mapping
from dataclasses import replace

from oracle.domain.events.network_events import TaskKind
from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address, TaskKey
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_scores import qos_at
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership, Node
from oracle.domain.state.task import create_task
from oracle.systems.policy import CandidateVerdict, Follower, PolicyInput

# What a policy without rules scores by (docs/explanation/pocket.md#evaluation: tickets /
# max_tickets).
_TICKETS = "tickets"
_ANY_TASK = create_task(TaskKey("0x" + 64 * "0"))


def scores_by_rules(nodes: Mapping[Address, Node], time: int, rules: Rules) -> dict[Address, int]:
    """Return each member's QoS in units of 10^-18; Q under legacy rules."""
    peers = compute_population_maxima(nodes.values(), time, rules)
    scores = {
        address: qos_at(node, time, rules, peers)
        for address, node in nodes.items()
        if node.membership is Membership.MEMBER
    }
    return {address: score for address, score in scores.items() if score is not None}


def scores_by_policy(
    follower: Follower, policy_input: PolicyInput, kind: TaskKind | None, most: int
) -> dict[Address, int]:
    """Return each member's tickets over the `most` there can be, in units of 10^-18.

    The policy is asked for a task of that kind without other wishes, as if all members were
    free.
    """
    free = {
        address: replace(node, running=0, paused=False)
        for address, node in policy_input.nodes.items()
        if node.membership is Membership.MEMBER
    }
    asked = replace(_ANY_TASK, kind=kind)
    verdicts = follower.judge_candidates(asked, replace(policy_input, nodes=free))
    return {each.node: _tickets(each) * UNIT // most for each in verdicts}


def _tickets(verdict: CandidateVerdict) -> int:
    """Return the tickets; a weight may be a chance that is left to who has none."""
    tickets = verdict.parts.get(_TICKETS)
    return (verdict.weight or 0) if tickets is None else int(tickets)
