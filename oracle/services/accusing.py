"""Looks at every node whose kickout is due: what stands against proposing it, and the evidence."""

from dataclasses import dataclass

from oracle.domain.evidence import Evidence, evidence_of
from oracle.domain.ids import Address
from oracle.domain.lanes import LOWEST_SCORE, NEVER_REPORTED
from oracle.domain.ledger import KickoutDue
from oracle.domain.nodes import Membership
from oracle.domain.rounds import Kick, KickState
from oracle.domain.rules import Rules
from oracle.domain.views import is_kickout_due
from oracle.store.store import Unit

# What may have come on top of the pool in the block where the spell opened.
_SLACK = 200


@dataclass(frozen=True, slots=True)
class Look:
    """A node whose kickout is due at the head.

    `lane` is what the contract holds about it; `kick` the newest proposal about its lane.
    `obstacle`: why it cannot be proposed now; None: it can.
    """

    node: Address
    spell: KickoutDue
    index: int | None
    lane: int
    kick: Kick | None
    evidence: Evidence | None
    obstacle: str | None


def looks_at(unit: Unit, rules: Rules, kick_below: int) -> list[Look]:
    """Look at every open spell, the oldest first (decision 10).

    It can be proposed when the spell's opening is final, the node is a member whose lane on chain
    is under `kick_below` (QoS steps), and no kickout of it is live or was cancelled on the same
    evidence.
    """
    spells = due_spells(unit, rules)
    if not spells:
        return []
    cursor = unit.cursor.get()
    rounds = unit.rounds.about([spell.node for spell in spells])
    final = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    looks = []
    for spell in spells:
        index, lane = rounds.index_by_node.get(spell.node), rounds.lane_of_node(spell.node)
        kick = None if index is None else rounds.kicks.get(index)
        obstacle = _of_spell(unit, spell, final) or _of_lane(index, lane, kick_below)
        evidence = None
        if obstacle is None:
            evidence = evidence_at(unit, rules, spell)
            obstacle = _of_kick(kick, evidence)
        looks.append(Look(spell.node, spell, index, lane, kick, evidence, obstacle))
    return looks


def due_spells(unit: Unit, rules: Rules) -> list[KickoutDue]:
    """Return the open spells, the oldest first.

    Without those that the turn of a window has ended (legacy rules): no event of theirs said so.
    """
    spells, cursor = unit.kickouts.open(), unit.cursor.get()
    if rules.legacy is None or cursor is None or not spells:
        return spells
    nodes = unit.nodes.named([spell.node for spell in spells])
    low = {node.address for node in nodes.values() if is_kickout_due(node, rules, cursor.time)}
    return [spell for spell in spells if spell.node in low]


def is_due(unit: Unit, index: int, rules: Rules) -> bool:
    """Tell whether the node of a lane has an open spell."""
    node = unit.rounds.node_at(index)
    return any(spell.node == node for spell in due_spells(unit, rules))


def evidence_at(unit: Unit, rules: Rules, spell: KickoutDue) -> Evidence:
    """Write the evidence from the pool, or the window, as it stood where the spell opened.

    The spell is one of `due_spells`.
    """
    if rules.legacy is not None:
        return _window_evidence(unit, rules, spell)
    size = rules.pool_size
    entries = unit.scores.of_node_at(spell.node, spell.opened_at.block, size + _SLACK)
    before = [entry for entry in entries if entry.at <= spell.opened_at]
    return evidence_of(spell, before[-size:], rules)


def _window_evidence(unit: Unit, rules: Rules, spell: KickoutDue) -> Evidence:
    """Write the evidence from the scores that counted in the window where the spell opened.

    Since then the window has only grown: one that turns, or begins anew, ends the spell.
    """
    node = unit.nodes.named([spell.node])[spell.node]
    counted = unit.scores.of_node(spell.node, node.window_count)
    return evidence_of(spell, [entry for entry in counted if entry.at <= spell.opened_at], rules)


def _of_spell(unit: Unit, spell: KickoutDue, final: int) -> str | None:
    if spell.opened_at.block > final:
        return f"block {spell.opened_at.block}, where it became due, is not final yet"
    node = unit.nodes.named([spell.node]).get(spell.node)
    if node is None or node.membership is not Membership.MEMBER:
        return "the node is no member"
    return None


def _of_lane(index: int | None, lane: int, kick_below: int) -> str | None:
    if index is None:
        return "the oracle contract does not know the node"
    if lane == NEVER_REPORTED:
        return "no report has spoken about the node yet"
    if lane >= kick_below + LOWEST_SCORE:
        return f"its QoS on chain ({lane - LOWEST_SCORE}) is not below {kick_below}"
    return None


def _of_kick(kick: Kick | None, evidence: Evidence) -> str | None:
    if kick is None:
        return None
    if kick.state is KickState.LIVE:
        return "its kickout is proposed already"
    # A kickout that was vetoed is not tried again on the same evidence.
    if kick.state is KickState.CANCELLED and kick.evidence == evidence.hash:
        return "its kickout was cancelled on the same evidence"
    return None
