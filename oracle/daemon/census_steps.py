"""The part of the census that is about what we send: rows, accounts, the contract."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.chain.heads import Heads
from oracle.errors import TransientError
from oracle.queries.outbox_figures import OutboxCensus, with_accounts, with_contract
from oracle.telemetry import outbox_metrics
from oracle.telemetry.outbox_metrics import OutboxFigures
from oracle.txmgr.context import TxContext


@dataclass(slots=True)
class OutboxStatistics:
    """Counts for `/metrics`; remembers what is over for good."""

    _rows: OutboxCensus = field(default_factory=OutboxCensus)

    def count(
        self, contexts: Mapping[str, TxContext], heads: Heads | None
    ) -> OutboxFigures | None:
        """Look once; `desks` by role: `transmitter`, `dispatcher`. None of them: tell nothing."""
        first = next(iter(contexts.values()), None)
        if first is None:
            return None
        figures = self._rows.count(first.store, first.stamp.at)
        if heads is not None:
            figures = with_accounts(figures, contexts, heads)
        if "transmitter" in contexts:
            figures = with_contract(figures, contexts["transmitter"])
        outbox_metrics.show(figures)
        return figures


def balance_at(context: TxContext | None) -> int | None:
    """Return what the desk's account has, in wei; None: nobody tells now.

    What else is counted does not wait for an endpoint that is silent.
    """
    if context is None:
        return None
    try:
        return context.balance()
    except TransientError:
        return None
