"""Checks a node's objection to its kickout, and decides how long it delays accusation.

An objection never changes a leaf, a report or an evidence file
(docs/explanation/objections.md#what-an-objection-delays).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from oracle.domain.events.oracle_events import Objected
from oracle.domain.fold.working_set import ScoreEntry
from oracle.domain.ids import Address, TaskKey
from oracle.domain.incidents import Incident, find_incident_marking_timeout
from oracle.domain.reports.kickout_evidence import compute_creator_spread, justifies_kickout
from oracle.domain.reports.kickout_policy import ObjectionTerms
from oracle.domain.reports.kickout_review import UnansweredScore
from oracle.domain.scoring.rules import Rules

# Maximum length of the text in bytes. The contract rejects longer texts
# (contracts/roots/Objections.sol).
MAX_WORDS_BYTES = 280
# An incident supports an objection if at least one in this many scores was given during it.
_SCORES_PER_MARKED_SCORE = 5


class ObjectionReason(IntEnum):
    """The reasons of contracts/roots/Objections.sol.

    An unknown number counts as OTHER.
    """

    OTHER = 0
    NOT_ON_CHAIN = 1
    APPLICATION = 2
    OUTAGE = 3
    ONE_CREATOR = 4
    RULES = 5

    @classmethod
    def from_number(cls, number: int) -> "ObjectionReason":
        """Return the reason with this number, or OTHER if the number is unknown."""
        return cls(number) if number in set(cls) else cls.OTHER

    @classmethod
    def from_option(cls, option: str) -> "ObjectionReason | None":
        """Return the reason with this name on the command line, or None if unknown."""
        return next((reason for reason in cls if reason.option == option), None)

    @property
    def option(self) -> str:
        """The name of the reason on the command line and in the read API."""
        return self.name.lower().replace("_", "-")


class ObjectionVerdict(StrEnum):
    """The result of automatically checking an objection's reason against indexed events."""

    REFUTED = "refuted"
    SUPPORTED = "supported"
    OPEN = "open"


class ObjectionCheck(NamedTuple):
    """The verdict of the automatic check, and the finding on which it is based."""

    verdict: ObjectionVerdict
    finding: str


@dataclass(frozen=True, slots=True)
class KickoutScores:
    """The scores behind a kickout, and the stored facts about their tasks.

    `incidents` are the incidents that overlap the scores. `unverified` is the reason why the
    blocks behind the scores are not proven to be on the chain, or None.
    """

    entries: Sequence[ScoreEntry]
    creators: Mapping[TaskKey, Address]
    unanswered: Sequence[UnansweredScore]
    incidents: Sequence[Incident]
    unverified: str | None


def check_objection(
    reason: ObjectionReason, scores: KickoutScores, rules: Rules
) -> ObjectionCheck:
    """Check an objection's reason against the indexed events."""
    match reason:
        case ObjectionReason.NOT_ON_CHAIN:
            return _check_blocks(scores)
        case ObjectionReason.APPLICATION | ObjectionReason.OUTAGE:
            return _check_incidents(reason, scores)
        case ObjectionReason.ONE_CREATOR:
            return _check_creator_spread(scores, rules)
        case ObjectionReason.RULES:
            return _check_score_sum(scores, rules)
        case _:
            return ObjectionCheck(ObjectionVerdict.OPEN, "no check decides this reason")


def _check_blocks(scores: KickoutScores) -> ObjectionCheck:
    if scores.unverified is None:
        finding = "every block behind the scores is proven to be on the chain"
        return ObjectionCheck(ObjectionVerdict.REFUTED, finding)
    return ObjectionCheck(ObjectionVerdict.OPEN, scores.unverified)


def _check_incidents(reason: ObjectionReason, scores: KickoutScores) -> ObjectionCheck:
    is_outage = reason is ObjectionReason.OUTAGE
    incidents = [
        incident for incident in scores.incidents if incident.is_network_outage == is_outage
    ]
    marked_count = sum(
        find_incident_marking_timeout(incidents, score.time, score.creator) is not None
        for score in scores.unanswered
    )
    score_count = len(scores.entries)
    min_marked_count = -(-score_count // _SCORES_PER_MARKED_SCORE)
    min_marked_count = -(-score_count // _SCORES_PER_MARKED_SCORE)
    kind = "network outages" if is_outage else "incidents of an application"
    finding = (
        f"{marked_count} of the {score_count} scores behind the kickout are timeouts in {kind}; "
        f"{min_marked_count} would support the objection"
    )
    is_supported = marked_count >= max(1, min_marked_count)
    verdict = ObjectionVerdict.SUPPORTED if is_supported else ObjectionVerdict.OPEN
    return ObjectionCheck(verdict, finding)


def _check_creator_spread(scores: KickoutScores, rules: Rules) -> ObjectionCheck:
    creator_spread = compute_creator_spread(
        ((scores.creators.get(entry.task), entry.score) for entry in scores.entries), rules
    )
    hold_reason = creator_spread.find_hold_reason(rules)
    if hold_reason is not None:
        return ObjectionCheck(ObjectionVerdict.SUPPORTED, hold_reason)
    finding = "without the scores of any one creator, the mean would not be clearly above the line"
    return ObjectionCheck(ObjectionVerdict.REFUTED, finding)


def _check_score_sum(scores: KickoutScores, rules: Rules) -> ObjectionCheck:
    if justifies_kickout(scores.entries, rules):
        finding = "the sum of the stored scores justifies the kickout; the ranks were not repeated"
        return ObjectionCheck(ObjectionVerdict.OPEN, finding)
    finding = "the stored scores do not justify a kickout"
    return ObjectionCheck(ObjectionVerdict.SUPPORTED, finding)


def select_effective_objection(
    objections: Iterable[Objected], due_since: int, terms: ObjectionTerms
) -> Objected | None:
    """Return the objection that may delay an accusation, or None if there is none.

    It is the first objection to this kickout that was made within the time to object.
    """
    timely_objections = (
        objection
        for objection in objections
        if objection.due_since == due_since and objection.time <= due_since + terms.window
    )
    return min(timely_objections, key=lambda objection: objection.seq, default=None)
