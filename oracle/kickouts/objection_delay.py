"""Decides whether an objection delays an accusation that this daemon would otherwise send.

Leaves, reports and evidence files do not depend on objections. See
docs/explanation/objections.md#what-an-objection-delays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oracle.domain.coverage import VerificationLevel
from oracle.domain.events.oracle_events import Objected
from oracle.domain.fold.working_set import KickoutDue
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import KickoutPolicy, ObjectionTerms
from oracle.domain.reports.kickout_review import collect_task_creators, find_unanswered_scores
from oracle.domain.reports.objections import (
    KickoutScores,
    ObjectionCheck,
    ObjectionReason,
    ObjectionVerdict,
    check_objection,
    select_effective_objection,
)
from oracle.indexer.evidence_verification import build_evidence_verification
from oracle.indexer.kickout_reviews import load_counted_entries
from oracle.store.database import UnitOfWork
from oracle.store.state.objection_repository import ObjectionAnswer


@dataclass(frozen=True, slots=True)
class ObjectionDelay:
    """The reason why this reporter does not accuse a node yet.

    `until` is the block time (unix seconds) at which the delay ends if the operator does not
    answer the objection, or None if only an answer ends the delay. `objection` is None while the
    owner has not objected but still may. `is_accepted` is whether the operator has accepted the
    objection.
    """

    reason: str
    until: int | None
    objection: Objected | None = None
    is_accepted: bool = False


def check_objection_against_events(
    uow: UnitOfWork, policy: KickoutPolicy, interval: KickoutDue, reason: int
) -> ObjectionCheck:
    """Check the reason of an objection against the stored events.

    The objection is to an open interval.
    """
    node = uow.nodes.get_many([interval.node])[interval.node]
    entries = load_counted_entries(uow, node, interval.opened_at, policy.rules)
    tasks = uow.tasks.get_many([entry.task for entry in entries])
    unanswered_scores = find_unanswered_scores(entries, tasks, interval.opened_at)
    timeout_times = [score.time for score in unanswered_scores]
    verification = build_evidence_verification(uow, interval, entries, VerificationLevel.PROVEN)
    scores = KickoutScores(
        entries=entries,
        creators=collect_task_creators(tasks.values(), interval.opened_at),
        unanswered=unanswered_scores,
        incidents=uow.incidents.list_between(min(timeout_times), max(timeout_times))
        if timeout_times
        else (),
        unverified=verification.reason,
    )
    return check_objection(ObjectionReason.from_number(reason), scores, policy.rules)


def is_objection_accepted(uow: UnitOfWork, node: Address, due_since: int) -> bool:
    """Return whether the operator accepted an objection to the kickout due since `due_since`."""
    return any(
        answer.due_since == due_since and answer.is_accepted
        for answer in uow.objections.list_answers([node])
    )


def load_objection_delays(
    uow: UnitOfWork,
    policy: KickoutPolicy,
    kickouts: Sequence[tuple[KickoutDue, int]],
    time: int,
) -> dict[Address, ObjectionDelay]:
    """Return what delays this reporter's accusation of each node.

    `time` is the current block time. `kickouts` are pairs of an open interval, and the unix time
    since which the node's kickout is due by its leaf in the last round. No accusation is delayed
    if objections are not indexed.
    """
    terms = policy.objection_terms
    if terms is None:
        return {}
    nodes = [interval.node for interval, _ in kickouts]
    objections: dict[Address, list[Objected]] = {node: [] for node in nodes}
    answers: dict[Address, dict[int, ObjectionAnswer]] = {node: {} for node in nodes}
    for objection in uow.objections.list_for_nodes(nodes):
        objections[objection.node].append(objection)
    for answer in uow.objections.list_answers(nodes):
        answers[answer.node][answer.due_since] = answer
    delays = {
        interval.node: _find_delay_of_accusation(
            uow,
            policy,
            terms,
            (interval, due_since),
            _NodeObjections(objections[interval.node], answers[interval.node], time),
        )
        for interval, due_since in kickouts
    }
    return {node: delay for node, delay in delays.items() if delay is not None}


class _NodeObjections(NamedTuple):
    """A node's objections at a block time, and the answers to them by `due_since`."""

    objections: Sequence[Objected]
    answers: Mapping[int, ObjectionAnswer]
    time: int


def _find_delay_of_accusation(
    uow: UnitOfWork,
    policy: KickoutPolicy,
    terms: ObjectionTerms,
    kickout: tuple[KickoutDue, int],
    node_objections: _NodeObjections,
) -> ObjectionDelay | None:
    interval, due_since = kickout
    objections, answers, time = node_objections
    node = interval.node
    answer = answers.get(due_since)
    objection = select_effective_objection(objections, due_since, terms)
    if answer is not None and answer.is_accepted:
        # An operator may accept even an objection that came too late to delay the kickout.
        accepted_objection = objection or next(
            (candidate for candidate in objections if candidate.due_since == due_since), None
        )
        delay_reason = f"this reporter accepted the objection: {answer.because}"
        return ObjectionDelay(delay_reason, None, accepted_objection, is_accepted=True)
    if objection is not None and answer is not None:
        return None
    if time <= due_since + terms.window:
        return ObjectionDelay(
            f"the owner may object until {due_since + terms.window} (block time)",
            due_since + terms.window + 1,
            objection,
        )
    if objection is None or not _has_answered_since(uow, node, due_since):
        return None
    if _was_objection_declined_recently(objections, answers, due_since, terms):
        return None
    objection_check = check_objection_against_events(uow, policy, interval, objection.reason)
    return _find_delay_after_check(objection, objection_check, terms, time)


def _find_delay_after_check(
    objection: Objected, objection_check: ObjectionCheck, terms: ObjectionTerms, time: int
) -> ObjectionDelay | None:
    deadline = objection.time + terms.answer
    advice = f"answer it with `qos-oracle objection answer {objection.node}`"
    if objection_check.verdict is ObjectionVerdict.SUPPORTED:
        delay_reason = (
            f"objection {objection.seq} is supported ({objection_check.finding}); {advice}"
        )
        return ObjectionDelay(delay_reason, None, objection)
    if objection_check.verdict is ObjectionVerdict.OPEN and time <= deadline:
        delay_reason = f"objection {objection.seq} is open ({objection_check.finding}); {advice}"
        return ObjectionDelay(
            f"{delay_reason} before {deadline} (block time)", deadline + 1, objection
        )
    return None


def _has_answered_since(uow: UnitOfWork, node: Address, due_since: int) -> bool:
    """Return whether the node has answered a task since its kickout became due.

    An objection of a node that answers no tasks must not delay the kickout.
    """
    return any(
        entry.time > due_since and entry.elapsed is not None
        for entry in uow.scores.list_for_node(node)
    )


def _was_objection_declined_recently(
    objections: Sequence[Objected],
    answers: Mapping[int, ObjectionAnswer],
    due_since: int,
    terms: ObjectionTerms,
) -> bool:
    """Return whether this reporter declined an objection of the node recently."""
    return any(
        objection.due_since < due_since <= objection.due_since + terms.ignored
        and (answer := answers.get(objection.due_since)) is not None
        and not answer.is_accepted
        for objection in objections
    )
