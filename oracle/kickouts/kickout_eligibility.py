"""Evaluates every node whose kickout is due: obstacles to a proposal, and its evidence."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.coverage import Level
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.kickout_evidence import Accused, KickoutEvidence, evidence_of
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED
from oracle.domain.reports.low_rounds import Shown
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.node_scores import is_below_line, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state.node import Membership
from oracle.kickouts.creator_gate import creators_at, hold_reason, is_held
from oracle.kickouts.proof import EvidenceProof, proof_of
from oracle.kickouts.shown_low import count_low_rounds, first_low
from oracle.quorum.signing_round import signable_from
from oracle.store.database import UnitOfWork
from oracle.store.state.cursor_repository import Cursor

# What may have come on top of the pool in the block where the interval opened.
_SLACK = 200


class KickoutRules(NamedTuple):
    """The rules of a kickout: the scoring rules and the report settings."""

    rules: Rules
    settings: ReportSettings


@dataclass(frozen=True, slots=True)
class KickoutCase:
    """A node whose kickout is due at the head.

    `lane` is what the contract holds about it; `kick` the newest proposal about it; `shown`
    how many of the newest rounds in a row showed it under the line, counted as far as they matter.
    `obstacle`: why it cannot be proposed now; None: it can. `proof`: how well the blocks behind it
    were verified, looked at where nothing else stands against it. `signable_from`: the first round
    that a proposal may be signed on, where enough rounds have shown it low. `held`: why it is a
    person's to propose, even if nothing stands against it; None: it is not.
    """

    node: Address
    interval: KickoutDue
    index: int | None
    lane: int
    kick: Kick | None
    evidence: KickoutEvidence | None
    obstacle: str | None
    proof: EvidenceProof | None = None
    shown: int = 0
    signable_from: int = 0
    held: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the daemon proposes it automatically."""
        return self.obstacle is None and self.held is None


def looks_at(
    uow: UnitOfWork, kickout_rules: KickoutRules, level: Level, late: Collection[Address] = ()
) -> list[KickoutCase]:
    """Look at every open interval, the oldest first (docs/explanation/kickouts.md#lifecycle).

    It can be proposed when the interval's opening is final, the node is a member whose lane on
    chain is under `settings.kick_below` and was so in the last `settings.kick_after_rounds`
    rounds of blocks since the opening, no kickout of it is live or was vetoed on the same
    evidence, it is not expelled, and the blocks behind it are verified to `level`. `late`: nodes
    whose live kickout can no longer be executed, so that a new one takes its place.
    """
    intervals = due_intervals(uow, kickout_rules.rules)
    return _cases_of(uow, kickout_rules, level, intervals, late)


def proposable_cases(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    level: Level,
    intervals: Iterable[KickoutDue],
    live: Iterable[Kick],
) -> list[KickoutCase]:
    """Return the cases of the open intervals whose node's lane is low, without a live kickout.

    A live one cannot be proposed again, so its lane, rounds, scores and blocks are not read.
    """
    proposed = {kick.node for kick in live}
    low = uow.rounds.low_nodes(kickout_rules.settings.kick_line)
    waiting = [
        interval
        for interval in intervals
        if interval.node in low and interval.node not in proposed
    ]
    return _cases_of(uow, kickout_rules, level, waiting, ())


