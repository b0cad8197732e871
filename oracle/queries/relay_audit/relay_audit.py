"""Compares a relay's scores with derived scores, node by node, and reports where they diverge.

See docs/reference/crynux-relay.md#audit-of-the-relay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.queries.relay_audit.contradictions import RowContradictions
from oracle.queries.relay_audit.own_figures import (
    DerivedFigures,
    DerivedNode,
    derive_figures_from_rows,
    group_scores,
)
from oracle.queries.relay_audit.partings import (
    Divergence,
    RelayClaim,
    find_common_restart,
    find_kickout_divergence,
    find_reliability_divergence,
    find_restart_spans,
    find_score_divergence,
    find_swapped_scores,
)
from oracle.queries.relay_audit.relay_watch import (
    Poll,
    QualityFactors,
    RelayWatch,
    derive_quality_factors,
)
from oracle.systems.crynux.crynux_rule_sets import RELAY

# A timeout may have happened up to one poll before its row was seen. In addition, the relay counts
# fractions of a second.
_MAX_OBSERVATION_DELAY_SECONDS = 4.0
_HEALTH_SLACK = 0.002
# Distance of H from a threshold within which the relay's exclusions are not checked.
_THRESHOLD_MARGIN = 0.01
_EXCLUSION_THRESHOLDS = (0.2, 0.8)


def compute_reliability_tolerance(health: float) -> float:
    """Return the tolerated difference between two reliability values.

    The values differ because rows are observed with a delay.
    """
    return _HEALTH_SLACK + (1 - health) * _MAX_OBSERVATION_DELAY_SECONDS / RELAY.tau_seconds


def find_health_divergence(
    node: DerivedNode, factors: QualityFactors, health: float, poll: Poll
) -> Divergence | None:
    """Return where a node's reliability or exclusion diverges from the relay's, if anywhere.

    `health` is the derived reliability at the poll.
    """
    relay_now = poll.relay_now
    node_figure = poll.figures[node.address]
    relay_reliability = factors.compute_reliability(node_figure.measured_at)
    tolerance = compute_reliability_tolerance(health) + factors.slack / factors.long_term
    if abs(health - relay_reliability) > tolerance:
        return find_reliability_divergence(node, relay_reliability, tolerance, relay_now)
    if _is_exclusion_uncertain(node, health) or node_figure.stake_score == 0:
        return None
    if node.is_member and node_figure.is_excluded != node.is_excluded_at(relay_now):
        state_text = "excluded" if node_figure.is_excluded else "not excluded"
        # If the node's reliability never changed, there is no row at which the node diverges.
        last_change_row = node.changes[-1].at.log if node.changes else 0
        return Divergence("exclusion", last_change_row, f"the relay reports it as {state_text}")
    return None


def _is_exclusion_uncertain(node: DerivedNode, health: float) -> bool:
    """Return whether a node's reliability is too near an exclusion threshold for a verdict.

    Between the two thresholds, the state stays as it was, so it is decided by the last reliability
    outside of the thresholds. Any later reliability close to a threshold may have crossed the
    threshold at the relay.
    """
    health_values = [health]
    for change in reversed(node.changes):
        health_values += (change.after / UNIT, change.before / UNIT)
    low_threshold, high_threshold = _EXCLUSION_THRESHOLDS
    for value in health_values:
        if min(abs(value - low_threshold), abs(value - high_threshold)) <= _THRESHOLD_MARGIN:
            return True
        if not low_threshold < value < high_threshold:
            return False
    return False


_SCORE_KINDS = ("rank", "missing_zero", "unexplained_jump")
_KICKOUT_KINDS = ("kick_without_cause", "no_kick_with_cause")


class Verdict(StrEnum):
    """The verdict on whether a node's scores at the relay agree with the derived scores."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class NodeAudit:
    """The audit of a node: its derived Q_long / 10 and reliability, and the relay's.

    `ours` and `our_health` are derived; `theirs` and `their_health` are the relay's. A value is
    None if it is unknown. `groups` is the number of the node's scores that follow from the rows.
    `zeros` is the number of these scores that were derived because the node was silent. `lowest`
    and `highest` bound `ours` over all scores consistent with the rows. `why` states what is
    missing if nothing is proven.
    """

    node: Address
    verdict: Verdict
    ours: float
    theirs: float | None
    our_health: float | None
    their_health: float | None
    excluded: bool
    groups: int
    zeros: int
    lowest: float
    highest: float
    # Maximum error of `theirs`.
    slack: float = 0.0
    parting: Divergence | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RelayAudit:
    """The audit of a relay, with nodes in the order of their addresses.

    `headless` is the number of tasks that started before the first row. `contradictions` are the
    rows that contradict other rows, or the chain.
    """

    nodes: list[NodeAudit]
    rows: int
    first_id: int
    last_id: int
    headless: int
    polls: int
    running: int
    changed: list[int]
    contradictions: RowContradictions

    def count_verdicts(self, verdict: Verdict) -> int:
        """Return the number of nodes that have this verdict."""
        return sum(node_audit.verdict is verdict for node_audit in self.nodes)


