"""Counts what dispatching has to do, for `/metrics`."""

from oracle.store.database import Store
from oracle.store.outbox.records import IntentKind
from oracle.telemetry.metrics import DispatchCensus


def dispatch_census(store: Store, balance_wei: int | None) -> DispatchCensus:
    """Count the waiting tasks and the draws as of the cursor, and the starts that failed."""
    with store.reading() as uow:
        cursor = uow.cursor.get()
        standing = uow.draws.standing()
        oldest = min((draw.seed_block for draw in standing), default=None)
        return DispatchCensus(
            waiting=uow.tasks.count_waiting(),
            standing=len(standing),
            oldest_blocks=0 if oldest is None or cursor is None else cursor.number - oldest,
            failures=uow.outbox.intents.failures(IntentKind.START_TASK),
            balance_wei=balance_wei,
        )