def _cases_of(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    level: Level,
    intervals: Sequence[KickoutDue],
    late: Collection[Address],
) -> list[KickoutCase]:
    if not intervals:
        return []
    rules, settings = kickout_rules
    cursor, members = uow.cursor.get(), uow.kickouts.open_members()
    newest = uow.rounds.accepted(settings.kick_after_rounds)
    rounds = uow.rounds.about([interval.node for interval in intervals])
    final = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    looks = []
    for interval in intervals:
        index, lane = rounds.index_by_node.get(interval.node), rounds.lane_of_node(interval.node)
        kick = rounds.kicks.get(interval.node)
        obstacle = _of_interval(interval, members, final)
        # A lane that is not low now ends the row of low rounds: none needs to be read.
        above_line = _of_lane(index, lane, settings.kick_below)
        obstacle = obstacle or above_line
        evidence, proof, low = None, None, 0
        first: tuple[Shown, ...] = ()
        if index is not None and above_line is None:
            line = settings.kick_line
            low = count_low_rounds(uow, interval, index, newest, line)
            obstacle = obstacle or _of_rounds(low, settings.kick_after_rounds)
        if index is not None and obstacle is None:
            first = first_low(uow, interval, index, settings)
            obstacle = _of_first(first, final)
        if obstacle is None:
            evidence = evidence_at(uow, kickout_rules, interval)
            is_late = interval.node in late
            obstacle = None if is_late else _of_kick(kick, evidence, _time(cursor))
        if obstacle is None:
            proof = proof_behind(uow, rules, interval, level)
            obstacle = proof.reason
        since = signable_from(first[-1].round, kick) if first else 0
        entries = () if evidence is None else _entries_at(uow, rules, interval)
        held = hold_reason(evidence, kick, entries, rules)
        looks.append(
            KickoutCase(
                *(interval.node, interval, index, lane, kick, evidence, obstacle),
                *(proof, low, since, held),
            )
        )
    return looks


def due_intervals(uow: UnitOfWork, rules: Rules) -> list[KickoutDue]:
    """Return the open intervals, the oldest first.

    Without those that the turn of a window has ended (legacy rules): no event of theirs said so.
    """
    return _still_due(uow, uow.kickouts.open(), rules)


def due_interval(uow: UnitOfWork, node: Address, rules: Rules) -> KickoutDue | None:
    """Return the open interval of one node, as `due_intervals` has it; None: it has none."""
    interval = uow.kickouts.open_of_node(node)
    due = [] if interval is None else _still_due(uow, [interval], rules)
    return due[0] if due else None


def _still_due(uow: UnitOfWork, intervals: list[KickoutDue], rules: Rules) -> list[KickoutDue]:
    if rules.legacy is None or not intervals:
        return intervals
    cursor = uow.cursor.get()
    if cursor is None:
        return intervals
    nodes = uow.nodes.named([interval.node for interval in intervals])
    low = {node.address for node in nodes.values() if is_kickout_due(node, rules, cursor.time)}
    return [interval for interval in intervals if interval.node in low]


def held_among(uow: UnitOfWork, intervals: Sequence[KickoutDue], rules: Rules) -> int:
    """Count the intervals whose kickout an operator would have to propose."""
    looked = ((interval, _entries_at(uow, rules, interval)) for interval in intervals)
    return sum(is_held(uow, interval, entries, rules) for interval, entries in looked)


def is_due(uow: UnitOfWork, node: Address, rules: Rules) -> bool:
    """Return whether a node has an open interval."""
    return due_interval(uow, node, rules) is not None


class EvidenceMemory:
    """The hashes of evidence that was written before, so that a tick writes only what is new.

    Evidence rests on the scores before its interval opened and on the first rounds that showed
    the node low: once those are complete, only a rewind or a rebuild changes it. Until then its
    hash is kept for as long as no further round is accepted.
    """

    def __init__(self) -> None:
        self._remakes = -1
        self._newest: Hash | None = None
        self._complete: dict[tuple[Address, Position], Hash | None] = {}
        self._growing: dict[tuple[Address, Position], Hash | None] = {}

    def refresh(self, uow: UnitOfWork) -> None:
        """Drop what is not sure to be the database's any more; before the first `hash_of`."""
        remakes, newest = uow.bookmarks.remakes(), uow.rounds.newest_digest()
        if remakes != self._remakes:
            self._complete.clear()
        if remakes != self._remakes or newest != self._newest:
            self._growing.clear()
        self._remakes, self._newest = remakes, newest

    def retain(self, nodes: Collection[Address]) -> None:
        """Drop the hashes of all nodes but these: memory is bounded by the live kickouts."""
        for hashes in (self._complete, self._growing):
            for key in [key for key in hashes if key[0] not in nodes]:
                del hashes[key]

    def hash_of(
        self, uow: UnitOfWork, kickout_rules: KickoutRules, interval: KickoutDue
    ) -> Hash | None:
        """Return the hash of an interval's evidence, or None if nothing is left to prove."""
        key = interval.node, interval.opened_at
        if key in self._complete:
            return self._complete[key]
        if key not in self._growing:
            found, is_complete = _hash_of(uow, kickout_rules, interval)
            (self._complete if is_complete else self._growing)[key] = found
            return found
        return self._growing[key]


