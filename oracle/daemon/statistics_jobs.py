"""The daemon jobs that compute metrics about the database, outbox, accounts and nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from oracle.chain.heads import Heads
from oracle.daemon.compose import Index, serialize_configured_rules
from oracle.daemon.contexts import ReporterContexts
from oracle.daemon.daemon_health import DaemonHealth
from oracle.daemon.scheduler import Job, TickFacts
from oracle.daemon.senders import Senders
from oracle.daemon.sending_jobs import update_pause_reasons
from oracle.daemon.wall_clock import unix_seconds
from oracle.domain.health import Condition
from oracle.errors import TransientError
from oracle.indexer.loop import IngestState
from oracle.queries.contract_view import AccountBalance
from oracle.queries.endpoint_view import refresh_endpoint_views
from oracle.queries.objection_models import count_unanswered_objections
from oracle.queries.outbox_figures import OutboxCounter, add_account_stats, add_contract_stats
from oracle.queries.rules_texts import describe_missing_rules
from oracle.queries.stats import StatisticsCollector, compute_dispatch_statistics, load_node_scores
from oracle.telemetry import indexer_metrics, metrics, outbox_metrics
from oracle.telemetry.outbox_counts import OutboxStatistics
from oracle.txmgr.context import AccountContext

STATISTICS_SECONDS = 10.0
_NODE_METRICS_SECONDS = 30.0
# Smaller offsets are not reported, because servers state their time in whole seconds, and the
# response is already somewhat old when it arrives.
MAX_CLOCK_OFFSET_SECONDS = 30


@dataclass(slots=True)
class StatisticsJob:
    """Computes the statistics for `/metrics`, and stores the states of the endpoints.

    Other processes read the stored state.
    """

    index: Index
    epoch: int
    senders: Senders
    ingest: IngestState
    health: DaemonHealth
    _outbox_counter: OutboxCounter = field(default_factory=OutboxCounter)
    _statistics_collector: StatisticsCollector = field(init=False)

    def __post_init__(self) -> None:
        self._statistics_collector = StatisticsCollector(
            self.index.store, self.index.folder, self.ingest.clock
        )

    def update_statistics(self) -> TickFacts:
        """Update the statistics, and store the facts learned about the endpoints."""
        transmitter, reporter = self.senders.transmitter, self.senders.reporter
        update_pause_reasons(self.senders, self.health)
        self._update_announced_rules()
        self.health.endpoints = refresh_endpoint_views(self.index.chain, self.index.endpoint_facts)
        self._check_system_clock()
        self.index.endpoint_facts.store_endpoint_facts(self.epoch)
        database_counts = self._statistics_collector.collect_statistics(read_balance(transmitter))
        if database_counts is not None:
            metrics.publish_statistics(
                replace(
                    database_counts,
                    dispatch=self._update_dispatch_statistics(),
                    kickouts={**database_counts.kickouts, "objected": self._count_objections()},
                )
            )
        context_by_role = {context.role: context for context in self.senders.account_contexts}
        contract_reader = None if transmitter is None else reporter
        self.health.record_contract_state(
            update_outbox_metrics(
                self._outbox_counter, context_by_role, self.ingest.heads, contract_reader
            )
        )
        return None

    def _check_system_clock(self) -> None:
        """Report a health condition if this machine's clock is wrong.

        Statements and logs depend on the clock.
        """
        offset = self.index.chain.endpoints.compute_clock_offset(unix_seconds())
        if abs(offset) <= MAX_CLOCK_OFFSET_SECONDS:
            self.health.clear_condition(Condition.WRONG_CLOCK)
            return
        direction = "ahead of" if offset > 0 else "behind"
        self.health.set_condition(
            Condition.WRONG_CLOCK,
            f"this machine's clock is {abs(offset):.0f} s {direction} that of every endpoint",
        )

    def _update_announced_rules(self) -> None:
        """Report announced rules that this host lacks, so that the operator adds them in time."""
        config = self.index.config
        configured_text = serialize_configured_rules(config, self.index.reader)
        with self.index.store.read_transaction() as uow:
            missing_rules = describe_missing_rules(
                uow, configured_text, config.rules.announced_folder
            )
        if missing_rules is None:
            self.health.clear_condition(Condition.ANNOUNCED_RULES_MISSING)
        else:
            self.health.set_condition(Condition.ANNOUNCED_RULES_MISSING, missing_rules)

    def _count_objections(self) -> int:
        policy = self.index.archive.kickout_policy
        if policy.objection_terms is None:
            return 0
        with self.index.store.read_transaction() as uow:
            return count_unanswered_objections(uow, policy)

    def _update_dispatch_statistics(self) -> metrics.DispatchStatistics | None:
        if self.index.dispatch_settings is None:
            return None
        dispatcher = (
            None if self.senders.dispatcher is None else self.senders.dispatcher.account_context
        )
        balance_wei = read_balance(dispatcher)
        if dispatcher is not None and balance_wei is not None:
            self.health.dispatcher_balance = AccountBalance(
                address=dispatcher.account.address, balance_wei=balance_wei
            )
        return compute_dispatch_statistics(self.index.store, balance_wei)


def update_outbox_metrics(
    counter: OutboxCounter,
    contexts: Mapping[str, AccountContext],
    heads: Heads | None,
    reporter: ReporterContexts | None,
) -> OutboxStatistics | None:
    """Count the outbox entries of each account, and export the counts as metrics.

    The result is None if there are no accounts. `counter` keeps the counts of finished entries, so
    that they are counted only once.
    """
    first_context = next(iter(contexts.values()), None)
    if first_context is None:
        return None
    stats = counter.compute_outbox_stats(first_context.store, first_context.stamp.at)
    if heads is not None:
        stats = add_account_stats(stats, contexts, heads)
    if reporter is not None:
        stats = add_contract_stats(stats, reporter.reporting, reporter.hot_set)
    outbox_metrics.publish_outbox_stats(stats)
    return stats


def read_balance(context: AccountContext | None) -> int | None:
    """Return the account's balance in wei, or None if no endpoint answers.

    A missing balance must not prevent the other statistics.
    """
    if context is None:
        return None
    try:
        return context.fetch_balance()
    except TransientError:
        return None


def build_node_metrics_job(index: Index) -> Job:
    """Create the job that updates the metrics of individual nodes."""

    def tick() -> None:
        max_nodes = index.config.metrics.max_nodes
        indexer_metrics.publish_node_metrics(
            *load_node_scores(index.store, index.rules, max_nodes)
        )

    return Job("node-metrics", _NODE_METRICS_SECONDS, tick)
