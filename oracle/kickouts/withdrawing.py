"""What becomes of kickouts whose evidence left the chain (chain.md 5, case 76).

One that was not sent is cancelled; for one that was, a human hears of it, and its proposal is
cancelled on chain as soon as the contract lets us (`kicking`).
"""

import structlog

from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentKind, IntentState, JournalSubject, Stamp
from oracle.telemetry import fork_metrics

AGAINST = (IntentKind.PROPOSE_KICK, IntentKind.EXECUTE_KICK)
_QUEUED = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT = (IntentState.LIVE, IntentState.MINED, IntentState.FINAL)
# The newest of a kind and state that are looked at.
_MOST = 1_000


def review_kickouts(uow: UnitOfWork, number: int, stamp: Stamp) -> int:
    """Mark the kickouts sent on evidence above block `number`; return how many.

    The caller ends those that were not.
    """
    fork_metrics.KICKOUTS_WITHDRAWN.labels("before").inc(len(_on(uow, _QUEUED, number)))
    sent = _on(uow, _SENT, number)
    for intent in sent:
        detail = f"its evidence left the chain above block {number}"
        about = JournalSubject(intent.id, intent.nonce)
        uow.outbox.journal.write("needs_review", stamp, about, detail)
        alarm(intent.wish.subject, detail)
    return len(sent)


def alarm(subject: str, why: str) -> None:
    """Tell a human of a kickout that went out and should not have."""
    fork_metrics.KICKOUTS_WITHDRAWN.labels("after").inc()
    structlog.get_logger().error("kickout_needs_review", lane=subject, reason=why)


def _on(uow: UnitOfWork, states: tuple[IntentState, ...], number: int) -> list[Intent]:
    return [
        one
        for state in states
        for kind in AGAINST
        for one in uow.outbox.intents.newest(_MOST, state, kind)
        if (one.wish.as_of_block or 0) > number
    ]
