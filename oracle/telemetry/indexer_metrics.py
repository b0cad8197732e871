"""Metrics of indexing: forks, the lease, verification, windows, segments, the feed, and nodes.

The metrics of the feed are zero if no feed is configured. The metrics of single nodes are set only
if `[metrics] nodes` is set. Each node has its own series, so `[metrics] max_nodes` limits the
number of nodes.
"""

from collections.abc import Mapping

from prometheus_client import Counter, Gauge

from oracle.domain.fixed_point import UNIT
from oracle.domain.ids import Address
from oracle.domain.scoring.node_figures import NodeScores
from oracle.telemetry.metrics import REGISTRY

REJECTED = Counter(
    "oracle_reorgs_rejected_total",
    "Forks claimed by one endpoint and rejected: outvoted (denied by the other endpoints) or "
    "recanted (withdrawn).",
    ["reason"],
    registry=REGISTRY,
)
for _reason in ("outvoted", "recanted"):
    # Create each counter at zero, so that alerts see its first increase.
    REJECTED.labels(_reason)
FINALITY_VIOLATION = Gauge(
    "oracle_finality_violation",
    "1 while a finalized block in the database differs from the chain; nothing is folded or sent.",
    registry=REGISTRY,
)
KICKOUTS_REVOKED = Counter(
    "oracle_kickouts_revoked_total",
    "Kickouts whose evidence was removed by a reorg, before or after the call was sent.",
    ["when"],
    registry=REGISTRY,
)
for _when in ("before", "after"):
    KICKOUTS_REVOKED.labels(_when)


HELD = Gauge(
    "oracle_lease_held",
    "1 while this process holds the lease of its database, 0 while it is a standby.",
    registry=REGISTRY,
)
EPOCH = Gauge(
    "oracle_lease_epoch",
    "Epoch of the lease as last read by this process; each new holder raises it by one.",
    registry=REGISTRY,
)
RENEW_FAILURES = Counter(
    "oracle_lease_renew_failures_total",
    "Failed renewals of the lease; the daemon exits if renewals fail for 20 s.",
    registry=REGISTRY,
)


VERIFIED_BLOCKS = Counter(
    "oracle_verified_blocks_total",
    "Blocks read, by verification level reached.",
    ["level"],
    registry=REGISTRY,
)
VERIFY_FAILURES = Counter(
    "oracle_verify_failures_total",
    "Responses that contradict their block header or other logs, by failed check; sender: a "
    "call was signed by another account, or its content differs from the signed transaction.",
    ["check", "endpoint"],
    registry=REGISTRY,
)
MISSING_LOGS = Counter(
    "oracle_verify_missing_logs_total",
    "Logs omitted by an endpoint and recovered by other means.",
    ["endpoint"],
    registry=REGISTRY,
)
LOGS_CUT_OFF = Counter(
    "oracle_endpoint_truncated_responses_total",
    "Times an endpoint silently omitted logs from a response: the endpoint stops at a maximum "
    "count, or its ranges lack logs that single blocks contain.",
    ["endpoint"],
    registry=REGISTRY,
)
UNPROVEN_SENDERS = Counter(
    "oracle_verify_unproven_senders_total",
    "Calls whose sender cannot be proven: unsigned, of an unknown type, or contradicted by all "
    "endpoints. Their blocks do not count as proven.",
    ["endpoint"],
    registry=REGISTRY,
)
DUPLICATE_LOGS = Counter(
    "oracle_duplicate_logs_total",
    "Logs returned twice by an endpoint.",
    ["endpoint"],
    registry=REGISTRY,
)
WRONG_LOG_TIMES = Counter(
    "oracle_log_timestamp_mismatches_total",
    "Logs whose blockTimestamp differs from the block header; the header's time is used. The "
    "log event log_timestamp_mismatch shows both times.",
    ["endpoint"],
    registry=REGISTRY,
)
WINDOW_SPLITS = Counter(
    "oracle_window_splits_total",
    "Block ranges requested in parts, by reason: the kind of the error (too large, slow, cut "
    'off, failed), "may be cut off" (the response may be truncated), "by topic", or for a single '
    'block "one block" (logs from receipts), "one block\'s receipts" and "one block\'s '
    'transactions".',
    ["reason"],
    registry=REGISTRY,
)
WINDOW_BLOCKS = Gauge(
    "oracle_window_blocks", "Blocks in the newest window.", ["endpoint"], registry=REGISTRY
)
SEGMENTS = Counter(
    "oracle_segments_total",
    "Block ranges requested from workers, by outcome: taken (used), recalled (prepared by an "
    "earlier run and used), refused (the writer reads the range itself), lost (the worker died, "
    "hung or returned an invalid result).",
    ["outcome"],
    registry=REGISTRY,
)
for _outcome in ("taken", "recalled", "refused", "lost"):
    # Create each counter at zero, so that alerts see its first increase.
    SEGMENTS.labels(_outcome)
