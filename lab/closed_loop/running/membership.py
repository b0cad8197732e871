"""Membership changes: joining, leaving, kickouts and slashes."""

from collections import deque
from dataclasses import replace

from lab.closed_loop.chance import Chance
from lab.closed_loop.economics import Gas
from lab.closed_loop.players import LoopNode, NodeRole, Reaction, Turnpoint
from lab.closed_loop.running.loop_state import LoopState
from oracle.domain.events.network_events import (
    DomainEvent,
    NodeJoined,
    NodeKickedOut,
    NodeQuit,
    NodeSlashed,
)
from oracle.domain.ids import Address

_VRAM = 24
_CARD = "card"
# GPUs that belong to a single node are numbered from here on.
_OWN_CARDS = 1_000_000


def enter(state: LoopState, role: NodeRole, card: int | None = None) -> None:
    """Add a node with an address of its own; `card` is the GPU that it already has."""
    address = state.new_address()
    number = len(state.everybody)
    if card is None:
        card = _OWN_CARDS + number if role.card is None else role.card
    chance = Chance(state.plan.seed, "node", number)
    scored_for: deque[tuple[Address, int]] = deque(maxlen=state.network.rules.pool_size)
    node = LoopNode(role, address, chance, scored_for, card, state.now)
    state.nodes[address] = node
    state.everybody.append(node)
    _join(state, node)


def _join(state: LoopState, node: LoopNode) -> None:
    event = state.network.say(
        NodeJoined, node.address, stake=node.role.stake, gpu_name=_CARD, gpu_vram=_VRAM
    )
    node.joined_at, node.out_at = state.now, None
    state.pay_gas(node.role.owner, Gas.JOIN)
    state.exclusions.look(state.network.node(node.address), event)
    state.is_stirred = True


def consider(state: LoopState, node: LoopNode, happening: Turnpoint) -> None:
    """Let a node react to an event; a busy node leaves when its task has ended."""
    reaction = node.role.behaviour.react(happening)
    if reaction is Reaction.STAY or node.joined_at is None:
        return
    if node.task is not None:
        node.leaving = reaction
    else:
        quit_now(state, node, reaction)


def quit_now(state: LoopState, node: LoopNode, reaction: Reaction) -> None:
    """Let a free node leave; with a pending kickout, leaving may count as the kickout."""
    node.leaving = None
    if node.kick_at is not None and state.economics.quit_is_kickout:
        kick_out(state, node, reaction)
        return
    state.pay_gas(node.role.owner, Gas.QUIT)
    _leave(state, node, NodeQuit)
    if reaction is Reaction.RETURN:
        state.agenda.add(state.now + state.economics.rejoin_delay, _return, state, node)
    else:
        state.agenda.add(state.now + 1, _begin_anew, state, node)


def kick_out(state: LoopState, node: LoopNode, reaction: Reaction | None = None) -> None:
    """Remove a node permanently and return its stake; without `reaction` it reacts now."""
    if reaction is None:
        reaction = node.role.behaviour.react(Turnpoint.KICKED_OUT)
    _leave(state, node, NodeKickedOut)
    node.out_at = state.now
    state.counts.kicked[node.role.owner, node.role.kind] += 1
    if reaction is Reaction.NEW_ADDRESS:
        state.agenda.add(state.now + 1, _begin_anew, state, node)
    elif reaction is Reaction.RETURN and not state.economics.forever:
        state.agenda.add(state.now + state.economics.kick_cooldown, _return, state, node)


def slash(state: LoopState, node: LoopNode) -> None:
    """Take a node's stake; a contested stake is taken even if the node has left."""
    node.is_slashed = True
    state.money(node.role.owner).slashed += node.role.stake
    state.counts.slashed[node.role.owner, node.role.kind] += 1
    if node.joined_at is not None:
        _leave(state, node, NodeSlashed)
    node.out_at = state.now


def _leave(state: LoopState, node: LoopNode, how: type[DomainEvent]) -> None:
    event = state.network.say(how, node.address)
    if node.joined_at is not None:
        node.present += state.now - node.joined_at
    node.joined_at, node.kick_at = None, None
    state.exclusions.look(state.network.node(node.address), event)


def _return(state: LoopState, node: LoopNode) -> None:
    if node.joined_at is None and not node.is_slashed:
        _join(state, node)


def _begin_anew(state: LoopState, node: LoopNode) -> None:
    enter(state, replace(node.role), node.card)
