"""The daemon's base metrics, and the registry of all metrics (docs/reference/metrics.md).

Metric names begin with `oracle_` and values are in base units. Labels have a bounded number of
values, so a label never is a node, an address or a hash. Values that are not in the database are
counted where they arise. All other values are counted from the database, so that a restart does
not change them. These are published together (`IndexStatistics`, `OutboxStatistics`), and a scrape
reads them from memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from oracle import __version__
from oracle.telemetry.outbox_counts import BucketCounts

# Creation times are disabled. They would double the number of series, and nothing uses them.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations

REGISTRY = CollectorRegistry()

BLOCK = Gauge(
    "oracle_block_number",
    "Newest block by state; folded is the last block in the database.",
    ["state"],
    registry=REGISTRY,
)
LAG_BLOCKS = Gauge(
    "oracle_lag_blocks", "Blocks from the folded block to the head.", registry=REGISTRY
)
LAG_SECONDS = Gauge(
    "oracle_lag_seconds",
    "Block time from the folded block to the head, in seconds.",
    registry=REGISTRY,
)
EVENTS = Counter("oracle_events_total", "Events folded.", ["kind"], registry=REGISTRY)
LOGS = Counter("oracle_logs_total", "Logs written to the database.", registry=REGISTRY)
REORGS = Counter(
    "oracle_reorgs_total", "Reorgs for which the index was rewound.", registry=REGISTRY
)
REORG_DEPTH = Histogram(
    "oracle_reorg_depth_blocks",
    "Blocks rewound by a reorg.",
    buckets=(1, 2, 3, 5, 8, 13, 21, 34, 64),
    registry=REGISTRY,
)

_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
RPC_SECONDS = Histogram(
    "oracle_rpc_seconds",
    "Duration of a JSON-RPC request, successful or failed; a batch counts once.",
    ["method"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
RPC_CALLS = Counter("oracle_rpc_calls_total", "JSON-RPC calls.", ["method"], registry=REGISTRY)
RPC_ERRORS = Counter(
    "oracle_rpc_errors_total", "Failed JSON-RPC calls.", ["method"], registry=REGISTRY
)
FOLD_SECONDS = Histogram(
    "oracle_fold_seconds", "Duration of folding one window.", buckets=_FAST, registry=REGISTRY
)
COMMIT_SECONDS = Histogram(
    "oracle_commit_seconds",
    "Duration of writing and committing one window.",
    buckets=_FAST,
    registry=REGISTRY,
)
STEP_SECONDS = Histogram(
    "oracle_step_seconds",
    "Duration of one tick of a daemon step.",
    ["step"],
    buckets=(*_FAST, 10, 30),
    registry=REGISTRY,
)
STEP_DONE = Gauge(
    "oracle_step_last_success_timestamp_seconds",
    "Unix time of the last successful tick of a step.",
    ["step"],
    registry=REGISTRY,
)
STEP_FAILURES = Counter(
    "oracle_step_failures_total",
    "Failed ticks of a step; each is retried.",
    ["step"],
    registry=REGISTRY,
)
_BUILD = Gauge(
    "oracle_build_info",
    "Always 1. Labels: version, rules (hash, equal for all reporters of one contract), dry_run "
    "(1: no report is sent).",
    ["version", "rules", "dry_run"],
    registry=REGISTRY,
)
STARTED = Gauge("oracle_start_time_seconds", "Unix time of the daemon's start.", registry=REGISTRY)

# States of a request to download a model.
DOWNLOAD_STATES = ("planned", "open", "answered", "unanswered")
# Upper bounds of histogram buckets, as shares of the best possible value.
SHARE_BOUNDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class DispatchStatistics:
    """Dispatch statistics as of one folded block.

    `oldest_blocks` is the number of blocks since the oldest pending assignment, or 0 if there is
    none. `failures_by_reason` counts the task starts that failed. `downloads_by_state` counts the
    download requests of the last day. `balance_wei` is None while unknown.
    """

    waiting_tasks: int = 0
    pending_assignments: int = 0
    oldest_blocks: int = 0
    failures_by_reason: Mapping[str, int] = field(default_factory=dict)
    downloads_by_state: Mapping[str, int] = field(default_factory=dict)
    balance_wei: int | None = None


def count_shares(shares: Iterable[float] = ()) -> BucketCounts:
    """Count shares from 0 to 1 in buckets with the upper bounds `SHARE_BOUNDS`."""
    return BucketCounts.from_values(SHARE_BOUNDS, shares)


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Statistics computed from the database as of one folded block.

    `nodes` are counts by status, `outbox` are counts by (kind, state), and `kickouts` are counts
    by state: `due`, `held` and `objected` (which are also due), and `done`. The three
    distributions have one share per member. `round_age` is in seconds of block time, and None
    before the first round. `balance_wei` is None while unknown; `dispatch` is None if dispatching
    is off.
    """

    nodes: Mapping[str, int] = field(default_factory=dict)
    excluded: int = 0
    long_term: BucketCounts = field(default_factory=count_shares)
    reliability: BucketCounts = field(default_factory=count_shares)
    qos: BucketCounts = field(default_factory=count_shares)
    kickouts: Mapping[str, int] = field(default_factory=dict)
    round: int = 0
    round_age: int | None = None
    outbox: Mapping[tuple[str, str], int] = field(default_factory=dict)
    anomalies: int = 0
    balance_wei: int | None = None
    dispatch: DispatchStatistics | None = None


