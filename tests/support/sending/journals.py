"""Compares an outbox's journal with the permitted transitions.

See docs/explanation/transactions.md#states and docs/explanation/transactions.md#i15.
"""

from tests.support.harness import Harness

# The states from which an intent may reach a state; entries of other events change no state.
_MAY_FOLLOW: dict[str, set[str | None]] = {
    "planned": {None, "planned", "ready", "assigned", "held"},
    "ready": {"planned"},
    "assigned": {"ready"},
    "live": {"assigned", "mined"},
    # A receipt may be seen before the send is recorded, and again after a reorg.
    "mined": {"assigned", "live", "mined", "superseded"},
    "final": {"mined"},
    "reverted": {"mined"},
    "superseded": {"planned", "ready", "assigned", "live", "mined"},
    "expired": {"planned", "ready", "assigned"},
    "cancelled": {"planned", "ready", "held"},
    "held": {"planned", "ready", "assigned", "live"},
    "rejected": {"planned"},
}


def find_journal_gaps(harness: Harness) -> list[str]:
    """Return the contradictions of the journal: wrong predecessors, and wrong final states."""
    journal_gaps = []
    for intent in harness.intents():
        with harness.store.read_transaction() as uow:
            events = [line.event for line in uow.outbox.journal.list_for_intent(intent.id)]
        state: str | None = None
        for event in events:
            if event in _MAY_FOLLOW:
                if state not in _MAY_FOLLOW[event]:
                    journal_gaps.append(f"{intent.id}: {event} after {state}")
                state = event
        if state != intent.state.value:
            journal_gaps.append(f"{intent.id}: is {intent.state}, its journal says {state}")
    return journal_gaps
