"""What events about nodes do: membership, hardware, models (scoring.md 4 and 5)."""

from oracle.domain import kickouts, tallies
from oracle.domain.events import (
    ModelAdded,
    NodeJoined,
    NodeKickedOut,
    NodePaused,
    NodeQuit,
    NodeResumed,
    NodeSlashed,
    NodeUpdated,
)
from oracle.domain.fixed_point import UNIT
from oracle.domain.ledger import Ledger, ReliabilityCause, ReliabilityChange
from oracle.domain.legality import Breach, against_membership
from oracle.domain.nodes import Membership, Node
from oracle.domain.pool import mean_of, pool_at, restarts_until
from oracle.domain.reliability import healed
from oracle.domain.rules import Rules


def joined(ledger: Ledger, event: NodeJoined) -> None:
    """A node joins or re-joins: H = 1 from now on; what it says about itself is noted."""
    known = ledger.nodes.get(event.node)
    if known is not None and known.membership is Membership.MEMBER:
        ledger.anomaly(event, Breach.JOINED_WHILE_MEMBER)
        return
    node = ledger.node(event.node, event.time)
    if node.membership is not Membership.UNKNOWN:
        _readmit(node, event.time, ledger.rules)
    node.membership = Membership.MEMBER
    if ledger.rules.legacy is not None:
        tallies.follow_membership(node, event.time, ledger.rules.legacy)
    _describe(node, event)
    before = healed(node.base, node.since, event.time, ledger.rules)
    change = ReliabilityChange(
        node.address, event.at, event.time, ReliabilityCause.JOINED, None, before, UNIT
    )
    ledger.changes.reliability.append(change)
    node.base, node.since, node.excluded = UNIT, event.time, False
    kickouts.judge(ledger, node, event.at)


def _readmit(node: Node, time: int, rules: Rules) -> None:
    """Decide what pool a node comes back with."""
    pool = pool_at(node, time, rules)
    prior = node.prior
    if rules.rejoin_floor is not None and mean_of(pool, prior, rules) < rules.rejoin_floor:
        pool, prior = b"", rules.rejoin_floor
    elif node.membership is Membership.KICKED_OUT and rules.kickout_clears_pool:
        pool = b""
        # The legacy system's pool is its window; what time it was a member stays true.
        node.window_sum = node.window_count = 0
    node.pool, node.pool_sum, node.prior = pool, sum(pool), prior
    node.restarts = restarts_until(time, rules)


def updated(ledger: Ledger, event: NodeUpdated) -> None:
    """What changed about a node, a member or not."""
    _describe(ledger.node(event.node, event.time), event)


def _describe(node: Node, event: NodeJoined | NodeUpdated) -> None:
    for name in ("stake", "gpu_name", "gpu_vram", "version", "models", "timeout"):
        value = getattr(event, name)
        if value is not None:
            setattr(node, name, value)


def model_added(ledger: Ledger, event: ModelAdded) -> None:
    """The node has one more model on disk."""
    node = ledger.node(event.node, event.time)
    if event.model not in node.models:
        node.models = (*node.models, event.model)


def paused(ledger: Ledger, event: NodePaused) -> None:
    """A member asks for no more tasks."""
    _turn(ledger, event, paused=True)


def resumed(ledger: Ledger, event: NodeResumed) -> None:
    """A paused member is back."""
    _turn(ledger, event, paused=False)


def _turn(ledger: Ledger, event: NodePaused | NodeResumed, *, paused: bool) -> None:
    node = ledger.nodes.get(event.node)
    if node is None or node.membership is not Membership.MEMBER:
        ledger.anomaly(event, Breach.NOT_A_MEMBER)
    elif node.paused is paused:
        ledger.anomaly(event, Breach.PAUSED_TWICE if paused else Breach.NOT_PAUSED)
    else:
        ledger.node(event.node, event.time).paused = paused


def left(ledger: Ledger, event: NodeQuit | NodeSlashed | NodeKickedOut) -> None:
    """Membership ends; the pool stays as evidence."""
    breach = against_membership(ledger.nodes.get(event.node))
    if breach is not None:
        ledger.anomaly(event, breach)
        return
    node = ledger.node(event.node, event.time)
    node.membership = _AFTERWARDS[type(event)]
    node.paused = False
    if ledger.rules.legacy is not None:
        tallies.follow_membership(node, event.time, ledger.rules.legacy)
    kickouts.judge(ledger, node, event.at)


_AFTERWARDS = {
    NodeQuit: Membership.QUIT,
    NodeSlashed: Membership.SLASHED,
    NodeKickedOut: Membership.KICKED_OUT,
}
