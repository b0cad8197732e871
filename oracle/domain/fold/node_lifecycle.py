"""Applies events about the membership, hardware and models of nodes.

See docs/reference/scoring-rules.md#reliability and docs/reference/scoring-rules.md#coming-back.
"""

from oracle.domain.blocks import Position
from oracle.domain.events.network_events import (
    DownloadRequested,
    ModelAdded,
    NodeJoined,
    NodeKickedOut,
    NodePauseAsked,
    NodePaused,
    NodeQuit,
    NodeQuitAsked,
    NodeResumed,
    NodeSlashed,
    NodeUpdated,
)
from oracle.domain.fixed_point import UNIT
from oracle.domain.fold import working_set
from oracle.domain.fold.preconditions import (
    Violation,
    find_leave_request_violation,
    find_membership_violation,
)
from oracle.domain.fold.working_set import (
    EventHandlers,
    MembershipChange,
    MembershipTransition,
    ReliabilityChange,
    WorkingSet,
)
from oracle.domain.ids import Address
from oracle.domain.scoring import legacy_tally
from oracle.domain.scoring.node_scores import (
    compute_pool_mean,
    count_pool_restarts,
    heal_reliability,
    is_kickout_due,
)
from oracle.domain.scoring.reliability import ReliabilityCause
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import (
    DOWNLOAD_HISTORY_SECONDS,
    DownloadRequest,
    Membership,
    Node,
    PendingLeave,
)


def apply_node_joined(ledger: WorkingSet, event: NodeJoined) -> None:
    """Make the node a member, and store its description.

    See docs/reference/scoring-rules.md#coming-back.
    """
    existing_node = ledger.nodes.get(event.node)
    if existing_node is not None and existing_node.pending is PendingLeave.QUIT:
        # A join implies that the pending quit took effect, although no event reported it.
        apply_pending_leave(ledger, existing_node.address, event.at, event.time)
    if existing_node is not None and existing_node.membership is Membership.MEMBER:
        ledger.record_anomaly(event, Violation.JOINED_WHILE_MEMBER)
        return
    ledger.quit_transactions.pop(event.node, None)
    node = ledger.get_node_for_update(event.node, event.time)
    was_known_before = node.membership is not Membership.UNKNOWN
    resets_reliability = not was_known_before or node.starts_anew or ledger.rules.rejoin_heals
    if was_known_before:
        _restore_pool_at_rejoin(node, event.time, ledger.rules)
    node.membership = Membership.MEMBER
    _record_membership_change(ledger, node, MembershipTransition.JOINED, (event.at, event.time))
    if ledger.rules.legacy is not None:
        legacy_tally.update_online_clock(node, event.time, ledger.rules.legacy)
    _set_node_description(node, event)
    if resets_reliability:
        _reset_reliability(ledger, node, event)
    working_set.update_kickout_interval(ledger, node, event.at, event.time)


def _restore_pool_at_rejoin(node: Node, time: int, rules: Rules) -> None:
    """Set the pool of a node that rejoins.

    The node gets its old pool, an empty pool or the rejoin floor.
    """
    pool, prior_score = node.pool, node.prior
    if (
        rules.rejoin_floor is not None
        and compute_pool_mean(pool, prior_score, rules) < rules.rejoin_floor
    ):
        pool, prior_score = b"", rules.rejoin_floor
    elif node.starts_anew:
        pool = b""
        # Under legacy rules, the window takes the place of the pool; the node's online time stays
        # valid.
        node.window_sum = node.window_count = 0
    node.pool = pool
    node.pool_sum = sum(pool)
    node.prior = prior_score
    if not pool:
        node.restarts = count_pool_restarts(time, rules)
    node.starts_anew = False


