"""Reviews the kickouts whose evidence a rewind takes away.

See tests/faults/sending/cases.toml#f56.
"""

from typing_extensions import override

from oracle.indexer.block_hooks import BlockHook
from oracle.kickouts.kick_calls import alarm
from oracle.kickouts.kickout_context import AGAINST
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState, JournalSubject, Stamp
from oracle.telemetry import indexer_metrics

_QUEUED = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT = (IntentState.LIVE, IntentState.MINED, IntentState.FINAL)
# The newest of a kind and state that are looked at.
_MOST = 1_000


class KickoutHook(BlockHook):
    """Marks the kickouts that were sent on evidence which left the chain."""

    @override
    def rewound(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        """Mark what was sent and tell a human; the rewind ends what was not."""
        indexer_metrics.KICKOUTS_REVOKED.labels("before").inc(len(_on(uow, _QUEUED, ancestor)))
        for intent in _on(uow, _SENT, ancestor):
            detail = f"its evidence left the chain above block {ancestor}"
            about = JournalSubject(intent.id, intent.nonce)
            uow.outbox.journal.write("needs_review", stamp, about, detail)
            alarm(intent.request.subject, detail)


def _on(uow: UnitOfWork, states: tuple[IntentState, ...], number: int) -> list[Intent]:
    return [
        one
        for state in states
        for kind in AGAINST
        for one in uow.outbox.intents.newest(_MOST, state, kind)
        if (one.request.as_of_block or 0) > number
    ]