@dataclass(frozen=True, slots=True)
class _PollComparison:
    """A poll, the previous poll, and the nodes derived from the rows up to the poll."""

    previous_poll: Poll | None
    poll: Poll
    derived: DerivedFigures

    def derive_factors_from_two_polls(self, node: DerivedNode) -> QualityFactors | None:
        """Return a node's factors from two polls, or None if it had rows between them."""
        previous_figure = (
            None if self.previous_poll is None else self.previous_poll.figures.get(node.address)
        )
        node_figure = self.poll.figures.get(node.address)
        if self.previous_poll is None or previous_figure is None or node_figure is None:
            return None
        has_rows = node.has_rows_between(
            self.previous_poll.last_id_before, self.poll.last_id_after
        )
        return None if has_rows else derive_quality_factors(previous_figure, node_figure)

    def derive_factors_from_one_poll(self, node: DerivedNode) -> QualityFactors | None:
        """Return a node's factors from this poll and its derived reliability, if known."""
        node_figure = self.poll.figures.get(node.address)
        has_rows = node.has_rows_between(self.poll.last_id_before, self.poll.last_id_after)
        if node_figure is None or has_rows or not node.has_known_times:
            return None
        reliability = node.compute_reliability(self.poll.relay_now)
        min_health = reliability - compute_reliability_tolerance(reliability)
        if min_health <= 0:
            return None
        long_term = node_figure.quality / reliability
        return QualityFactors(
            long_term,
            reliability,
            node_figure.measured_at,
            node_figure.quality / min_health - long_term,
        )


def audit_relay(watch: RelayWatch, contradictions: RowContradictions) -> RelayAudit:
    """Judge every node of a relay that was polled at least twice."""
    rows = [watch.rows[row_id] for row_id in sorted(watch.rows)]
    comparisons = []
    for previous_poll, poll in zip([None, *watch.polls], watch.polls, strict=False):
        known_rows = [row for row in rows if row.id <= poll.last_id_after]
        comparisons.append(
            _PollComparison(
                previous_poll, poll, derive_figures_from_rows(known_rows, watch.time_by_row)
            )
        )
    derived_figures = comparisons[-1].derived
    judged_nodes = [
        _judge_node(derived_figures.nodes[address], comparisons)
        for address in sorted(derived_figures.nodes)
    ]
    start_count = sum(row.kind == "TaskStarted" for row in rows)
    end_count = sum(row.kind.startswith("TaskEnd") for row in rows)
    return RelayAudit(
        nodes=_merge_shared_causes(judged_nodes, derived_figures),
        rows=derived_figures.row_count,
        first_id=derived_figures.first_id,
        last_id=derived_figures.last_id,
        headless=derived_figures.nodeless_task_count,
        polls=len(watch.polls),
        running=start_count - end_count,
        changed=watch.changed_rows,
        contradictions=contradictions,
    )


