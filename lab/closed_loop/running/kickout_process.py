"""The kickout process of an honest quorum: propose, wait, execute.

See docs/explanation/kickouts.md#lifecycle.
"""

from lab.closed_loop.players import LoopNode, Turnpoint
from lab.closed_loop.running import endings
from lab.closed_loop.running.loop_state import LoopState
from lab.closed_loop.running.membership import consider, kick_out
from oracle.domain.events.network_events import AbortReason
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.reports.kickout_evidence import compute_creator_spread


def follow(state: LoopState, change: KickoutDue) -> None:
    """Schedule the proposal of a due kickout, once reports have shown the score."""
    if change.closed_at is None:
        node = state.nodes[change.node]
        rules = state.network.rules
        if compute_creator_spread(node.scored_for, rules).hold_reason(rules) is not None:
            state.counts.held[node.role.owner, node.role.kind] += 1
            return
        state.agenda.add(state.now + state.economics.report_seconds, _propose, state, node)


def _propose(state: LoopState, node: LoopNode) -> None:
    if node.joined_at is None or node.kick_at is not None or not state.is_due(node):
        return
    node.kick_at = state.now + state.economics.veto_delay
    state.agenda.add(node.kick_at, _execute, state, node, node.kick_at)
    consider(state, node, Turnpoint.KICKOUT_PENDING)


def _execute(state: LoopState, node: LoopNode, ready_at: int) -> None:
    if node.joined_at is None or node.kick_at != ready_at:
        return
    if not state.is_due(node):
        node.kick_at = None
        return
    if node.task is None:
        kick_out(state, node)
    else:
        # A kickout aborts the node's task; the end of the task removes the node.
        endings.abort(state, node.task, AbortReason.CANCELLED)
