"""What becomes of kickouts whose evidence left the chain (chain.md 5, case 76).

One that was not sent is cancelled; for one that was, a human hears of it and its proposal is
cancelled on chain (`kicking`).
"""

from oracle.store.outbox_rows import About, Intent, IntentKind, IntentState, Stamp
from oracle.store.store import Unit
from oracle.telemetry import fork_metrics

AGAINST = (IntentKind.PROPOSE_KICK, IntentKind.EXECUTE_KICK)
_SENT = (IntentState.ASSIGNED, IntentState.LIVE, IntentState.MINED)
_MOST = 10_000


def review_sent_kickouts(unit: Unit, number: int, stamp: Stamp) -> int:
    """Mark the calls on their way that rest on blocks above `number`; return how many."""
    sent = [one for one in _sent(unit) if (one.wish.as_of_block or 0) > number]
    for intent in sent:
        detail = f"its evidence left the chain above block {number}"
        about = About(intent.id, intent.nonce)
        unit.outbox.journal.write("needs_review", stamp, about, detail)
    fork_metrics.KICKOUTS_WITHDRAWN.labels("after").inc(len(sent))
    return len(sent)


def _sent(unit: Unit) -> list[Intent]:
    intents = unit.outbox.intents
    return [
        one for state in _SENT for kind in AGAINST for one in intents.newest(_MOST, state, kind)
    ]