def _reset_reliability(ledger: WorkingSet, node: Node, event: NodeJoined) -> None:
    """Reset the node's reliability H to 1, and record the change."""
    previous_reliability = heal_reliability(node.base, node.since, event.time, ledger.rules)
    change = ReliabilityChange(
        node.address,
        event.at,
        event.time,
        ReliabilityCause.JOINED,
        None,
        previous_reliability,
        UNIT,
    )
    ledger.changes.reliability.append(change)
    node.base, node.since, node.excluded = UNIT, event.time, False


def apply_node_updated(ledger: WorkingSet, event: NodeUpdated) -> None:
    """Store a node's new description, even if the node is not a member."""
    _set_node_description(ledger.get_node_for_update(event.node, event.time), event)


def _set_node_description(node: Node, event: NodeJoined | NodeUpdated) -> None:
    for name in ("stake", "gpu_name", "gpu_vram", "version", "models", "timeout"):
        field_value = getattr(event, name)
        if field_value is not None:
            setattr(node, name, field_value)


def apply_model_added(ledger: WorkingSet, event: ModelAdded) -> None:
    """Add a model to the list of models on the node's disk."""
    node = ledger.get_node_for_update(event.node, event.time)
    if event.model not in node.models:
        node.models = (*node.models, event.model)


def apply_download_requested(ledger: WorkingSet, event: DownloadRequested) -> None:
    """Record a download request, and remove the node's requests older than a day."""
    node = ledger.get_node_for_update(event.node, event.time)
    cutoff_time = event.time - DOWNLOAD_HISTORY_SECONDS
    recent_requests = [request for request in node.downloads if request.requested_at > cutoff_time]
    node.downloads = (*recent_requests, DownloadRequest(event.model, event.time, event.until))


def apply_node_paused(ledger: WorkingSet, event: NodePaused) -> None:
    """Mark a member as paused."""
    _set_node_paused(ledger, event, paused=True)


def apply_node_resumed(ledger: WorkingSet, event: NodeResumed) -> None:
    """Mark a paused member as active."""
    _set_node_paused(ledger, event, paused=False)


def _set_node_paused(ledger: WorkingSet, event: NodePaused | NodeResumed, *, paused: bool) -> None:
    existing_node = ledger.nodes.get(event.node)
    if existing_node is None or existing_node.membership is not Membership.MEMBER:
        ledger.record_anomaly(event, Violation.NOT_A_MEMBER)
        return
    has_pending_pause = existing_node.pending is PendingLeave.PAUSE
    if existing_node.paused is paused and not (has_pending_pause and not paused):
        ledger.record_anomaly(event, Violation.PAUSED_TWICE if paused else Violation.NOT_PAUSED)
        return
    node = ledger.get_node_for_update(event.node, event.time)
    node.paused = paused
    transition = MembershipTransition.PAUSED if paused else MembershipTransition.RESUMED
    _record_membership_change(ledger, node, transition, (event.at, event.time))
    if has_pending_pause:
        node.pending = None


def apply_leave_request(ledger: WorkingSet, event: NodePauseAsked | NodeQuitAsked) -> None:
    """Record a member's request to pause or quit.

    The request takes effect once the node runs no task.
    """
    pending_leave = PendingLeave.PAUSE if isinstance(event, NodePauseAsked) else PendingLeave.QUIT
    violation = find_leave_request_violation(ledger.nodes.get(event.node), pending_leave)
    if violation is not None:
        ledger.record_anomaly(event, violation)
        return
    node = ledger.get_node_for_update(event.node, event.time)
    node.pending = pending_leave
    if node.running:
        _record_membership_change(
            ledger, node, _REQUEST_TRANSITIONS[pending_leave], (event.at, event.time)
        )
    else:
        apply_pending_leave(ledger, event.node, event.at, event.time)


def decrement_running_tasks(
    ledger: WorkingSet, address: Address, position: Position, time: int
) -> None:
    """Decrement a node's running task count, and apply a pending leave request at zero."""
    node = ledger.get_node_for_update(address, time)
    node.running -= 1
    if node.pending is not None and not node.running:
        apply_pending_leave(ledger, address, position, time)