CALIBRATED = Gauge(
    "oracle_chain_calibrated",
    "Whether a header feature of the chain (or signatures: sender) can be used for proofs: 1 "
    "proven by 20 blocks or calls, 0 not known yet, -1 unusable.",
    ["feature"],
    registry=REGISTRY,
)
DEMOTED = Counter(
    "oracle_verification_downgrades_total",
    "Times a proven header feature turned out to be wrong; the feature is tried again after an "
    "hour.",
    ["feature"],
    registry=REGISTRY,
)
WITNESSED_WINDOWS = Counter(
    "oracle_witnessed_windows_total",
    "Backfill windows, by a second endpoint's response for their last block: agreed, disputed, "
    "alone (no second endpoint), unanswered.",
    ["result"],
    registry=REGISTRY,
)
for _result in ("agreed", "disputed", "alone", "unanswered"):
    # Create each counter at zero, so that alerts see its first increase.
    WITNESSED_WINDOWS.labels(_result)
REFUSED = Gauge(
    "oracle_block_refused",
    "1 while a block is rejected because its data contradict each other and no endpoint can "
    "prove them.",
    registry=REGISTRY,
)
BELOW_LEVEL = Gauge(
    "oracle_blocks_below_level",
    "Final blocks that have to be read again, because they are below the level that "
    "verify.history requires and the chain permits. While the value is above 0, nothing is "
    "reported. The value decreases with each window that was read again, unless no endpoint "
    "serves the lowest of these blocks.",
    registry=REGISTRY,
)


FEED_POLLS = Counter(
    "oracle_feed_polls_total",
    "Polls of the feed: taken (stored completely) or failed (no response, or a malformed page).",
    ["result"],
    registry=REGISTRY,
)
for _result in ("taken", "failed"):
    # Create each counter at zero, so that alerts see its first increase.
    FEED_POLLS.labels(_result)
FEED_ROWS = Counter("oracle_feed_rows_total", "Feed rows stored.", registry=REGISTRY)
FEED_UNKNOWN_ROWS = Counter(
    "oracle_feed_unknown_rows_total",
    "Feed rows of unknown kinds: stored, but not folded.",
    registry=REGISTRY,
)
FEED_WAITING_ROWS = Gauge(
    "oracle_feed_waiting_rows",
    "Feed rows stored but not folded yet: within the settling delay, or waiting for the chain's "
    "next block.",
    registry=REGISTRY,
)
FEED_STUCK_SECONDS = Gauge(
    "oracle_feed_stuck_seconds",
    "Seconds since the last successful poll of the feed; 0 without a feed.",
    registry=REGISTRY,
)
FEED_SILENT_SECONDS = Gauge(
    "oracle_feed_silent_seconds",
    "Seconds since the feed's newest row, by the feed's own clock; 0 without a feed.",
    registry=REGISTRY,
)
FEED_OPEN_FAULTS = Gauge(
    "oracle_feed_open_faults",
    "Faults of the feed that no operator has accepted; nothing is published while one is open.",
    registry=REGISTRY,
)
_QOS = Gauge(
    "oracle_node_qos_ratio",
    "QoS (long-term score times reliability) of each node, 0 to 1; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_RELIABILITY = Gauge(
    "oracle_node_reliability_ratio",
    "Short-term reliability of each node, 0 to 1; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_EXCLUDED = Gauge(
    "oracle_node_excluded",
    "1 for each node excluded from selection at present; only with `[metrics] nodes`.",
    ["node"],
    registry=REGISTRY,
)
_LEFT_OUT = Gauge(
    "oracle_node_series_omitted",
    "Members without their own series, because there are more than `[metrics] max_nodes`.",
    registry=REGISTRY,
)
_NODE_GAUGES = (_QOS, _RELIABILITY, _EXCLUDED)


def publish_node_metrics(scores_by_node: Mapping[Address, NodeScores], omitted_count: int) -> None:
    """Set the metric series of these members, and remove those of all other nodes.

    `omitted_count` is the number of members without series.
    """
    for gauge in _NODE_GAUGES:
        shown_nodes = {
            sample.labels["node"] for family in gauge.collect() for sample in family.samples
        }
        for removed_node in shown_nodes - scores_by_node.keys():
            gauge.remove(removed_node)
    for node, node_scores in scores_by_node.items():
        _QOS.labels(node).set((node_scores.qos or 0) / UNIT)
        _RELIABILITY.labels(node).set(node_scores.reliability / UNIT)
        _EXCLUDED.labels(node).set(node_scores.is_excluded)
    _LEFT_OUT.set(omitted_count)