class _StatisticsCollector(Collector):
    """Exports the last published statistics, or nothing if none were published."""

    def __init__(self) -> None:
        self.statistics: IndexStatistics | None = None

    @override
    def collect(self) -> Iterable[Metric]:
        statistics = self.statistics
        if statistics is None:
            return
        yield build_gauge(
            "oracle_nodes",
            "Nodes by status.",
            ["status"],
            _convert_keys_to_label_tuples(statistics.nodes),
        )
        yield GaugeMetricFamily(
            "oracle_excluded_nodes",
            "Members excluded from selection.",
            value=statistics.excluded,
        )
        yield _build_histogram(
            "oracle_long_term_ratio", "the long-term score", statistics.long_term
        )
        yield _build_histogram("oracle_reliability_ratio", "reliability", statistics.reliability)
        yield _build_histogram("oracle_qos_ratio", "QoS", statistics.qos)
        yield build_gauge(
            "oracle_kickouts",
            "Kickouts, by state: due, held (a due kickout that waits for an operator), objected "
            "(a due kickout whose objection waits for an answer), done (nodes that were kicked "
            "out).",
            ["state"],
            _convert_keys_to_label_tuples(statistics.kickouts),
        )
        yield GaugeMetricFamily("oracle_round", "Last accepted round.", value=statistics.round)
        if statistics.round_age is not None:
            yield GaugeMetricFamily(
                "oracle_round_age_seconds",
                "Age of the last accepted round, in seconds of block time.",
                value=statistics.round_age,
            )
        yield build_gauge(
            "oracle_outbox_intents",
            "Calls in the outbox, by kind and state.",
            ["kind", "state"],
            statistics.outbox,
        )
        yield CounterMetricFamily(
            "oracle_anomalies",
            "Events that broke a rule and were skipped.",
            value=statistics.anomalies,
        )
        if statistics.balance_wei is not None:
            yield GaugeMetricFamily(
                "oracle_transmitter_balance_wei",
                "Balance of the transmitter, in wei.",
                value=statistics.balance_wei,
            )
        if statistics.dispatch is not None:
            yield from _collect_dispatch_metrics(statistics.dispatch)


def _collect_dispatch_metrics(statistics: DispatchStatistics) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "oracle_tasks_waiting",
        "With [dispatch]: tasks that were created and have neither started nor ended.",
        value=statistics.waiting_tasks,
    )
    yield GaugeMetricFamily(
        "oracle_draws_active",
        "With [dispatch]: tasks with a drawn node that has not started them yet.",
        value=statistics.pending_assignments,
    )
    yield GaugeMetricFamily(
        "oracle_draws_oldest_blocks",
        "With [dispatch]: blocks since the oldest pending draw; 0 without one.",
        value=statistics.oldest_blocks,
    )
    failures = CounterMetricFamily(
        "oracle_starts_failed",
        "With [dispatch]: failed task starts, by reason; a start with reason overtaken cost no "
        "gas.",
        labels=["reason"],
    )
    # The series starts at zero, so that alerts see the first increase.
    for reason, count in sorted({"reverted": 0, **statistics.failures_by_reason}.items()):
        failures.add_metric([reason], count)
    yield failures
    yield build_gauge(
        "oracle_download_requests",
        "With [dispatch]: model download requests of the last 86,400 seconds of block time: "
        "planned (not on chain yet), open, answered (the node has the model), unanswered "
        "(deadline passed).",
        ["state"],
        _convert_keys_to_label_tuples(
            {**dict.fromkeys(DOWNLOAD_STATES, 0), **statistics.downloads_by_state}
        ),
    )
    if statistics.balance_wei is not None:
        yield GaugeMetricFamily(
            "oracle_dispatcher_balance_wei",
            "Balance of the dispatcher, in wei.",
            value=statistics.balance_wei,
        )


_COLLECTOR = _StatisticsCollector()
REGISTRY.register(_COLLECTOR)


def publish_statistics(statistics: IndexStatistics | None) -> None:
    """Set the statistics exported by `/metrics`; None removes their series."""
    _COLLECTOR.statistics = statistics


def set_build_info(rules_hash: str, *, is_dry_run: bool) -> None:
    """Set the build metric, including the rules hash that contracts and reporters compare."""
    _BUILD.clear()
    _BUILD.labels(__version__, rules_hash, str(int(is_dry_run))).set(1)


def render_metrics(accept_header: str = "") -> tuple[bytes, str]:
    """Return all metrics as text with their media type.

    The database is not read. If the client accepts it, as Prometheus does, the format is
    OpenMetrics, which has exemplars. Otherwise it is the Prometheus text format.
    """
    encode, media_type = choose_encoder(accept_header)
    return encode(REGISTRY), media_type


def _convert_keys_to_label_tuples(counts: Mapping[str, int]) -> dict[tuple[str, ...], int]:
    return {(label,): count for label, count in counts.items()}


def build_gauge(
    name: str, description: str, labels: Sequence[str], values: Mapping[Any, float]
) -> Metric:
    """Build a gauge with one sample for each tuple of label values."""
    metric_family = GaugeMetricFamily(name, description, labels=list(labels))
    for label_values, value in sorted(values.items()):
        metric_family.add_metric(label_values, value)
    return metric_family


def _build_histogram(name: str, description: str, bucket_counts: BucketCounts) -> Metric:
    """Build a histogram of current values, whose buckets can also decrease."""
    metric_family = HistogramMetricFamily(
        name, f"Distribution of {description} over the members, 0 to 1."
    )
    metric_family.add_metric(
        [], list(bucket_counts.iterate_cumulative_buckets()), bucket_counts.value_sum
    )
    return metric_family
