"""Simulates how nodes join, leave, are kicked out and are slashed."""

from collections import deque
from dataclasses import replace

from lab.closed_loop.chance import RandomStream
from lab.closed_loop.economics import GasAction
from lab.closed_loop.players import LoopNode, LoopScore, NodeEvent, NodeRole, Reaction
from lab.closed_loop.running.loop_state import LoopState
from oracle.domain.events.network_events import (
    DomainEvent,
    NodeJoined,
    NodeKickedOut,
    NodeQuit,
    NodeSlashed,
)

_GPU_VRAM_GB = 24
_GPU_NAME = "gpu"
# Numbers from this one on belong to GPUs that only a single node has.
_FIRST_OWN_GPU = 1_000_000


def add_node(state: LoopState, role: NodeRole, gpu: int | None = None) -> None:
    """Create a node with a new address, and let it join the network.

    `gpu` is the number of the GPU of a node that changes its address. By default it follows from
    the role.
    """
    address = state.create_address()
    node_number = len(state.all_nodes)
    if gpu is None:
        gpu = _FIRST_OWN_GPU + node_number if role.gpu is None else role.gpu
    random_stream = RandomStream(state.plan.seed, "node", node_number)
    recent_scores: deque[LoopScore] = deque(maxlen=state.network.rules.pool_size)
    node = LoopNode(role, address, random_stream, recent_scores, gpu, state.now)
    state.node_by_address[address] = node
    state.all_nodes.append(node)
    _join_network(state, node)


def _join_network(state: LoopState, node: LoopNode) -> None:
    event = state.network.emit_event(
        NodeJoined, node.address, stake=node.role.stake, gpu_name=_GPU_NAME, gpu_vram=_GPU_VRAM_GB
    )
    node.joined_at, node.removed_at = state.now, None
    state.charge_gas(node.role.owner, GasAction.JOIN)
    state.exclusions.update_node(state.network.get_node(node.address), event)
    state.may_start_tasks = True


def react_to_event(state: LoopState, node: LoopNode, node_event: NodeEvent) -> None:
    """Let a node react to an event.

    A busy node only leaves when its task has ended.
    """
    reaction = node.role.behaviour.choose_reaction(node_event)
    if reaction is Reaction.STAY or node.joined_at is None:
        return
    if node.task is not None:
        node.leaving = reaction
    else:
        quit_network(state, node, reaction)


def quit_network(state: LoopState, node: LoopNode, reaction: Reaction) -> None:
    """Let a free node leave the network.

    The node leaves by a kickout if one is pending and `quit_is_kickout` is set.
    """
    node.leaving = None
    if node.kick_at is not None and state.economics.quit_is_kickout:
        kick_out_node(state, node, reaction)
        return
    state.charge_gas(node.role.owner, GasAction.QUIT)
    _remove_from_network(state, node, NodeQuit)
    if reaction is Reaction.RETURN:
        state.agenda.schedule(
            state.now + state.economics.rejoin_delay, _rejoin_network, state, node
        )
    else:
        state.agenda.schedule(state.now + 1, _join_with_new_address, state, node)


def kick_out_node(state: LoopState, node: LoopNode, reaction: Reaction | None = None) -> None:
    """Kick out a node and return its stake.

    If the node wants to rejoin, its next join is scheduled. `reaction` is how the node continues;
    by default, its behaviour decides.
    """
    if reaction is None:
        reaction = node.role.behaviour.choose_reaction(NodeEvent.KICKED_OUT)
    _remove_from_network(state, node, NodeKickedOut)
    node.removed_at = state.now
    state.counts.kicked[node.role.owner, node.role.kind] += 1
    if reaction is Reaction.NEW_ADDRESS:
        state.agenda.schedule(state.now + 1, _join_with_new_address, state, node)
    elif reaction is Reaction.RETURN and not state.economics.forever:
        state.agenda.schedule(
            state.now + state.economics.kick_cooldown, _rejoin_network, state, node
        )


def slash_node(state: LoopState, node: LoopNode) -> None:
    """Slash a node's stake, and remove the node.

    Nodes that have left lose their stake, too.
    """
    node.is_slashed = True
    state.get_income_and_expenses(node.role.owner).slashed += node.role.stake
    state.counts.slashed[node.role.owner, node.role.kind] += 1
    if node.joined_at is not None:
        _remove_from_network(state, node, NodeSlashed)
    node.removed_at = state.now


def _remove_from_network(state: LoopState, node: LoopNode, event_type: type[DomainEvent]) -> None:
    event = state.network.emit_event(event_type, node.address)
    if node.joined_at is not None:
        node.present_seconds += state.now - node.joined_at
    node.joined_at, node.kick_at = None, None
    state.exclusions.update_node(state.network.get_node(node.address), event)


def _rejoin_network(state: LoopState, node: LoopNode) -> None:
    if node.joined_at is None and not node.is_slashed:
        _join_network(state, node)


def _join_with_new_address(state: LoopState, node: LoopNode) -> None:
    add_node(state, replace(node.role), node.gpu)
