"""Looks at every node whose kickout is due: what stands against proposing it, and the evidence."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.coverage import Level
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.kickout_evidence import Accused, KickoutEvidence, evidence_of
from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED
from oracle.domain.reports.low_rounds import Shown
from oracle.domain.reports.report import ReportSettings
from oracle.domain.reports.rounds import Kick, KickState
from oracle.domain.scoring.node_scores import is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership
from oracle.kickouts.proof import EvidenceProof, proof_of
from oracle.kickouts.shown_low import first_low, low_now
from oracle.quorum.signing_round import signable_from
from oracle.store.database import UnitOfWork

# What may have come on top of the pool in the block where the spell opened.
_SLACK = 200


class KickoutRules(NamedTuple):
    """What a kickout is judged by: the rules that score, and the numbers of the reports."""

    rules: Rules
    settings: ReportSettings


@dataclass(frozen=True, slots=True)
class KickoutCase:
    """A node whose kickout is due at the head.

    `lane` is what the contract holds about it; `kick` the newest proposal about its lane; `shown`
    how many of the newest rounds in a row showed it under the line, counted as far as they matter.
    `obstacle`: why it cannot be proposed now; None: it can. `proof`: how well the blocks behind it
    were verified, looked at where nothing else stands against it. `signable_from`: the first round
    that a proposal may be signed on, where enough rounds have shown it low.
    """

    node: Address
    spell: KickoutDue
    index: int | None
    lane: int
    kick: Kick | None
    evidence: KickoutEvidence | None
    obstacle: str | None
    proof: EvidenceProof | None = None
    shown: int = 0
    signable_from: int = 0


def looks_at(
    uow: UnitOfWork, law: KickoutRules, level: Level, late: Collection[int] = ()
) -> list[KickoutCase]:
    """Look at every open spell, the oldest first (docs/explanation/kickouts.md#lifecycle).

    It can be proposed when the spell's opening is final, the node is a member whose lane on chain
    is under `settings.kick_below` and was so in the last `settings.kick_after_rounds` rounds of
    blocks since the opening, no kickout of it is live or was vetoed on the same evidence, and
    the blocks behind it are verified to `level`. `late`: lanes whose live kickout can no longer be
    executed, so that a new one takes its place.
    """
    rules, settings = law
    spells = due_spells(uow, rules)
    if not spells:
        return []
    cursor = uow.cursor.get()
    rounds = uow.rounds.about([spell.node for spell in spells])
    final = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    looks = []
    for spell in spells:
        index, lane = rounds.index_by_node.get(spell.node), rounds.lane_of_node(spell.node)
        kick = None if index is None else rounds.kicks.get(index)
        obstacle = _of_spell(uow, spell, final) or _of_lane(index, lane, settings.kick_below)
        evidence, proof, low = None, None, 0
        first: tuple[Shown, ...] = ()
        if index is not None:
            low = low_now(uow, spell, index, settings)
            obstacle = obstacle or _of_rounds(low, settings.kick_after_rounds)
        if index is not None and obstacle is None:
            first = first_low(uow, spell, index, settings)
            obstacle = _of_first(first, final)
        if obstacle is None:
            evidence = evidence_at(uow, law, spell)
            obstacle = None if index in late else _of_kick(kick, evidence)
        if obstacle is None:
            proof = proof_behind(uow, rules, spell, level)
            obstacle = proof.reason
        since = signable_from(first[-1].round, kick) if first else 0
        looks.append(
            KickoutCase(
                spell.node, spell, index, lane, kick, evidence, obstacle, proof, low, since
            )
        )
    return looks


def due_spells(uow: UnitOfWork, rules: Rules) -> list[KickoutDue]:
    """Return the open spells, the oldest first.

    Without those that the turn of a window has ended (legacy rules): no event of theirs said so.
    """
    spells, cursor = uow.kickouts.open(), uow.cursor.get()
    if rules.legacy is None or cursor is None or not spells:
        return spells
    nodes = uow.nodes.named([spell.node for spell in spells])
    low = {node.address for node in nodes.values() if is_kickout_due(node, rules, cursor.time)}
    return [spell for spell in spells if spell.node in low]


def is_due(uow: UnitOfWork, index: int, rules: Rules) -> bool:
    """Tell whether the node of a lane has an open spell."""
    node = uow.rounds.node_at(index)
    return any(spell.node == node for spell in due_spells(uow, rules))


def evidence_against(uow: UnitOfWork, index: int, law: KickoutRules) -> Hash:
    """Return the hash of the evidence of a lane's open spell; zeros where there is none."""
    node = uow.rounds.node_at(index)
    spells = [spell for spell in due_spells(uow, law.rules) if spell.node == node]
    return (_hash_of(uow, law, spells[0], index) if spells else None) or ZERO_HASH


def evidence_at(uow: UnitOfWork, law: KickoutRules, spell: KickoutDue) -> KickoutEvidence:
    """Write the evidence from the pool, or the window, as it stood where the spell opened.

    The spell is one of `due_spells`. Before enough rounds have shown the node low it is not what
    will be proposed: those are part of it.
    """
    index = uow.rounds.about([spell.node]).index_by_node.get(spell.node)
    return _written(uow, law, spell, index)


def _written(
    uow: UnitOfWork, law: KickoutRules, spell: KickoutDue, index: int | None
) -> KickoutEvidence:
    identity = uow.identity.get()
    accused = Accused(
        chain_id=None if identity is None else identity.chain_id,
        contract=None if identity is None else identity.oracle,
        index=index,
        rounds=() if index is None else first_low(uow, spell, index, law.settings),
        kick_below=law.settings.kick_below,
    )
    return evidence_of(spell, _entries_at(uow, law.rules, spell), law.rules, accused)


def proof_behind(uow: UnitOfWork, rules: Rules, spell: KickoutDue, level: Level) -> EvidenceProof:
    """Look how well the blocks behind a spell's evidence were verified."""
    return proof_of(uow, spell, _entries_at(uow, rules, spell), level)


def is_wanted(uow: UnitOfWork, law: KickoutRules, kick: Kick) -> bool:
    """Tell whether the spell that a kickout was proposed on is still open, on the same evidence.

    One that ended and began again is another one: it takes rounds, evidence and a veto of its own.
    """
    return evidence_against(uow, kick.index, law) == kick.evidence


def is_founded(uow: UnitOfWork, law: KickoutRules, kick: Kick) -> bool:
    """Tell whether what a kickout was proposed on is still what the chain says of its node.

    The spell may have ended since; under legacy rules only the open one tells.
    """
    if law.rules.legacy is not None:
        spells = [spell for spell in due_spells(uow, law.rules) if spell.node == kick.node]
    else:
        spells = uow.kickouts.of_node(kick.node)
    hashes = (_hash_of(uow, law, spell, kick.index) for spell in reversed(spells))
    return any(found == kick.evidence for found in hashes)


def _hash_of(uow: UnitOfWork, law: KickoutRules, spell: KickoutDue, index: int) -> Hash | None:
    try:
        return _written(uow, law, spell, index).hash
    except ValueError:
        # Scores that a repair took away: nothing is left to prove.
        return None


def _entries_at(uow: UnitOfWork, rules: Rules, spell: KickoutDue) -> list[ScoreEntry]:
    """Return the scores that counted where the spell opened, oldest first.

    Under legacy rules those of the window, which has only grown since: one that turns, or begins
    anew, ends the spell.
    """
    if rules.legacy is not None:
        node = uow.nodes.named([spell.node])[spell.node]
        counted = uow.scores.of_node(spell.node, node.window_count)
        return [entry for entry in counted if entry.at <= spell.opened_at]
    size = rules.pool_size
    entries = uow.scores.of_node_at(spell.node, spell.opened_at.block, size + _SLACK)
    before = [entry for entry in entries if entry.at <= spell.opened_at]
    return before[-size:]


def _of_spell(uow: UnitOfWork, spell: KickoutDue, final: int) -> str | None:
    if spell.opened_at.block > final:
        return f"block {spell.opened_at.block}, where it became due, is not final yet"
    node = uow.nodes.named([spell.node]).get(spell.node)
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


def _of_rounds(low: int, needed: int) -> str | None:
    if low >= needed:
        return None
    return f"{low} of {needed} rounds in a row have shown it under the line since it became due"


def _of_first(first: Sequence[Shown], final: int) -> str | None:
    """Evidence names these rounds: they have to stay."""
    if first and first[-1].block <= final:
        return None
    return "the rounds that showed it under the line are not final yet"


def _of_kick(kick: Kick | None, evidence: KickoutEvidence) -> str | None:
    if kick is None:
        return None
    if kick.state is KickState.LIVE:
        return "its kickout is proposed already"
    # One that was vetoed is not tried again on the same evidence. Anybody may cancel a dead one,
    # its node too: that says nothing about the evidence.
    if kick.state is KickState.VETOED and kick.evidence == evidence.hash:
        return "its kickout was vetoed on the same evidence"
    return None
