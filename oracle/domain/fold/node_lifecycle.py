"""What events about nodes do: membership, hardware, models.

See docs/reference/scoring-rules.md#reliability and
docs/reference/scoring-rules.md#coming-back.
"""

from oracle.domain.blocks import Position
from oracle.domain.events.download_events import DownloadRequested
from oracle.domain.events.network_events import (
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
from oracle.domain.fold.preconditions import Breach, against_asking, against_membership
from oracle.domain.fold.working_set import (
    MembershipChange,
    MembershipTurn,
    ReliabilityCause,
    ReliabilityChange,
    WorkingSet,
)
from oracle.domain.ids import Address
from oracle.domain.scoring import legacy_tally
from oracle.domain.scoring.node_scores import is_kickout_due
from oracle.domain.scoring.reliability import healed
from oracle.domain.scoring.rules import Rules
from oracle.domain.scoring.score_window import mean_of, restarts_until
from oracle.domain.state.node import (
    REMEMBERED_SECONDS,
    DownloadRequest,
    Membership,
    Node,
    Pending,
)


def joined(ledger: WorkingSet, event: NodeJoined) -> None:
    """A node joins or re-joins; what it says about itself is noted.

    See docs/reference/scoring-rules.md#coming-back.
    """
    known = ledger.nodes.get(event.node)
    if known is not None and known.pending is Pending.QUIT:
        # It could not join if it were there: its quit took effect, and no event showed it.
        settle(ledger, known.address, event.at, event.time)
    if known is not None and known.membership is Membership.MEMBER:
        ledger.anomaly(event, Breach.JOINED_WHILE_MEMBER)
        return
    ledger.just_quit.pop(event.node, None)
    node = ledger.node(event.node, event.time)
    is_known = node.membership is not Membership.UNKNOWN
    is_whole = not is_known or node.starts_anew or ledger.rules.rejoin_heals
    if is_known:
        _bring_back(node, event.time, ledger.rules)
    node.membership = Membership.MEMBER
    _note(ledger, node, MembershipTurn.JOINED, (event.at, event.time))
    if ledger.rules.legacy is not None:
        legacy_tally.follow_membership(node, event.time, ledger.rules.legacy)
    _describe(node, event)
    if is_whole:
        _make_whole(ledger, node, event)
    working_set.update_kickout_interval(ledger, node, event.at, event.time)


def _bring_back(node: Node, time: int, rules: Rules) -> None:
    """Decide what pool a node comes back with."""
    pool, prior = node.pool, node.prior
    if rules.rejoin_floor is not None and mean_of(pool, prior, rules) < rules.rejoin_floor:
        pool, prior = b"", rules.rejoin_floor
    elif node.starts_anew:
        pool = b""
        # The legacy system's pool is its window; what time it was a member stays true.
        node.window_sum = node.window_count = 0
    node.pool, node.pool_sum, node.prior = pool, sum(pool), prior
    if not pool:
        node.restarts = restarts_until(time, rules)
    node.starts_anew = False


def _make_whole(ledger: WorkingSet, node: Node, event: NodeJoined) -> None:
    """H is 1 from now on."""
    before = healed(node.base, node.since, event.time, ledger.rules)
    change = ReliabilityChange(
        node.address, event.at, event.time, ReliabilityCause.JOINED, None, before, UNIT
    )
    ledger.changes.reliability.append(change)
    node.base, node.since, node.excluded = UNIT, event.time, False


def updated(ledger: WorkingSet, event: NodeUpdated) -> None:
    """What changed about a node, a member or not."""
    _describe(ledger.node(event.node, event.time), event)


def _describe(node: Node, event: NodeJoined | NodeUpdated) -> None:
    for name in ("stake", "gpu_name", "gpu_vram", "version", "models", "timeout"):
        value = getattr(event, name)
        if value is not None:
            setattr(node, name, value)


def model_added(ledger: WorkingSet, event: ModelAdded) -> None:
    """The node has one more model on disk."""
    node = ledger.node(event.node, event.time)
    if event.model not in node.models:
        node.models = (*node.models, event.model)


def download_requested(ledger: WorkingSet, event: DownloadRequested) -> None:
    """The node was asked to download a model; what was asked a day ago is forgotten."""
    node = ledger.node(event.node, event.time)
    since = event.time - REMEMBERED_SECONDS
    recent = [each for each in node.downloads if each.asked_at > since]
    node.downloads = (*recent, DownloadRequest(event.model, event.time, event.until))


def paused(ledger: WorkingSet, event: NodePaused) -> None:
    """A member asks for no more tasks."""
    _turn(ledger, event, paused=True)


def resumed(ledger: WorkingSet, event: NodeResumed) -> None:
    """A paused member is back."""
    _turn(ledger, event, paused=False)


def _turn(ledger: WorkingSet, event: NodePaused | NodeResumed, *, paused: bool) -> None:
    known = ledger.nodes.get(event.node)
    if known is None or known.membership is not Membership.MEMBER:
        ledger.anomaly(event, Breach.NOT_A_MEMBER)
        return
    waits = known.pending is Pending.PAUSE
    if known.paused is paused and not (waits and not paused):
        ledger.anomaly(event, Breach.PAUSED_TWICE if paused else Breach.NOT_PAUSED)
        return
    node = ledger.node(event.node, event.time)
    node.paused = paused
    turn = MembershipTurn.PAUSED if paused else MembershipTurn.RESUMED
    _note(ledger, node, turn, (event.at, event.time))
    if waits:
        node.pending = None


def asked(ledger: WorkingSet, event: NodePauseAsked | NodeQuitAsked) -> None:
    """A member wants to pause or to quit, and does so when it runs no task."""
    request = Pending.PAUSE if isinstance(event, NodePauseAsked) else Pending.QUIT
    breach = against_asking(ledger.nodes.get(event.node), request)
    if breach is not None:
        ledger.anomaly(event, breach)
        return
    node = ledger.node(event.node, event.time)
    node.pending = request
    if node.running:
        _note(ledger, node, _ASKED[request], (event.at, event.time))
    else:
        settle(ledger, event.node, event.at, event.time)


def freed(ledger: WorkingSet, address: Address, at: Position, time: int) -> None:
    """The node has answered, and runs one task less; a member or not."""
    node = ledger.node(address, time)
    node.running -= 1
    if node.pending is not None and not node.running:
        settle(ledger, address, at, time)


def settle(ledger: WorkingSet, address: Address, at: Position, time: int) -> None:
    """Do what a node has asked for: it runs no task any more."""
    node = ledger.node(address, time)
    request, node.pending = node.pending, None
    if request is Pending.PAUSE:
        node.paused = True
        _note(ledger, node, MembershipTurn.PAUSED, (at, time))
    elif request is Pending.QUIT:
        ledger.just_quit = {**_still(ledger.just_quit, at), address: (at.block, at.tx)}
        _leave(ledger, node, Membership.QUIT, (at, time))


def _still(
    just_quit: dict[Address, tuple[int, int]], at: Position
) -> dict[Address, tuple[int, int]]:
    return {node: place for node, place in just_quit.items() if place == (at.block, at.tx)}


def left(ledger: WorkingSet, event: NodeQuit | NodeSlashed | NodeKickedOut) -> None:
    """Membership ends; the pool stays as evidence.

    Contracts say that a task ended before they say what they do to its node: a kickout and a
    slash win over a quit that was pending until then
    (docs/explanation/crynux.md#vsstask-contracts).
    """
    known = ledger.nodes.get(event.node)
    breach = against_membership(known)
    if breach is not None and (isinstance(event, NodeQuit) or not _has_just_quit(ledger, event)):
        ledger.anomaly(event, breach)
        return
    node = ledger.node(event.node, event.time)
    _leave(ledger, node, _AFTERWARDS[type(event)], (event.at, event.time))


def _has_just_quit(ledger: WorkingSet, event: NodeSlashed | NodeKickedOut) -> bool:
    """Tell whether a quit took effect in this very transaction, because a task ended."""
    return ledger.just_quit.get(event.node) == (event.at.block, event.at.tx)


def _leave(ledger: WorkingSet, node: Node, how: Membership, when: tuple[Position, int]) -> None:
    at, time = when
    rules = ledger.rules
    if how is Membership.KICKED_OUT:
        node.starts_anew = rules.kickout_starts_anew and is_kickout_due(node, rules, time)
    node.membership, node.paused, node.pending = how, False, None
    _note(ledger, node, MembershipTurn(how.value), when)
    if how is not Membership.QUIT:
        ledger.just_quit.pop(node.address, None)
    if rules.legacy is not None:
        legacy_tally.follow_membership(node, time, rules.legacy)
    working_set.update_kickout_interval(ledger, node, at)


def _note(
    ledger: WorkingSet, node: Node, turn: MembershipTurn, when: tuple[Position, int]
) -> None:
    ledger.changes.memberships.append(MembershipChange(node.address, *when, turn))


_ASKED = {Pending.PAUSE: MembershipTurn.PAUSE_ASKED, Pending.QUIT: MembershipTurn.QUIT_ASKED}
_AFTERWARDS = {
    NodeQuit: Membership.QUIT,
    NodeSlashed: Membership.SLASHED,
    NodeKickedOut: Membership.KICKED_OUT,
}
