"""Metrics of sent transactions, computed from the rows of the outbox.

A restart does not change these metrics (docs/explanation/transactions.md#i14,
docs/explanation/daemon.md#metrics).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from oracle.telemetry.metrics import REGISTRY, build_gauge
from oracle.telemetry.outbox_counts import (
    MAX_LAG_ROUNDS,
    AccountStatistics,
    ContractStatus,
    OutboxStatistics,
)

SIMULATIONS = Counter(
    "oracle_txmgr_simulations_total",
    "Simulations of calls before they are signed, by result.",
    ["kind", "result"],
    registry=REGISTRY,
)


class _OutboxCollector(Collector):
    def __init__(self) -> None:
        self.stats: OutboxStatistics | None = None

    @override
    def collect(self) -> Iterable[Metric]:
        stats = self.stats
        if stats is None:
            return
        yield from _collect_nonce_metrics(stats)
        yield build_gauge(
            "oracle_txmgr_intent_age_seconds",
            "Age of the oldest call in a state, in seconds.",
            ("kind", "state"),
            stats.ages,
        )
        yield _build_counters(
            "oracle_txmgr_attempts",
            "Transactions signed, by reason: first, bump, replacement, noop.",
            ("kind", "reason"),
            stats.attempts,
        )
        yield build_gauge(
            "oracle_kickout_calls",
            "Kickouts on chain, by state: none, accused, recovered, vetoed, expelled, refused "
            "(by the network), readmitted.",
            ("state",),
            {(state,): count for state, count in stats.kickouts.items()},
        )
        yield GaugeMetricFamily(
            "oracle_quorum_statements_abandoned",
            "Statements that could still land but have used all their attempts.",
            value=stats.abandoned_statements,
        )
        yield from _collect_account_metrics(stats.accounts)
        if stats.contract is not None:
            yield from _collect_contract_metrics(stats.contract)
        if stats.rules_agree is not None:
            yield GaugeMetricFamily(
                "oracle_report_rules_agree",
                "0 if the contract has another rules hash than this reporter, else 1.",
                value=int(stats.rules_agree),
            )
        if stats.report_nodes is not None and stats.report_deviation is not None:
            yield from _collect_report_metrics(stats.report_nodes, stats.report_deviation)
        if stats.heartbeat_seconds is not None:
            yield GaugeMetricFamily(
                "oracle_report_heartbeat_seconds",
                "Value of oracle.heartbeat_seconds, for alerts.",
                value=stats.heartbeat_seconds,
            )


def _collect_nonce_metrics(stats: OutboxStatistics) -> Iterator[Metric]:
    yield _build_counters(
        "oracle_txmgr_transactions_final",
        "Finalized nonces, by outcome: success, reverted, superseded (by another call of this "
        "daemon), foreign. Recounted from the database at every start.",
        ("kind", "outcome"),
        stats.outcomes,
    )
    for name, text, counts in (
        ("oracle_txmgr_gas_used", "Gas used by finalized transactions.", stats.gas),
        ("oracle_txmgr_spend_wei", "Fees paid for finalized transactions, in wei.", stats.wei),
    ):
        yield _build_counters(
            name, text, ("kind",), {(kind,): count for kind, count in counts.items()}
        )
    for name, text, counts_by_kind in (
        (
            "oracle_txmgr_time_to_mined_seconds",
            "Seconds from the assignment of the nonce to the receipt.",
            stats.to_mined,
        ),
        (
            "oracle_txmgr_time_to_final_seconds",
            "Seconds from the assignment of the nonce to finality.",
            stats.to_final,
        ),
        (
            "oracle_txmgr_blocks_to_mined",
            "Blocks from the assignment of the nonce to the receipt.",
            stats.blocks,
        ),
        (
            "oracle_txmgr_bumps_per_transaction",
            "Attempts of a nonce after the first: fee bumps, replacements, no-ops.",
            stats.bumps,
        ),
    ):
        metric_family = HistogramMetricFamily(name, text, labels=["kind"])
        for kind, bucket_counts in sorted(counts_by_kind.items()):
            metric_family.add_metric(
                [kind], list(bucket_counts.iterate_cumulative_buckets()), bucket_counts.value_sum
            )
        yield metric_family


def _collect_account_metrics(accounts: Mapping[str, AccountStatistics]) -> Iterator[Metric]:
    for name, text, get_value in _ACCOUNT_GAUGES:
        value_by_labels = {(role,): get_value(account) for role, account in accounts.items()}
        known_values = {
            labels: value for labels, value in value_by_labels.items() if value is not None
        }
        yield build_gauge(name, text, ("account",), known_values)
    yield build_gauge(
        "oracle_txmgr_paused",
        "1 for each account that is paused and sends nothing, by reason.",
        ("account", "kind"),
        {
            (role, account.pause_kind): 1
            for role, account in accounts.items()
            if account.pause_kind is not None
        },
    )


# (Name, description, getter) of each gauge. The getter returns None while the value is unknown.
_ACCOUNT_GAUGES: tuple[tuple[str, str, Callable[[AccountStatistics], float | None]], ...] = (
    ("oracle_txmgr_nonce_next", "Nonce of the next call.", lambda a: a.next_nonce),
    (
        "oracle_txmgr_nonce_chain_latest",
        "Nonces used at the newest block.",
        lambda a: a.latest_chain_nonce,
    ),
    (
        "oracle_txmgr_nonce_chain_finalized",
        "Nonces used at the finalized block.",
        lambda a: a.final_chain_nonce,
    ),
    (
        "oracle_txmgr_nonce_gap",
        "Nonces below an assigned nonce that no transaction of the daemon uses.",
        lambda a: a.nonce_gap,
    ),
    (
        "oracle_txmgr_nonces_open",
        "Nonces assigned and not yet finalized.",
        lambda a: a.open_nonces,
    ),
    ("oracle_txmgr_balance_wei", "Balance of the account, in wei.", lambda a: a.balance_wei),
    (
        "oracle_txmgr_reserved_wei",
        "Maximum remaining cost of open nonces, in wei.",
        lambda a: a.reserved_wei,
    ),
    (
        "oracle_txmgr_runway_seconds",
        "Seconds that the balance lasts at the last day's rate of spending.",
        lambda a: a.runway_seconds,
    ),
)


def _collect_contract_metrics(contract: ContractStatus) -> Iterator[Metric]:
    for name, text, value in (
        (
            "oracle_report_round_on_chain",
            "Round of the contract at the newest block.",
            contract.round,
        ),
        (
            "oracle_report_asof_lag_blocks",
            "Blocks from the last report's block to the head.",
            contract.as_of_lag_blocks,
        ),
        (
            "oracle_report_contract_paused_until",
            "Unix time until which the contract is paused.",
            contract.paused_until,
        ),
        (
            "oracle_kickout_paused",
            "1 while the contract accepts no kickouts.",
            int(contract.kicks_paused),
        ),
        (
            "oracle_kickout_tokens",
            "Kickouts that the contract's rate limit still permits.",
            contract.kick_tokens,
        ),
    ):
        yield GaugeMetricFamily(name, text, value=value)
    if contract.hot_set_lag is not None:
        yield GaugeMetricFamily(
            "oracle_hot_set_rounds_behind",
            "Newest rounds of which the hot set lacks a word; "
            f"{MAX_LAG_ROUNDS} means {MAX_LAG_ROUNDS} or more.",
            value=contract.hot_set_lag.rounds_behind,
        )
        yield GaugeMetricFamily(
            "oracle_hot_set_words_left",
            "Words of the hot set (scores of 16 nodes) that the last round would change.",
            value=contract.hot_set_lag.words_left,
        )


def _collect_report_metrics(node_count: int, deviation: int) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "oracle_report_changed_nodes",
        "Nodes whose score differs from the last round in the newest report.",
        value=node_count,
    )
    yield GaugeMetricFamily(
        "oracle_report_deviation_max",
        "Largest QoS difference between the newest report and the chain, in units of 0.0001.",
        value=deviation,
    )


def _build_counters(
    name: str, description: str, labels: tuple[str, ...], values: Mapping[Any, float]
) -> Metric:
    metric_family = CounterMetricFamily(name, description, labels=list(labels))
    for label_values, value in sorted(values.items()):
        metric_family.add_metric(label_values, value)
    return metric_family


_COLLECTOR = _OutboxCollector()
REGISTRY.register(_COLLECTOR)


def publish_outbox_stats(stats: OutboxStatistics | None) -> None:
    """Set the outbox metrics exported by `/metrics`; None removes them."""
    _COLLECTOR.stats = stats