# The audit of a node, and the node as derived at the poll that decided the verdict.
_JudgedNode = tuple[NodeAudit, DerivedNode]


def _judge_node(node: DerivedNode, comparisons: Sequence[_PollComparison]) -> _JudgedNode:
    """Judge a node by pairs of polls, or by single polls if rows lie within every pair."""
    judged_node = _judge_by_polls(
        _PollComparison.derive_factors_from_two_polls, node, comparisons
    ) or _judge_by_polls(_PollComparison.derive_factors_from_one_poll, node, comparisons)
    audit, deciding_node = judged_node or (_build_unproven_audit(node), node)
    return _apply_kickout_divergence(audit, node, comparisons[-1].derived), deciding_node


def _judge_by_polls(
    derive_factors: Callable[[_PollComparison, DerivedNode], QualityFactors | None],
    node: DerivedNode,
    comparisons: Sequence[_PollComparison],
) -> _JudgedNode | None:
    """Judge a node by each poll in order, until a difference is found."""
    agreed_row, audit_and_node = 0, None
    for comparison in comparisons:
        derived_node = comparison.derived.nodes.get(node.address)
        factors = None if derived_node is None else derive_factors(comparison, derived_node)
        if derived_node is None or factors is None:
            continue
        node_audit = _compare_node(derived_node, factors, comparison, agreed_row)
        audit_and_node = node_audit, derived_node
        if node_audit.verdict is Verdict.DIFFERS:
            break
        agreed_row = (
            comparison.poll.last_id_before if node_audit.verdict is Verdict.AGREES else agreed_row
        )
    return audit_and_node


def _build_unproven_audit(node: DerivedNode) -> NodeAudit:
    lowest_score, highest_score = node.compute_long_term_score_bounds()
    return NodeAudit(
        node=node.address,
        verdict=Verdict.UNPROVEN,
        ours=node.compute_long_term_score(),
        theirs=None,
        our_health=None,
        their_health=None,
        excluded=False,
        groups=len(node.scores),
        zeros=node.derived_count,
        lowest=lowest_score,
        highest=highest_score,
        why="it has rows between all polls, or the relay does not list it",
    )


def _compare_node(
    node: DerivedNode, factors: QualityFactors, comparison: _PollComparison, agreed_row: int
) -> NodeAudit:
    relay_now = comparison.poll.relay_now
    own_reliability = node.compute_reliability(relay_now) if node.has_known_times else None
    audit = replace(
        _build_unproven_audit(node),
        theirs=factors.long_term,
        slack=factors.slack,
        our_health=own_reliability,
        their_health=factors.compute_reliability(
            comparison.poll.figures[node.address].measured_at
        ),
        excluded=comparison.poll.figures[node.address].is_excluded,
        why="",
    )
    if not _is_pool_complete(node, comparison.derived):
        reason = (
            f"{len(node.scores)} of {RELAY.pool_size} scores since row "
            f"{comparison.derived.first_id}"
        )
        return replace(audit, why=reason)
    if abs(audit.ours - factors.long_term) > factors.slack:
        if audit.lowest - factors.slack <= factors.long_term <= audit.highest + factors.slack:
            bounds_text = f"{audit.lowest:.4f} and {audit.highest:.4f}"
            return replace(
                audit, why=f"some scores do not follow from the rows: between {bounds_text}"
            )
        if _is_pool_ambiguous(node):
            return replace(audit, why=f"groups near row {node.ambiguous_at} are ambiguous")
        claim = RelayClaim(factors.long_term, factors.slack, agreed_row)
        score_divergence = find_score_divergence(
            node, claim, group_scores(comparison.derived.nodes)
        )
        return replace(audit, verdict=Verdict.DIFFERS, parting=score_divergence)
    if own_reliability is not None:
        divergence = find_health_divergence(node, factors, own_reliability, comparison.poll)
        if divergence is not None:
            return replace(audit, verdict=Verdict.DIFFERS, parting=divergence)
    return replace(audit, verdict=Verdict.AGREES)


