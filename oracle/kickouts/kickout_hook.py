"""Reviews the kickouts whose evidence a rewind removes.

See tests/faults/sending/cases.toml#f56.
"""

from typing_extensions import override

from oracle.indexer.block_hooks import BlockHook
from oracle.kickouts.kick_calls import report_for_review
from oracle.kickouts.kickout_context import EXPULSION_KINDS
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent, IntentState, JournalSubject, Stamp
from oracle.telemetry import indexer_metrics

_QUEUED_STATES = (IntentState.PLANNED, IntentState.READY, IntentState.ASSIGNED)
_SENT_STATES = (IntentState.LIVE, IntentState.MINED, IntentState.FINAL)
# The maximum number of intents per kind and state that are checked, newest first.
_MAX_INTENTS = 1_000


class KickoutHook(BlockHook):
    """The block hook that reports kickouts sent on evidence that left the chain."""

    @override
    def on_rewind(self, uow: UnitOfWork, ancestor: int, stamp: Stamp) -> None:
        """Report sent calls whose evidence is removed; the rewind itself ends unsent calls."""
        indexer_metrics.KICKOUTS_REVOKED.labels("before").inc(
            len(_find_expulsion_intents(uow, _QUEUED_STATES, ancestor))
        )
        for intent in _find_expulsion_intents(uow, _SENT_STATES, ancestor):
            detail = f"its evidence left the chain above block {ancestor}"
            about = JournalSubject(intent.id, intent.nonce)
            uow.outbox.journal.write("needs_review", stamp, about, detail)
            report_for_review(intent.request.subject, detail)


def _find_expulsion_intents(
    uow: UnitOfWork, states: tuple[IntentState, ...], ancestor: int
) -> list[Intent]:
    return [
        intent
        for state in states
        for kind in EXPULSION_KINDS
        for intent in uow.outbox.intents.list_newest(_MAX_INTENTS, state, kind)
        if (intent.request.as_of_block or 0) > ancestor
    ]