def evidence_against(uow: UnitOfWork, node: Address, kickout_rules: KickoutRules) -> Hash:
    """Return the evidence hash of a node's open interval, or the zero hash."""
    interval = due_interval(uow, node, kickout_rules.rules)
    found = None if interval is None else _hash_of(uow, kickout_rules, interval)[0]
    return found or ZERO_HASH


def evidence_at(
    uow: UnitOfWork, kickout_rules: KickoutRules, interval: KickoutDue
) -> KickoutEvidence:
    """Write the evidence from the pool, or the window, as it stood where the interval opened.

    Before enough rounds have shown the node low it is not what will be proposed: those are part
    of it.

    Raises:
        ValueError: nothing is left to prove.
    """
    entries = _entries_at(uow, kickout_rules.rules, interval)
    accused = _accused_at(uow, kickout_rules.settings, interval, entries)
    return evidence_of(interval, entries, kickout_rules.rules, accused)


def _accused_at(
    uow: UnitOfWork,
    settings: ReportSettings,
    interval: KickoutDue,
    entries: Sequence[ScoreEntry],
) -> Accused:
    identity = uow.identity.get()
    index = uow.rounds.about([interval.node]).index_by_node.get(interval.node)
    return Accused(
        chain_id=None if identity is None else identity.chain_id,
        contract=None if identity is None else identity.oracle,
        index=index,
        rounds=() if index is None else first_low(uow, interval, index, settings),
        kick_below=settings.kick_below,
        creators=creators_at(uow, interval, entries),
    )


def proof_behind(
    uow: UnitOfWork, rules: Rules, interval: KickoutDue, level: Level
) -> EvidenceProof:
    """Return how well the blocks behind an interval's evidence were verified."""
    return proof_of(uow, interval, _entries_at(uow, rules, interval), level)


def is_kickout_still_due(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kick: Kick,
    memory: EvidenceMemory | None = None,
) -> bool:
    """Tell whether the interval of a proposed kickout is still open, on the same evidence.

    One that ended and began again is another one: it takes rounds, evidence and a veto of its own.
    One that ended because the node left is not over: leaving is no way out of a kickout.
    """
    interval = due_interval(uow, kick.node, kickout_rules.rules)
    due = [] if interval is None else [interval]
    hashes = EvidenceMemory() if memory is None else memory
    return bool(wanted_kicks(uow, kickout_rules, [kick], due, hashes))


def wanted_kicks(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kicks: Sequence[Kick],
    due: Iterable[KickoutDue],
    memory: EvidenceMemory,
) -> list[Kick]:
    """Return the proposed kickouts that are still valid, in one pass over the open intervals.

    `due`: the open intervals of at least the kickouts' nodes.
    """
    interval_by_node = {interval.node: interval for interval in due}
    memory.refresh(uow)
    wanted, others = set[Address](), list[Kick]()
    for kick in kicks:
        interval = interval_by_node.get(kick.node)
        if interval and memory.hash_of(uow, kickout_rules, interval) == kick.evidence:
            wanted.add(kick.node)
        else:
            others.append(kick)
    wanted |= _left_before(uow, kickout_rules, others, memory)
    return [kick for kick in kicks if kick.node in wanted]


