"""The kickout process of an honest quorum: propose, wait for the veto delay, execute.

See docs/explanation/kickouts.md#lifecycle.
"""

from lab.closed_loop.players import LoopNode, NodeEvent
from lab.closed_loop.running import endings
from lab.closed_loop.running.loop_state import LoopState
from lab.closed_loop.running.membership import kick_out_node, react_to_event
from oracle.domain.events.network_events import AbortReason
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.kickout_evidence import compute_creator_spread


def handle_due_kickout(state: LoopState, change: KickoutDue) -> None:
    """Schedule the proposal of a kickout that became due, or count it as held.

    The proposal follows after `report_seconds`, because the reports must first show the low score.
    """
    if change.closed_at is None:
        node = state.node_by_address[change.node]
        rules = state.network.rules
        if compute_creator_spread(node.recent_scores, rules).hold_reason(rules) is not None:
            state.counts.held[node.role.owner, node.role.kind] += 1
            return
        state.agenda.schedule(
            state.now + state.economics.report_seconds, _propose_kickout, state, node
        )


def _propose_kickout(state: LoopState, node: LoopNode) -> None:
    if node.joined_at is None or node.kick_at is not None or not state.is_kickout_due(node):
        return
    node.kick_at = state.now + state.economics.veto_delay
    state.agenda.schedule(node.kick_at, _execute_kickout, state, node, node.kick_at)
    react_to_event(state, node, NodeEvent.KICKOUT_PENDING)


def _execute_kickout(state: LoopState, node: LoopNode, ready_at: int) -> None:
    if node.joined_at is None or node.kick_at != ready_at:
        return
    if not state.is_kickout_due(node):
        node.kick_at = None
        return
    if node.task is None:
        kick_out_node(state, node)
    else:
        # A kickout aborts the node's task; the end of the task removes the node.
        endings.abort_task(state, node.task, AbortReason.CANCELLED)
