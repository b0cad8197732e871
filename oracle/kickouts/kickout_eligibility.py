"""Evaluates every node whose kickout is due: the obstacles to a proposal, and the evidence."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.blocks import Position
from oracle.domain.coverage import VerificationLevel
from oracle.domain.fold.working_set import KickoutDue, ScoreEntry
from oracle.domain.ids import ZERO_HASH, Address, Hash
from oracle.domain.reports.kickout_evidence import (
    EvidenceContext,
    KickoutEvidence,
    LaneObservation,
    build_kickout_evidence,
)
from oracle.domain.reports.kickout_review import KickoutPolicy, find_hold_reason
from oracle.domain.reports.kicks import Kick, KickState
from oracle.domain.reports.lanes import LOWEST_SCORE, NEVER_REPORTED
from oracle.domain.reports.report import ReportSettings
from oracle.domain.scoring.node_scores import is_below_kickout_line, is_kickout_due
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.indexer.kickout_reviews import load_counted_entries, load_creators
from oracle.kickouts.proof import EvidenceVerification, build_evidence_verification
from oracle.kickouts.shown_low import count_low_rounds, find_first_low_rounds
from oracle.quorum.signing_round import compute_min_signing_round
from oracle.store.database import UnitOfWork


class KickoutRules(NamedTuple):
    """The rules of a kickout: the scoring rules and the report settings.

    `holds_kickouts`: whether the profile of the network holds every kickout.
    """

    rules: Rules
    settings: ReportSettings
    holds_kickouts: bool = False

    @property
    def policy(self) -> KickoutPolicy:
        """The rules by which due kickouts are reviewed."""
        return KickoutPolicy(self.rules, self.holds_kickouts)


@dataclass(frozen=True, slots=True)
class KickoutCase:
    """A node whose kickout is due at the head.

    `lane` is the node's lane in the contract, and `kick` the newest proposal about the node.
    `low_rounds` is how many of the newest consecutive rounds showed the node below the kickout
    line, up to the required number. `obstacle` is why the kickout cannot be proposed now, or None.
    `proof` is how well the blocks behind the kickout were verified; it is set only if there is no
    other obstacle. `min_signing_round` is the first round on which a proposal may be signed, or 0
    until enough rounds have shown the node low. `hold_reason` is why only an operator may propose
    the kickout even if there is no obstacle, or None.
    """

    node: Address
    interval: KickoutDue
    index: int | None
    lane: int
    kick: Kick | None
    evidence: KickoutEvidence | None
    obstacle: str | None
    proof: EvidenceVerification | None = None
    low_rounds: int = 0
    min_signing_round: int = 0
    hold_reason: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the daemon proposes the kickout automatically."""
        return self.obstacle is None and self.hold_reason is None


def load_kickout_cases(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    level: VerificationLevel,
    late_nodes: Collection[Address] = (),
) -> list[KickoutCase]:
    """Return a case for every open interval, oldest first.

    A kickout can be proposed if all of these are true (docs/explanation/kickouts.md#lifecycle):

    - The block that opened the interval is final, and the node is a member.
    - The node's lane is below `settings.kick_below`, and was below it in each of the last
      `settings.kick_after_rounds` rounds, whose as-of blocks are all since the opening.
    - The node is not expelled, and no kickout of the node is live or was vetoed on the same
      evidence.
    - The blocks behind the kickout are verified to `level`.

    `late_nodes` are nodes whose live kickout can no longer be executed, so that a new kickout
    replaces it.
    """
    intervals = find_due_intervals(uow, kickout_rules.rules)
    return _build_cases(uow, kickout_rules, level, intervals, late_nodes)


