"""Nodes that are accused or whose kickout is due, with their leaves in the last accepted round.

A kickout is accused and executed by a proof of the node's leaf, so only the last round counts. See
docs/explanation/kickouts.md#lifecycle.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from oracle.chain.hex_names import format_account_id
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_evidence import (
    EvidenceSubject,
    build_kickout_evidence,
)
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.reports.kickout_review import collect_task_creators
from oracle.domain.reports.lanes import LOWEST_SCORE
from oracle.domain.reports.node_kicks import NodeKick
from oracle.domain.reports.report import ReportSettings
from oracle.domain.roots.leaves import LeafFlag, NodeLeaf
from oracle.domain.roots.pieces import PiecedRound
from oracle.domain.roots.round_tree import NodeProof
from oracle.domain.scoring.node_scores import is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.indexer.kickout_reviews import (
    count_stored_incident_scores,
    load_counted_entries,
    load_kickout_review,
)
from oracle.indexer.round_leaves import LeafCache, load_pieced_round, prove_address_from_pieces
from oracle.kickouts.objection_delay import ObjectionDelay, load_objection_delays
from oracle.store.database import UnitOfWork

# Reason that is shown if `load_last_round` returns None, so that no leaf can be proven.
NO_PROVABLE_ROUND = (
    "no round was accepted yet, the last one was struck, or its leaves are not stored"
)


@dataclass(frozen=True, slots=True)
class KickoutCase:
    """A node that is accused, or whose kickout is due at the head.

    `interval` is the interval since which the kickout is due, or None if the kickout is no longer
    due at the head. `proof` proves the node's leaf in the last round; it is None if no round was
    accepted, or if the leaves of the round are not stored. `kick` is the state of the node's
    kickout in the contract. `obstacle` is why the node cannot be accused now, or None. `delay` is
    set if this reporter could accuse the node, but waits because of an objection, or because the
    owner may still object. `hold_reason` is why only the vetoer can allow the kickout; it is None
    if nothing holds the kickout, or if the reason was not loaded.
    """

    node: Address
    interval: KickoutDue | None
    proof: NodeProof | None
    kick: NodeKick | None
    obstacle: str | None
    delay: ObjectionDelay | None = None
    hold_reason: str | None = None

    @property
    def due_since(self) -> int:
        """The unix time since which the kickout is due in the last round; 0 if it is not."""
        return 0 if self.proof is None else self.proof.leaf.kickout_due_since


def load_last_round(uow: UnitOfWork, cache: LeafCache) -> PiecedRound | None:
    """Load the last accepted round, or return None for the reasons in `NO_PROVABLE_ROUND`."""
    accepted_round = uow.rounds.find_last_provable_round()
    return None if accepted_round is None else load_pieced_round(uow, cache, accepted_round)


def prove_node_in_last_round(
    uow: UnitOfWork,
    cache: LeafCache,
    last_round: PiecedRound,
    node: Address,
    seat: int | None = None,
) -> NodeProof | None:
    """Prove a node's leaf in the last round.

    The result is None if the node has no leaf. `seat` is the seat of the node, or None if the
    caller does not know the seat.
    """
    proof = cache.proofs.get_or_make(
        (last_round.root, node),
        lambda: prove_address_from_pieces(uow, cache, last_round, node, seat),
    )
    return None if proof is None or proof.is_absent else proof


def load_kickout_cases(
    uow: UnitOfWork,
    cache: LeafCache,
    policy: KickoutPolicy,
    settings: ReportSettings,
    nodes: Collection[Address] | None = None,
    *,
    with_hold_reasons: bool = True,
) -> list[KickoutCase]:
    """Load a case for each open kickout interval, then for each other accusation.

    Intervals are in order, oldest first. `nodes` restricts the cases to these nodes.
    `with_hold_reasons` also loads the scores of each node, which takes long in a mass outage, when
    the kickouts of thousands of nodes are due.
    """
    intervals = load_open_kickout_intervals(uow, policy.rules, nodes)
    kicks = (
        {kick.node: kick for kick in uow.rounds.list_kicks()}
        if nodes is None
        else uow.rounds.get_kick_by_node(nodes)
    )
    last_round = load_last_round(uow, cache)
    due_nodes = {interval.node for interval in intervals}
    accused_nodes = sorted(node for node, kick in kicks.items() if kick.is_accused)
    nodes_with_intervals = [(interval.node, interval) for interval in intervals] + [
        (node, None) for node in accused_nodes if node not in due_nodes
    ]
    proof_by_node = _prove_nodes_in_last_round(
        uow, cache, last_round, [node for node, _ in nodes_with_intervals]
    )
    time = load_cursor_time(uow)
    cases = []
    for node, interval in nodes_with_intervals:
        kick = kicks.get(node)
        proof = proof_by_node.get(node)
        cases.append(
            KickoutCase(
                node=node,
                interval=interval,
                proof=proof,
                kick=kick,
                obstacle=_find_accusation_obstacle(last_round, proof, kick, settings, time),
                hold_reason=_find_hold_reason(uow, policy, node, interval)
                if with_hold_reasons
                else None,
            )
        )
    return _apply_objection_delays(uow, cases, policy, time)


def _apply_objection_delays(
    uow: UnitOfWork, cases: Sequence[KickoutCase], policy: KickoutPolicy, time: int
) -> list[KickoutCase]:
    """Add objection delays as obstacles to the cases that have no other obstacle."""
    unobstructed_kickouts = [
        (case.interval, case.due_since)
        for case in cases
        if case.obstacle is None and case.interval is not None
    ]
    delays = load_objection_delays(uow, policy, unobstructed_kickouts, time)
    return [
        case
        if case.obstacle is not None or (delay := delays.get(case.node)) is None
        else replace(case, obstacle=delay.reason, delay=delay)
        for case in cases
    ]


def _prove_nodes_in_last_round(
    uow: UnitOfWork, cache: LeafCache, last_round: PiecedRound | None, nodes: Sequence[Address]
) -> dict[Address, NodeProof | None]:
    """Return each node's proof in the last round, or None for a node without a leaf.

    Cached proofs are read in one batch, because there may be thousands of nodes.
    """
    if last_round is None:
        return {}
    cached_proofs = cache.proofs.get_cached((last_round.root, node) for node in nodes)
    proofs = {
        node: None if proof is None or proof.is_absent else proof
        for (_, node), proof in cached_proofs.items()
    }
    unproven_nodes = [node for node in nodes if node not in proofs]
    known_nodes = uow.nodes.get_many(unproven_nodes)
    for node in unproven_nodes:
        seat = known_nodes[node].seat if node in known_nodes else None
        proofs[node] = prove_node_in_last_round(uow, cache, last_round, node, seat)
    return proofs


def load_cursor_time(uow: UnitOfWork) -> int:
    """Return the time of the newest indexed block, or 0 if there is none."""
    cursor = uow.cursor.get()
    return 0 if cursor is None else cursor.time


def _find_accusation_obstacle(
    last_round: PiecedRound | None,
    proof: NodeProof | None,
    kick: NodeKick | None,
    settings: ReportSettings,
    time: int,
) -> str | None:
    """Return why the contract would reject an accusation of a node at `time`.

    The result is None if the last round and the indexed events show no such reason.
    """
    if last_round is None:
        return NO_PROVABLE_ROUND
    last_round_number = last_round.summary.round
    if proof is None:
        return f"round {last_round_number} does not contain the node yet"
    leaf = proof.leaf
    if leaf.kickout_due_since == 0:
        return f"round {last_round_number} does not state yet that the kickout is due"
    if leaf.lane >= settings.kick_line:
        return (
            f"its QoS in round {last_round_number} ({leaf.lane - LOWEST_SCORE}) is not below "
            f"{settings.kick_below}"
        )
    return _find_kick_obstacle(leaf, kick, time)


def _find_kick_obstacle(leaf: NodeLeaf, kick: NodeKick | None, time: int) -> str | None:
    due_since = leaf.kickout_due_since
    allowed_since = 0 if kick is None else kick.allowed
    if LeafFlag.HELD in leaf.flags and allowed_since != due_since:
        return "it is held; the vetoer has to allow it (`qos-oracle kickout allow`)"
    if kick is None:
        return None
    if kick.is_expelled(time):
        return "the node is expelled"
    if kick.is_safe_from_accusation(due_since):
        return "this interval was vetoed, or the node was readmitted since"
    if is_accused_for_interval(kick, due_since):
        return "the node is accused already"
    return None


def _find_hold_reason(
    uow: UnitOfWork, policy: KickoutPolicy, node: Address, interval: KickoutDue | None
) -> str | None:
    if interval is None:
        return None
    return load_kickout_review(uow, uow.nodes.get_many([node])[node], policy).hold_reason


def is_accused_for_interval(kick: NodeKick | None, due_since: int) -> bool:
    """Return whether a node is accused for the kickout interval starting at `due_since`."""
    return (
        kick is not None
        and kick.is_accused
        and kick.accusation is not None
        and kick.accusation.due_since == due_since
    )


def load_open_kickout_intervals(
    uow: UnitOfWork, rules: Rules, nodes: Collection[Address] | None = None
) -> list[KickoutDue]:
    """Return the open kickout intervals of all nodes or of `nodes`, oldest first.

    Under legacy rules, scores count only within a time window. An interval that ended with this
    window is left out, although no event of the node has closed the interval yet.
    """
    intervals = (
        uow.kickouts.list_open()
        if nodes is None
        else sorted(
            (
                interval
                for node in nodes
                for interval in uow.kickouts.list_for_node(node)
                if interval.closed_at is None
            ),
            key=attrgetter("opened_at"),
        )
    )
    cursor = uow.cursor.get()
    if rules.legacy is None or not intervals or cursor is None:
        return intervals
    stored_nodes = uow.nodes.get_many([interval.node for interval in intervals])
    due_nodes = {
        node.address for node in stored_nodes.values() if is_kickout_due(node, rules, cursor.time)
    }
    return [interval for interval in intervals if interval.node in due_nodes]


def count_held_intervals(
    uow: UnitOfWork, intervals: Sequence[KickoutDue], policy: KickoutPolicy
) -> int:
    """Count the kickout intervals that are held until the vetoer allows the kickout."""
    return sum(
        _find_hold_reason(uow, policy, interval.node, interval) is not None
        for interval in intervals
    )


def is_kickout_due_at_head(uow: UnitOfWork, node: Address, due_since: int, rules: Rules) -> bool:
    """Return whether a kickout shown as due in a leaf is still due at the cursor."""
    cursor = uow.cursor.get()
    stored_node = uow.nodes.get_many([node]).get(node)
    return (
        cursor is not None
        and stored_node is not None
        and stored_node.kickout_due_time == due_since
        and is_kickout_due(stored_node, rules, cursor.time)
    )


def load_kickout_evidence(uow: UnitOfWork, policy: KickoutPolicy, interval: KickoutDue) -> str:
    """Build the evidence from the scores that counted when the kickout interval opened.

    Raises:
        ValueError: a repair removed the scores.
    """
    node = uow.nodes.get_many([interval.node])[interval.node]
    entries = load_counted_entries(uow, node, interval.opened_at, policy.rules)
    identity = uow.identity.get()
    chain_id = None if identity is None else identity.chain_id
    contract = None if identity is None else identity.oracle
    subject = EvidenceSubject(
        chain_id=chain_id,
        contract=contract,
        account_id=_format_account_id(chain_id, interval.node),
        oracle_account_id=_format_account_id(chain_id, contract),
    )
    tasks = uow.tasks.get_many([entry.task for entry in entries])
    return build_kickout_evidence(
        interval,
        entries,
        policy.rules,
        subject=subject,
        creators=collect_task_creators(tasks.values(), interval.opened_at),
        incident_score_count=count_stored_incident_scores(
            uow, entries, tasks, interval.opened_at, policy.rules
        ),
    )


def _format_account_id(chain_id: int | None, address: Address | None) -> str | None:
    return None if chain_id is None or address is None else format_account_id(chain_id, address)
