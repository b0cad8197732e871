"""The daemon's statistics jobs: database, outbox and accounts, endpoints, and single nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from oracle.chain.heads import Heads
from oracle.daemon.compose import Index
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import Facts, Job
from oracle.daemon.senders import Senders
from oracle.daemon.sending_jobs import show_pauses
from oracle.errors import TransientError
from oracle.indexer.loop import IngestState
from oracle.queries.contract_view import AccountBalance
from oracle.queries.endpoint_view import refresh_endpoint_views
from oracle.queries.node_series import node_series
from oracle.queries.outbox_figures import OutboxRecount, with_accounts, with_contract
from oracle.queries.stats import DatabaseCount, dispatch_statistics
from oracle.reporting.reporting_context import ReportingContext
from oracle.telemetry import metrics, node_metrics, outbox_metrics
from oracle.telemetry.outbox_counts import OutboxFigures
from oracle.txmgr.context import TxContext

STATISTICS_SECONDS = 10.0
_NODE_METRICS_SECONDS = 30.0


@dataclass(slots=True)
class OutboxStatistics:
    """The outbox figures for `/metrics`; finished entries are counted only once."""

    _rows: OutboxRecount = field(default_factory=OutboxRecount)

    def count(
        self,
        contexts: Mapping[str, TxContext],
        heads: Heads | None,
        reporting: ReportingContext | None,
    ) -> OutboxFigures | None:
        """Count the outbox of these accounts, by role; return None if there are no accounts."""
        first = next(iter(contexts.values()), None)
        if first is None:
            return None
        figures = self._rows.count(first.store, first.stamp.at)
        if heads is not None:
            figures = with_accounts(figures, contexts, heads)
        if reporting is not None:
            figures = with_contract(figures, reporting)
        outbox_metrics.show(figures)
        return figures


@dataclass(slots=True)
class StatisticsJob:
    """Computes the figures of `/metrics`, and stores the endpoints' state for other processes."""

    index: Index
    epoch: int
    senders: Senders
    ingest: IngestState
    health: DaemonHealth
    outbox: OutboxStatistics = field(default_factory=OutboxStatistics)
    _database: DatabaseCount = field(init=False)

    def __post_init__(self) -> None:
        self._database = DatabaseCount(self.index.store, self.index.folder, self.ingest.clock)

    def count(self) -> Facts:
        """Count the database, and store what was learned about the endpoints."""
        transmitter, reporter = self.senders.transmitter, self.senders.reporter
        show_pauses(self.senders, self.health)
        self.health.endpoints = refresh_endpoint_views(self.index.chain, self.index.facts)
        self.index.facts.flush(self.epoch)
        counted = self._database.turn(balance_at(transmitter))
        if counted is not None:
            metrics.show(replace(counted, dispatch=self._count_dispatch()))
        contexts = {tx.role: tx for tx in self.senders.accounts}
        reporting = None if transmitter is None or reporter is None else reporter.reporting
        self.health.counted(self.outbox.count(contexts, self.ingest.heads, reporting))
        return None

    def _count_dispatch(self) -> metrics.DispatchStatistics | None:
        if self.index.dispatch_settings is None:
            return None
        dispatcher = None if self.senders.dispatcher is None else self.senders.dispatcher.tx
        balance = balance_at(dispatcher)
        if dispatcher is not None and balance is not None:
            self.health.dispatcher = AccountBalance(
                address=dispatcher.account.address, balance_wei=balance
            )
        return dispatch_statistics(self.index.store, balance)


def balance_at(context: TxContext | None) -> int | None:
    """Return the balance of the context's account in wei, or None if no endpoint answers.

    The other figures do not wait for a silent endpoint.
    """
    if context is None:
        return None
    try:
        return context.balance()
    except TransientError:
        return None


def node_metrics_job(index: Index) -> Job:
    """Return the job that updates the metrics of single nodes."""

    def tick() -> None:
        max_nodes = index.config.metrics.max_nodes
        node_metrics.show(*node_series(index.store, index.rules, max_nodes))

    return Job("node-metrics", _NODE_METRICS_SECONDS, tick)