def find_proposable_cases(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    level: VerificationLevel,
    intervals: Iterable[KickoutDue],
    live_kicks: Iterable[Kick],
) -> list[KickoutCase]:
    """Return the cases of the open intervals whose node has a low lane and no live kickout.

    A live kickout cannot be proposed again, so its lane, rounds, scores and blocks are not read.
    """
    proposed_nodes = {kick.node for kick in live_kicks}
    low_nodes = uow.rounds.find_nodes_below_lane(kickout_rules.settings.kick_line)
    proposable_intervals = [
        interval
        for interval in intervals
        if interval.node in low_nodes and interval.node not in proposed_nodes
    ]
    return _build_cases(uow, kickout_rules, level, proposable_intervals, ())


def _build_cases(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    level: VerificationLevel,
    intervals: Sequence[KickoutDue],
    late_nodes: Collection[Address],
) -> list[KickoutCase]:
    if not intervals:
        return []
    rules, settings = kickout_rules.rules, kickout_rules.settings
    cursor, members = uow.cursor.get(), uow.kickouts.list_due_members()
    chain_time = 0 if cursor is None else cursor.time
    newest_rounds = uow.rounds.list_accepted(settings.kick_after_rounds)
    rounds = uow.rounds.load_for_nodes([interval.node for interval in intervals])
    final_block = -1 if cursor is None or cursor.final_number is None else cursor.final_number
    cases = []
    for interval in intervals:
        index, lane = rounds.index_by_node.get(interval.node), rounds.get_node_lane(interval.node)
        kick = rounds.kicks.get(interval.node)
        obstacle = _find_interval_obstacle(interval, members, final_block)
        # If the lane is not low now, the newest round was not low either: no round is read.
        lane_obstacle = _find_lane_obstacle(index, lane, settings.kick_below)
        obstacle = obstacle or lane_obstacle
        evidence, proof, low_rounds = None, None, 0
        first_low_rounds: tuple[LaneObservation, ...] = ()
        if index is not None and lane_obstacle is None:
            kick_line = settings.kick_line
            low_rounds = count_low_rounds(uow, interval, index, newest_rounds, kick_line)
            obstacle = obstacle or _find_low_rounds_obstacle(
                low_rounds, settings.kick_after_rounds
            )
        if index is not None and obstacle is None:
            first_low_rounds = find_first_low_rounds(uow, interval, index, settings)
            obstacle = _find_first_rounds_obstacle(first_low_rounds, final_block)
        if obstacle is None:
            evidence = load_kickout_evidence(uow, kickout_rules, interval)
            is_late = interval.node in late_nodes
            obstacle = None if is_late else _find_kick_obstacle(kick, evidence, chain_time)
        if obstacle is None:
            proof = load_evidence_verification(uow, rules, interval, level)
            obstacle = proof.reason
        min_round = (
            compute_min_signing_round(first_low_rounds[-1].round, kick) if first_low_rounds else 0
        )
        hold_reason = None
        if evidence is not None and (kick is None or kick.state is not KickState.LIVE):
            hold_reason = _find_interval_hold_reason(uow, interval, kickout_rules.policy)
        cases.append(
            KickoutCase(
                *(interval.node, interval, index, lane, kick, evidence, obstacle),
                *(proof, low_rounds, min_round, hold_reason),
            )
        )
    return cases


def find_due_intervals(uow: UnitOfWork, rules: Rules) -> list[KickoutDue]:
    """Return the open intervals, oldest first.

    Under legacy rules, intervals that ended with their window are left out, although no event of
    the node has closed them yet.
    """
    return _filter_still_due(uow, uow.kickouts.list_open(), rules)


def find_due_interval(uow: UnitOfWork, node: Address, rules: Rules) -> KickoutDue | None:
    """Return the open interval of a node as in `find_due_intervals`, or None if it has none."""
    interval = uow.kickouts.get_open_for_node(node)
    still_due = [] if interval is None else _filter_still_due(uow, [interval], rules)
    return still_due[0] if still_due else None