def _left_before(
    uow: UnitOfWork, kickout_rules: KickoutRules, kicks: Sequence[Kick], memory: EvidenceMemory
) -> set[Address]:
    """Return the nodes that left under a live kickout, no better than when it was proposed.

    See docs/explanation/kickouts.md#leaving-is-no-way-out. Under legacy rules scores belong to a
    window, and whoever leaves is not looked at any more.
    """
    rules, left = kickout_rules.rules, set[Address]()
    if rules.legacy is not None or not kicks:
        return left
    nodes = uow.nodes.named([kick.node for kick in kicks])
    for kick in kicks:
        node = nodes.get(kick.node)
        if node is None or node.membership is Membership.MEMBER:
            continue
        if len(node.pool) != rules.pool_size or not is_below_line(node.pool_sum, rules):
            continue
        for interval in uow.kickouts.of_node(kick.node)[-1:]:
            if memory.hash_of(uow, kickout_rules, interval) == kick.evidence:
                left.add(kick.node)
    return left


def has_matching_evidence(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kick: Kick,
    memory: EvidenceMemory | None = None,
) -> bool:
    """Tell whether what a kickout was proposed on is still what the chain says of its node.

    The interval may have ended since; under legacy rules only the open one tells. `memory` has
    been refreshed in this snapshot; None: nothing is kept.
    """
    hashes = EvidenceMemory() if memory is None else memory
    if kickout_rules.rules.legacy is not None:
        interval = due_interval(uow, kick.node, kickout_rules.rules)
        intervals = [] if interval is None else [interval]
    else:
        intervals = uow.kickouts.of_node(kick.node)
    return any(
        hashes.hash_of(uow, kickout_rules, interval) == kick.evidence
        for interval in reversed(intervals)
    )


def _hash_of(
    uow: UnitOfWork, kickout_rules: KickoutRules, interval: KickoutDue
) -> tuple[Hash | None, bool]:
    """Return the hash of an interval's evidence, and whether its rounds are complete.

    The hash is None where a repair took the scores away: nothing is left to prove.
    """
    rules, settings = kickout_rules
    entries = _entries_at(uow, rules, interval)
    accused = _accused_at(uow, settings, interval, entries)
    try:
        evidence = evidence_of(interval, entries, rules, accused)
    except ValueError:
        return None, False
    return evidence.hash, len(accused.rounds) == settings.kick_after_rounds


def _entries_at(uow: UnitOfWork, rules: Rules, interval: KickoutDue) -> list[ScoreEntry]:
    """Return the scores that counted where the interval opened, oldest first.

    Under legacy rules those of the window, which has only grown since: one that turns, or begins
    anew, ends the interval.
    """
    if rules.legacy is not None:
        node = uow.nodes.named([interval.node])[interval.node]
        counted = uow.scores.of_node(interval.node, node.window_count)
        return [entry for entry in counted if entry.at <= interval.opened_at]
    size = rules.pool_size
    entries = uow.scores.of_node_at(interval.node, interval.opened_at.block, size + _SLACK)
    before = [entry for entry in entries if entry.at <= interval.opened_at]
    return before[-size:]


def _of_interval(interval: KickoutDue, members: Collection[Address], final: int) -> str | None:
    if interval.opened_at.block > final:
        return f"block {interval.opened_at.block}, where it became due, is not final yet"
    return None if interval.node in members else "the node is no member"


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


def _time(cursor: Cursor | None) -> int:
    return 0 if cursor is None else cursor.time


def _of_kick(kick: Kick | None, evidence: KickoutEvidence, time: int) -> str | None:
    if kick is None:
        return None
    if kick.is_expelled(time):
        return "it is expelled already, and a member again: the network is asked once more"
    if kick.state is KickState.LIVE:
        return "its kickout is proposed already"
    # One that was vetoed is not tried again on the same evidence. Anybody may cancel a dead one,
    # its node too: that says nothing about the evidence.
    if kick.state is KickState.VETOED and kick.evidence == evidence.hash:
        return "its kickout was vetoed on the same evidence"
    return None
