"""Tells when a kickout call must not go on, and ends what was not sent.

See tests/sending/cases.toml#f56.
"""

import structlog

from oracle.bindings.qos_oracle import proposal_in
from oracle.kickouts.evidence_files import path_of
from oracle.kickouts.kickout_eligibility import (
    KickoutRules,
    evidence_against,
    is_due,
    is_founded,
    is_wanted,
)
from oracle.quorum.signing_round import why_not_sent
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    CallRequest,
    Intent,
    IntentKind,
    IntentState,
    JournalSubject,
    Stamp,
)
from oracle.telemetry import indexer_metrics
from oracle.txmgr.context import StepResult, TxContext
from oracle.txmgr.deferral import end

AGAINST = (IntentKind.PROPOSE_KICK, IntentKind.EXECUTE_KICK)
_QUEUED = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT = (IntentState.LIVE, IntentState.MINED, IntentState.FINAL)
# The newest of a kind and state that are looked at.
_MOST = 1_000


def review_kickouts(uow: UnitOfWork, number: int, stamp: Stamp) -> int:
    """Mark the kickouts sent on evidence above block `number`; return how many.

    The caller ends those that were not.
    """
    indexer_metrics.KICKOUTS_WITHDRAWN.labels("before").inc(len(_on(uow, _QUEUED, number)))
    sent = _on(uow, _SENT, number)
    for intent in sent:
        detail = f"its evidence left the chain above block {number}"
        about = JournalSubject(intent.id, intent.nonce)
        uow.outbox.journal.write("needs_review", stamp, about, detail)
        alarm(intent.wish.subject, detail)
    return len(sent)


def alarm(subject: str, why: str) -> None:
    """Tell a human of a kickout that went out and should not have."""
    indexer_metrics.KICKOUTS_WITHDRAWN.labels("after").inc()
    structlog.get_logger().error("kickout_needs_review", lane=subject, reason=why)


def _on(uow: UnitOfWork, states: tuple[IntentState, ...], number: int) -> list[Intent]:
    return [
        one
        for state in states
        for kind in AGAINST
        for one in uow.outbox.intents.newest(_MOST, state, kind)
        if (one.wish.as_of_block or 0) > number
    ]


# What a kickout call is about, before the number of its lane.
LANE_SUBJECT = "ix="
_NOT_SENT = (IntentState.PLANNED, IntentState.READY)
_NOT_DUE = "the kickout is no longer due"


def why_not_against(context: TxContext, uow: UnitOfWork, wish: CallRequest) -> str | None:
    """Tell why a kickout must not go on; None: its node is due, on the same evidence."""
    index = lane_of(wish)
    law = KickoutRules(context.rules, context.settings)
    if not is_due(uow, index, context.rules):
        return _NOT_DUE
    if wish.kind is IntentKind.PROPOSE_KICK:
        evidence, said = evidence_against(uow, index, law), proposal_in(wish.calldata)
        gone = why_not_sent(uow, said.round, said.report)
        if gone is not None:
            return gone
        is_same = said.evidence == evidence
        if is_same and not path_of(context.evidence_folder, evidence).exists():
            return "its evidence file is missing"
    else:
        kicks = [kick for kick in uow.rounds.live_kicks() if kick.index == index]
        ended = [kick for kick in kicks if not is_wanted(uow, law, kick)]
        if ended and all(is_founded(uow, law, kick) for kick in ended):
            return _NOT_DUE
        is_same = not ended
    return None if is_same else "the evidence behind the kickout left the chain"


def drop_next(context: TxContext) -> StepResult | None:
    """End a call that was not sent and is not wanted any more; None: there is none.

    It would be found out before its signature too. But one that waits for its time, such as the
    bucket's, would stand in the way of the cancellation until then.
    """
    with context.store.reading() as uow:
        waiting = [
            one
            for one in uow.outbox.intents.in_states(context.account, _NOT_SENT)
            if one.wish.kind in AGAINST
        ]
        found = [(one, why_not_against(context, uow, one.wish)) for one in waiting]
    for intent, reason in found:
        if reason is not None:
            return end(context, intent, IntentState.SUPERSEDED, reason)
    return None


def lane_of(wish: CallRequest) -> int:
    """Return the lane that a kickout call is about."""
    return int(wish.subject.removeprefix(LANE_SUBJECT))