def _filter_still_due(
    uow: UnitOfWork, intervals: list[KickoutDue], rules: Rules
) -> list[KickoutDue]:
    if rules.legacy is None or not intervals:
        return intervals
    cursor = uow.cursor.get()
    if cursor is None:
        return intervals
    nodes = uow.nodes.get_many([interval.node for interval in intervals])
    due_nodes = {
        node.address for node in nodes.values() if is_kickout_due(node, rules, cursor.time)
    }
    return [interval for interval in intervals if interval.node in due_nodes]


def count_held_intervals(
    uow: UnitOfWork, intervals: Sequence[KickoutDue], policy: KickoutPolicy
) -> int:
    """Count the intervals whose kickout an operator would have to propose."""
    return sum(
        _find_interval_hold_reason(uow, interval, policy) is not None for interval in intervals
    )


def _find_interval_hold_reason(
    uow: UnitOfWork, interval: KickoutDue, policy: KickoutPolicy
) -> str | None:
    """Return why only an operator may propose the kickout, or None if the daemon may do so."""
    entries = _load_entries(uow, policy.rules, interval)
    return find_hold_reason(entries, load_creators(uow, entries, interval.opened_at), policy)


def has_open_kickout_interval(uow: UnitOfWork, node: Address, rules: Rules) -> bool:
    return find_due_interval(uow, node, rules) is not None


class EvidenceHashCache:
    """A cache of evidence hashes, so that a tick builds only new evidence.

    Evidence depends on the scores before its interval opened and on the first rounds that showed
    the node low. Once these rounds are complete, only a rewind or a rebuild changes the evidence.
    Before that, a hash is kept until the next round is accepted.
    """

    def __init__(self) -> None:
        self._remake_count = -1
        self._newest_digest: Hash | None = None
        self._complete: dict[tuple[Address, Position], Hash | None] = {}
        self._growing: dict[tuple[Address, Position], Hash | None] = {}

    def refresh(self, uow: UnitOfWork) -> None:
        """Drop the hashes that may be outdated; call this before the first `get_hash`."""
        remake_count, newest_digest = (
            uow.bookmarks.get_rebuild_count(),
            uow.rounds.get_newest_digest(),
        )
        if remake_count != self._remake_count:
            self._complete.clear()
        if remake_count != self._remake_count or newest_digest != self._newest_digest:
            self._growing.clear()
        self._remake_count, self._newest_digest = remake_count, newest_digest

    def retain(self, nodes: Collection[Address]) -> None:
        """Drop the hashes of all nodes except these, which limits the memory used."""
        for hashes in (self._complete, self._growing):
            for key in [key for key in hashes if key[0] not in nodes]:
                del hashes[key]

    def get_hash(
        self, uow: UnitOfWork, kickout_rules: KickoutRules, interval: KickoutDue
    ) -> Hash | None:
        """Return the hash of an interval's evidence, or None if a repair removed the scores."""
        key = interval.node, interval.opened_at
        if key in self._complete:
            return self._complete[key]
        if key not in self._growing:
            evidence_hash, is_complete = _compute_hash(uow, kickout_rules, interval)
            (self._complete if is_complete else self._growing)[key] = evidence_hash
            return evidence_hash
        return self._growing[key]


def compute_evidence_hash(uow: UnitOfWork, node: Address, kickout_rules: KickoutRules) -> Hash:
    """Return the evidence hash of a node's open interval, or the zero hash."""
    interval = find_due_interval(uow, node, kickout_rules.rules)
    evidence_hash = None if interval is None else _compute_hash(uow, kickout_rules, interval)[0]
    return evidence_hash or ZERO_HASH


def load_kickout_evidence(
    uow: UnitOfWork, kickout_rules: KickoutRules, interval: KickoutDue
) -> KickoutEvidence:
    """Build the evidence from the pool (legacy rules: the window) as of the interval's opening.

    Until enough rounds have shown the node low, the result differs from the evidence that will be
    proposed, because these rounds are part of the evidence.

    Raises:
        ValueError: a repair removed the scores.
    """
    entries = _load_entries(uow, kickout_rules.rules, interval)
    accused = _build_evidence_context(uow, kickout_rules.settings, interval, entries)
    return build_kickout_evidence(interval, entries, kickout_rules.rules, accused)