def apply_pending_leave(
    ledger: WorkingSet, address: Address, position: Position, time: int
) -> None:
    """Apply the node's pending request to pause or to quit."""
    node = ledger.get_node_for_update(address, time)
    pending_leave, node.pending = node.pending, None
    if pending_leave is PendingLeave.PAUSE:
        node.paused = True
        _record_membership_change(ledger, node, MembershipTransition.PAUSED, (position, time))
    elif pending_leave is PendingLeave.QUIT:
        ledger.quit_transactions = {
            **_select_quits_in_transaction(ledger.quit_transactions, position),
            address: (position.block, position.tx),
        }
        _end_membership(ledger, node, Membership.QUIT, (position, time))


def _select_quits_in_transaction(
    quit_transactions: dict[Address, tuple[int, int]], at: Position
) -> dict[Address, tuple[int, int]]:
    return {
        node: transaction
        for node, transaction in quit_transactions.items()
        if transaction == (at.block, at.tx)
    }


def apply_node_left(ledger: WorkingSet, event: NodeQuit | NodeSlashed | NodeKickedOut) -> None:
    """End the node's membership, but keep its score pool as evidence.

    Contracts report the end of a task before its effect on the node. A kickout or slash therefore
    overrides a pending quit that took effect earlier in the same transaction
    (docs/explanation/crynux.md#vsstask-contracts).
    """
    existing_node = ledger.nodes.get(event.node)
    violation = find_membership_violation(existing_node)
    if violation is not None and (
        isinstance(event, NodeQuit) or not _has_just_quit(ledger, event)
    ):
        ledger.record_anomaly(event, violation)
        return
    node = ledger.get_node_for_update(event.node, event.time)
    _end_membership(ledger, node, _MEMBERSHIP_AFTER[type(event)], (event.at, event.time))


def _has_just_quit(ledger: WorkingSet, event: NodeSlashed | NodeKickedOut) -> bool:
    """Return whether the node's pending quit took effect in the event's transaction."""
    return ledger.quit_transactions.get(event.node) == (event.at.block, event.at.tx)


def _end_membership(
    ledger: WorkingSet, node: Node, membership: Membership, position_and_time: tuple[Position, int]
) -> None:
    position, time = position_and_time
    rules = ledger.rules
    if membership is Membership.KICKED_OUT:
        node.starts_anew = rules.kickout_starts_anew and is_kickout_due(node, rules, time)
    node.membership, node.paused, node.pending = membership, False, None
    _record_membership_change(
        ledger, node, MembershipTransition(membership.value), position_and_time
    )
    if membership is not Membership.QUIT:
        ledger.quit_transactions.pop(node.address, None)
    if rules.legacy is not None:
        legacy_tally.update_online_clock(node, time, rules.legacy)
    working_set.update_kickout_interval(ledger, node, position, time)


def _record_membership_change(
    ledger: WorkingSet, node: Node, transition: MembershipTransition, moment: tuple[Position, int]
) -> None:
    ledger.changes.memberships.append(MembershipChange(node.address, *moment, transition))


_REQUEST_TRANSITIONS = {
    PendingLeave.PAUSE: MembershipTransition.PAUSE_ASKED,
    PendingLeave.QUIT: MembershipTransition.QUIT_ASKED,
}
_MEMBERSHIP_AFTER = {
    NodeQuit: Membership.QUIT,
    NodeSlashed: Membership.SLASHED,
    NodeKickedOut: Membership.KICKED_OUT,
}

HANDLERS: EventHandlers = {
    NodeJoined: apply_node_joined,
    NodeUpdated: apply_node_updated,
    ModelAdded: apply_model_added,
    DownloadRequested: apply_download_requested,
    NodePaused: apply_node_paused,
    NodeResumed: apply_node_resumed,
    NodeQuit: apply_node_left,
    NodePauseAsked: apply_leave_request,
    NodeQuitAsked: apply_leave_request,
    NodeSlashed: apply_node_left,
    NodeKickedOut: apply_node_left,
}
