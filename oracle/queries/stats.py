"""Computes statistics for `/metrics` from database rows, and the scores of individual nodes."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from oracle.dispatch.dispatch_calls import STARTS
from oracle.dispatch.downloads import find_pending_downloads
from oracle.domain.ids import Address
from oracle.domain.reports.kickout_policy import KickoutPolicy
from oracle.domain.scoring.legacy_factors import compute_population_maxima
from oracle.domain.scoring.node_figures import NodeScores, compute_node_scores
from oracle.domain.scoring.rules import Rules
from oracle.domain.state import Membership
from oracle.indexer.folder import EventFolder
from oracle.queries.status import compute_index_statistics
from oracle.rpc.background import BackgroundCall
from oracle.store.database import Store, UnitOfWork
from oracle.systems.crynux.predownload import list_download_requests
from oracle.telemetry import integrity_metrics
from oracle.telemetry.integrity_metrics import IntegrityStatistics
from oracle.telemetry.metrics import DispatchStatistics, IndexStatistics

# Maximum time that a poll waits for a result. If the count takes longer, a later poll collects its
# result. The first poll waits longer, because `/metrics` has no values before it.
_FIRST_WAIT_SECONDS, _WAIT_SECONDS = 2.0, 0.05
# The pause after a count is this many times as long as the count. With many nodes and years of
# coverage, a count takes seconds of CPU time, which indexing needs as well.
_BACKOFF_FACTOR = 20


_Statistics = tuple[IndexStatistics | None, IntegrityStatistics | None]


@dataclass(slots=True)
class StatisticsCollector:
    """Counts rows on a background thread, and pauses longer after a slow count.

    `clock` returns monotonic seconds.
    """

    store: Store
    folder: EventFolder
    clock: Callable[[], float]
    _background_call: BackgroundCall[_Statistics] = field(
        default_factory=lambda: BackgroundCall(_FIRST_WAIT_SECONDS)
    )
    _started_at: float = 0.0
    _next_start: float = 0.0

    def collect_statistics(self, balance_wei: int | None) -> IndexStatistics | None:
        """Start a count if one is due, and return statistics finished since the last call.

        Integrity statistics are exported here. The caller exports the returned index statistics,
        which include `balance_wei`.

        Raises:
            TransientError: the database cannot be read.
        """
        if not self._background_call.is_pending:
            if self.clock() < self._next_start:
                return None
            self._started_at = self.clock()
            self._background_call.start(
                lambda: self._compute_statistics(balance_wei), "statistics"
            )
        finished_call = self._background_call.take_finished_call()
        self._background_call.wait_seconds = _WAIT_SECONDS
        if finished_call is None:
            return None
        now = self.clock()
        self._next_start = now + _BACKOFF_FACTOR * (now - self._started_at)
        index_statistics, integrity = finished_call.result()
        if integrity is not None:
            integrity_metrics.publish_statistics(integrity)
        return index_statistics

    def _compute_statistics(self, balance_wei: int | None) -> _Statistics:
        policy = KickoutPolicy(self.folder.rules, self.folder.reader.holds_kickouts)
        index_statistics = compute_index_statistics(self.store, policy, balance_wei)
        return index_statistics, compute_integrity_statistics(self.store, self.folder)


def compute_dispatch_statistics(store: Store, balance_wei: int | None) -> DispatchStatistics:
    """Count the waiting tasks, the draws as of the cursor, and the failed starts."""
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        active_draws = uow.draws.list_active()
        oldest_seed_block = min((draw.seed_block for draw in active_draws), default=None)
        return DispatchStatistics(
            waiting_tasks=uow.tasks.count_waiting(),
            pending_assignments=len(active_draws),
            oldest_blocks=0
            if oldest_seed_block is None or cursor is None
            else cursor.number - oldest_seed_block,
            failures_by_reason=uow.outbox.intents.count_failures_by_reason(STARTS),
            downloads_by_state=_count_downloads(uow, 0 if cursor is None else cursor.time),
            balance_wei=balance_wei,
        )


def _count_downloads(uow: UnitOfWork, time: int) -> Counter[str]:
    """Count the last day's download requests by state."""
    request_states = (
        state
        for node in uow.nodes.list_with_requested_downloads()
        for _, state in list_download_requests(node, time)
    )
    return Counter({"planned": len(find_pending_downloads(uow))}) + Counter(request_states)


def compute_integrity_statistics(store: Store, folder: EventFolder) -> IntegrityStatistics | None:
    """Compute integrity statistics in one snapshot, or return None if nothing is indexed."""
    scope_id = folder.scope.id
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        identity = uow.identity.get()
        if cursor is None or identity is None:
            return None
        block_count_by_level = uow.coverage.count_blocks_by_level(scope_id)
        return IntegrityStatistics(
            block_count_by_level=block_count_by_level,
            audited_blocks=uow.coverage.count_audited_blocks(scope_id),
            uncovered_blocks=max(
                0, cursor.number - identity.start_block + 1 - sum(block_count_by_level.values())
            ),
            dead_letters=uow.dead_letters.count_open(),
            suspect_blocks=uow.facts.quarantine.count_suspect_blocks(scope_id),
        )


def load_node_scores(
    store: Store, rules: Rules, max_nodes: int
) -> tuple[dict[Address, NodeScores], int]:
    """Return the scores of up to `max_nodes` members, and how many members are omitted.

    The members with the most scores are chosen, because their order changes slowly, which keeps
    the metric series stable.
    """
    with store.read_transaction() as uow:
        cursor = uow.cursor.get()
        nodes = uow.nodes.iterate_all() if cursor is not None else iter(())
        members = [node for node in nodes if node.membership is Membership.MEMBER]
    if cursor is None:
        return {}, 0
    population_maxima = compute_population_maxima(members, cursor.time, rules)
    top_members = sorted(members, key=lambda node: (-node.scored, node.address))[:max_nodes]
    scores_by_node = {
        node.address: compute_node_scores(node, cursor.time, rules, population_maxima)
        for node in top_members
    }
    return scores_by_node, len(members) - len(top_members)