def _build_evidence_context(
    uow: UnitOfWork,
    settings: ReportSettings,
    interval: KickoutDue,
    entries: Sequence[ScoreEntry],
) -> EvidenceContext:
    identity = uow.identity.get()
    index = uow.rounds.load_for_nodes([interval.node]).index_by_node.get(interval.node)
    return EvidenceContext(
        chain_id=None if identity is None else identity.chain_id,
        contract=None if identity is None else identity.oracle,
        index=index,
        observations=()
        if index is None
        else find_first_low_rounds(uow, interval, index, settings),
        kick_below=settings.kick_below,
        creators=load_creators(uow, entries, interval.opened_at),
    )


def load_evidence_verification(
    uow: UnitOfWork, rules: Rules, interval: KickoutDue, level: VerificationLevel
) -> EvidenceVerification:
    """Return how well the blocks behind an interval's evidence were verified."""
    return build_evidence_verification(uow, interval, _load_entries(uow, rules, interval), level)


def is_kickout_still_due(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kick: Kick,
    evidence_cache: EvidenceHashCache | None = None,
) -> bool:
    """Return whether the interval of a proposed kickout is still open, with the same evidence.

    A later interval needs rounds, evidence and a veto period of its own. An interval that ended
    because the node left still counts, because leaving does not avoid a kickout.
    """
    interval = find_due_interval(uow, kick.node, kickout_rules.rules)
    intervals = [] if interval is None else [interval]
    cache = EvidenceHashCache() if evidence_cache is None else evidence_cache
    return bool(find_valid_kicks(uow, kickout_rules, [kick], intervals, cache))


def find_valid_kicks(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kicks: Sequence[Kick],
    open_intervals: Iterable[KickoutDue],
    evidence_cache: EvidenceHashCache,
) -> list[Kick]:
    """Return the proposed kickouts that are still valid, in one pass over the open intervals.

    `open_intervals` must contain at least the open intervals of the kickouts' nodes.
    """
    interval_by_node = {interval.node: interval for interval in open_intervals}
    evidence_cache.refresh(uow)
    valid_nodes, unmatched_kicks = set[Address](), list[Kick]()
    for kick in kicks:
        interval = interval_by_node.get(kick.node)
        if interval and evidence_cache.get_hash(uow, kickout_rules, interval) == kick.evidence:
            valid_nodes.add(kick.node)
        else:
            unmatched_kicks.append(kick)
    valid_nodes |= _find_departed_nodes(uow, kickout_rules, unmatched_kicks, evidence_cache)
    return [kick for kick in kicks if kick.node in valid_nodes]


def _find_departed_nodes(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kicks: Sequence[Kick],
    evidence_cache: EvidenceHashCache,
) -> set[Address]:
    """Return the nodes that left during a live kickout although their scores had not recovered.

    See docs/explanation/kickouts.md#leaving-is-no-way-out. Under legacy rules scores belong to a
    window, and nodes that left are not considered.
    """
    rules, departed_nodes = kickout_rules.rules, set[Address]()
    if rules.legacy is not None or not kicks:
        return departed_nodes
    nodes = uow.nodes.get_many([kick.node for kick in kicks])
    for kick in kicks:
        node = nodes.get(kick.node)
        if node is None or node.membership is Membership.MEMBER:
            continue
        if len(node.pool) != rules.pool_size or not is_below_kickout_line(node.pool_sum, rules):
            continue
        for interval in uow.kickouts.list_for_node(kick.node)[-1:]:
            if evidence_cache.get_hash(uow, kickout_rules, interval) == kick.evidence:
                departed_nodes.add(kick.node)
    return departed_nodes


