"""Counts the outcomes of all sent transactions, for `/metrics`.

The outcomes of nonces below the lowest open nonce never change, so they are counted once and their
counts are kept. The other nonces are counted again each time, so the cost of a count depends on
the number of open nonces. After a restart, everything is counted again. See
docs/explanation/daemon.md#metrics.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from oracle.chain.heads import Heads
from oracle.domain.ids import ZERO_HASH, Hash
from oracle.domain.reports.node_kicks import KickState, NodeKick
from oracle.errors import TransientError
from oracle.hot_set.hot_set_context import HotSetContext
from oracle.queries.contract_view import build_contract_status
from oracle.reporting.push_call import MAX_TRIES, find_abandoned_pushes
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import Store, UnitOfWork
from oracle.store.outbox.records import CALL_KINDS, Account, Intent
from oracle.telemetry.logger import get_logger
from oracle.telemetry.outbox_counts import AccountStatistics, OutboxStatistics
from oracle.txmgr.budget import compute_runway_seconds, update_budget_metrics
from oracle.txmgr.client.receipts import fetch_transaction_count
from oracle.txmgr.context import AccountContext

_OUTCOMES = ("success", "reverted", "superseded", "foreign")


@dataclass(slots=True)
class OutboxCounter:
    """Counts the outbox rows, and caches the counts of nonces that can no longer change."""

    _final_stats: OutboxStatistics = field(default_factory=OutboxStatistics)
    _final_below: dict[Account, int] = field(default_factory=dict)
    # Digests of abandoned statements that were already logged.
    _logged_digests: frozenset[Hash | None] = frozenset()

    def compute_outbox_stats(self, store: Store, now: int) -> OutboxStatistics:
        """Count the outbox rows, and return the metrics.

        `now` is in unix seconds. No endpoint is queried.
        """
        with store.read_transaction() as uow:
            accounts = uow.outbox.counts.get_nonce_progress_by_account()
            for account, (_, lowest_open) in accounts.items():
                counted_below = self._final_below.get(account, 0)
                uow.outbox.counts.add_finished_nonces(
                    self._final_stats, account, counted_below, lowest_open
                )
                self._final_below[account] = max(counted_below, lowest_open)
            stats = self._final_stats.copy_nonce_counters()
            for account, (next_nonce, lowest_open) in accounts.items():
                uow.outbox.counts.add_finished_nonces(stats, account, lowest_open, next_nonce)
            superseded_count_by_kind = uow.outbox.counts.count_superseded_calls_by_kind()
            stats.outcomes.update(
                {(kind, "superseded"): count for kind, count in superseded_count_by_kind.items()}
            )
            for kind, outcome in product(CALL_KINDS, _OUTCOMES):
                stats.outcomes.setdefault((kind, outcome), 0)
            oldest_times = uow.outbox.counts.get_oldest_update_times()
            stats.ages = {
                kind_and_state: max(0, now - oldest_time)
                for kind_and_state, oldest_time in oldest_times.items()
            }
            stats.attempts = uow.outbox.counts.count_attempts_by_kind_and_reason()
            stats.kickouts = _count_kickouts_by_state(uow.rounds.list_kicks())
            _add_report_change_stats(stats, uow)
            abandoned_pushes = find_abandoned_pushes(uow)
            self._log_abandoned_statements(abandoned_pushes)
            stats.abandoned_statements = len(abandoned_pushes)
            return stats

    def _log_abandoned_statements(self, abandoned_pushes: list[Intent]) -> None:
        for push in abandoned_pushes:
            if push.request.digest not in self._logged_digests:
                get_logger().error(
                    "statement_abandoned",
                    round=push.request.round,
                    period=push.request.period,
                    digest=push.request.digest,
                    tries=MAX_TRIES,
                    last=push.error_text or push.state.value,
                    until=push.request.deadline,
                    act="its round was accepted and then removed by reorgs: `endpoint probe` shows"
                    " which endpoint is on another fork; the next statement follows after `until`",
                )
        self._logged_digests = frozenset(push.request.digest for push in abandoned_pushes)


def add_account_stats(
    stats: OutboxStatistics, contexts: Mapping[str, AccountContext], heads: Heads
) -> OutboxStatistics:
    """Return `stats` with the figures of each account added, keyed by role.

    Values that are read from the chain are left out if no endpoint responds.
    """
    return replace(
        stats,
        accounts={role: _load_account_stats(context, heads) for role, context in contexts.items()},
    )


def add_contract_stats(
    stats: OutboxStatistics, context: ReportingContext, hot_set: HotSetContext | None = None
) -> OutboxStatistics:
    """Return `stats` with the oracle contract's state added, if an endpoint responds.

    `hot_set` is None if no hot set is kept.
    """
    heartbeat_seconds = context.report_settings.heartbeat_seconds
    try:
        contract_status = context.quorum.fetch_contract_status()
        hot_set_lag = None if hot_set is None else hot_set.measure_lag(contract_status.block)
    except TransientError:
        return replace(stats, heartbeat_seconds=heartbeat_seconds)
    return replace(
        stats,
        contract=build_contract_status(contract_status, hot_set_lag),
        rules_agree=contract_status.rules_hash in {context.rules_hash, ZERO_HASH},
        heartbeat_seconds=heartbeat_seconds,
    )


def _load_account_stats(context: AccountContext, heads: Heads) -> AccountStatistics:
    account, pool_view, now = context.account, context.sender_account.pool_view, context.stamp.at
    with context.store.read_transaction() as uow:
        next_nonce = uow.outbox.accounts.find_next_nonce(account) or 0
        pause = uow.outbox.accounts.find_pause(account)
        # The budget is exported every time, because it changes over time even if nothing is sent.
        update_budget_metrics(uow, context)
        account_statistics = AccountStatistics(
            pause_kind=None if pause is None else pause.kind.value,
            next_nonce=next_nonce,
            open_nonces=uow.outbox.counts.count_unfinished_nonces_by_account().get(
                account.address, 0
            ),
            reserved_wei=uow.outbox.slots.sum_reserved_wei(account),
        )
    try:
        balance = context.fetch_balance()
        latest_count = fetch_transaction_count(pool_view, account.address, "latest")
        final_count = fetch_transaction_count(pool_view, account.address, hex(heads.final.number))
    except TransientError:
        return account_statistics
    with context.store.read_transaction() as uow:
        runway_seconds = compute_runway_seconds(uow, account, balance, now)
    return replace(
        account_statistics,
        latest_chain_nonce=latest_count,
        final_chain_nonce=final_count,
        balance_wei=balance,
        runway_seconds=runway_seconds,
    )


def _count_kickouts_by_state(kicks: list[NodeKick]) -> dict[str, int]:
    count_by_state = Counter(kick.state.value for kick in kicks)
    return {state.value: count_by_state[state.value] for state in KickState}


def _add_report_change_stats(stats: OutboxStatistics, uow: UnitOfWork) -> None:
    """Add the size of the newest report's changes since the previous round."""
    newest_reports = uow.reports.list_newest(1)
    if newest_reports:
        report_change = newest_reports[0].report.change
        stats.report_nodes, stats.report_deviation = (
            report_change.node_count,
            report_change.max_steps,
        )