def _is_pool_complete(node: DerivedNode, derived_figures: DerivedFigures) -> bool:
    """Return whether the rows contain every score of the node's pool."""
    return derived_figures.first_id == 1 or len(node.scores) >= RELAY.pool_size


def _is_pool_ambiguous(node: DerivedNode) -> bool:
    """Return whether a counted score of the node may belong to a group that was left out."""
    counted_scores = node.scores[-RELAY.pool_size :]
    oldest_row = counted_scores[0].at.log if len(node.scores) >= RELAY.pool_size else 0
    return node.ambiguous_at > oldest_row


def _apply_kickout_divergence(
    audit: NodeAudit, node: DerivedNode, derived_figures: DerivedFigures
) -> NodeAudit:
    """Return the audit with the verdict DIFFERS if a kickout is missing or has no cause."""
    if (
        not _is_pool_complete(node, derived_figures)
        or _is_pool_ambiguous(node)
        or audit.lowest < audit.highest
    ):
        return audit
    divergence = find_kickout_divergence(node)
    if divergence is None or (
        audit.parting is not None and 0 < audit.parting.row <= divergence.row
    ):
        return audit
    return replace(audit, verdict=Verdict.DIFFERS, parting=divergence, why="")


def _merge_shared_causes(
    judged_nodes: Sequence[_JudgedNode], derived_figures: DerivedFigures
) -> list[NodeAudit]:
    """Replace the divergences of several nodes by a common cause, if it explains all of them."""
    audits = [audit for audit, _ in judged_nodes]
    claims = [
        (node, RelayClaim(audit.theirs, audit.slack))
        for audit, node in judged_nodes
        if audit.verdict is Verdict.DIFFERS and audit.parting is not None
        if audit.theirs is not None and audit.parting.kind in _SCORE_KINDS
    ]
    swap_by_node = _find_shared_score_swap(claims, derived_figures)
    if swap_by_node:
        return [
            replace(audit, parting=swap_by_node.get(audit.node, audit.parting)) for audit in audits
        ]
    spans = [find_restart_spans(node, claim) for node, claim in claims]
    restart_divergence = find_common_restart(spans) if len(spans) > 1 else None
    if restart_divergence is None:
        return audits
    score_addresses = {node.address for node, _ in claims}
    return [
        replace(audit, parting=restart_divergence)
        if audit.node in score_addresses or _is_caused_by_restart(audit, restart_divergence)
        else audit
        for audit in audits
    ]


def _is_caused_by_restart(audit: NodeAudit, restart_divergence: Divergence) -> bool:
    """Return whether a restart that refilled a pool led to a node's kickout."""
    return (
        audit.parting is not None
        and audit.parting.kind in _KICKOUT_KINDS
        and (audit.parting.row > restart_divergence.row)
    )


def _find_shared_score_swap(
    claims: Sequence[tuple[DerivedNode, RelayClaim]], derived_figures: DerivedFigures
) -> dict[Address, Divergence]:
    """Return the divergences in the first group where several nodes' scores may be swapped.

    The result maps each node to its divergence.
    """
    scores_by_group = group_scores(derived_figures.nodes)
    divergences_by_row = dict[int, dict[Address, Divergence]]()
    for node, claim in claims:
        for divergence in find_swapped_scores(node, claim, scores_by_group):
            divergences_by_row.setdefault(divergence.row, {})[node.address] = divergence
    shared_rows = [row for row, nodes in divergences_by_row.items() if len(nodes) > 1]
    return divergences_by_row[min(shared_rows)] if shared_rows else {}