def has_matching_evidence(
    uow: UnitOfWork,
    kickout_rules: KickoutRules,
    kick: Kick,
    evidence_cache: EvidenceHashCache | None = None,
) -> bool:
    """Return whether the evidence of a proposed kickout still follows from the chain.

    The interval may have ended since; under legacy rules only an open interval counts.
    `evidence_cache` must have been refreshed in this snapshot. If it is None, nothing is cached.
    """
    cache = EvidenceHashCache() if evidence_cache is None else evidence_cache
    if kickout_rules.rules.legacy is not None:
        interval = find_due_interval(uow, kick.node, kickout_rules.rules)
        intervals = [] if interval is None else [interval]
    else:
        intervals = uow.kickouts.list_for_node(kick.node)
    return any(
        cache.get_hash(uow, kickout_rules, interval) == kick.evidence
        for interval in reversed(intervals)
    )


def _compute_hash(
    uow: UnitOfWork, kickout_rules: KickoutRules, interval: KickoutDue
) -> tuple[Hash | None, bool]:
    """Return the hash of an interval's evidence, and whether its rounds are complete.

    The hash is None if a repair removed the scores.
    """
    rules, settings = kickout_rules.rules, kickout_rules.settings
    entries = _load_entries(uow, rules, interval)
    accused = _build_evidence_context(uow, settings, interval, entries)
    try:
        evidence = build_kickout_evidence(interval, entries, rules, accused)
    except ValueError:
        return None, False
    return evidence.hash, len(accused.observations) == settings.kick_after_rounds


def _load_entries(uow: UnitOfWork, rules: Rules, interval: KickoutDue) -> list[ScoreEntry]:
    """Return the scores that counted when the interval opened, oldest first."""
    node = uow.nodes.get_many([interval.node])[interval.node]
    return load_counted_entries(uow, node, interval.opened_at, rules)


def _find_interval_obstacle(
    interval: KickoutDue, members: Collection[Address], final_block: int
) -> str | None:
    if interval.opened_at.block > final_block:
        return f"block {interval.opened_at.block}, where the kickout became due, is not final yet"
    return None if interval.node in members else "the node is not a member"


def _find_lane_obstacle(index: int | None, lane: int, kick_below: int) -> str | None:
    if index is None:
        return "the node has no index in the oracle contract"
    if lane == NEVER_REPORTED:
        return "no report contains the node yet"
    if lane >= kick_below + LOWEST_SCORE:
        return f"its QoS on chain ({lane - LOWEST_SCORE}) is not below {kick_below}"
    return None


def _find_low_rounds_obstacle(low_rounds: int, required_rounds: int) -> str | None:
    if low_rounds >= required_rounds:
        return None
    return (
        f"only {low_rounds} of {required_rounds} consecutive rounds have shown the node below the "
        "kickout line since the kickout became due"
    )


def _find_first_rounds_obstacle(
    first_low_rounds: Sequence[LaneObservation], final_block: int
) -> str | None:
    """Return why a proposal has to wait for the rounds in its evidence to be final, or None."""
    if first_low_rounds and first_low_rounds[-1].block <= final_block:
        return None
    return "the rounds that showed the node below the kickout line are not final yet"


def _find_kick_obstacle(
    kick: Kick | None, evidence: KickoutEvidence, chain_time: int
) -> str | None:
    if kick is None:
        return None
    if kick.is_expelled(chain_time):
        return "the node is expelled, but a member again; the network is called again to remove it"
    if kick.state is KickState.LIVE:
        return "its kickout is already proposed"
    # A vetoed kickout is not proposed again on the same evidence. The cancellation of an expired
    # kickout proves nothing about the evidence, because anyone may cancel it, even the node.
    if kick.state is KickState.VETOED and kick.evidence == evidence.hash:
        return "its kickout was vetoed on the same evidence"
    return None
