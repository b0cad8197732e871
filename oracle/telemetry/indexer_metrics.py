"""Metrics of indexing: forks, the lease, verification, windows and segments."""

from prometheus_client import Counter, Gauge

from oracle.telemetry.metrics import REGISTRY

REJECTED = Counter(
    "oracle_reorgs_rejected_total",
    "Forks that an endpoint claimed and the others denied, by how that was found.",
    ["reason"],
    registry=REGISTRY,
)
for _reason in ("outvoted", "recanted"):
    # Initialise to zero, so that alerts see the first increase.
    REJECTED.labels(_reason)
FINALITY_VIOLATION = Gauge(
    "oracle_finality_violation",
    "1 while a final block of ours is not the chain's: nothing is folded or sent.",
    registry=REGISTRY,
)
KICKOUTS_REVOKED = Counter(
    "oracle_kickouts_revoked_total",
    "Kickout calls whose evidence left the chain: before they were sent, or after.",
    ["when"],
    registry=REGISTRY,
)
for _when in ("before", "after"):
    KICKOUTS_REVOKED.labels(_when)


HELD = Gauge(
    "oracle_lease_held",
    "1 while this process holds the lease of its database, 0 while it stands by.",
    registry=REGISTRY,
)
EPOCH = Gauge(
    "oracle_lease_epoch",
    "Number of the lease, as this process saw it last; every new holder raises it by one.",
    registry=REGISTRY,
)
RENEW_FAILURES = Counter(
    "oracle_lease_renew_failures_total",
    "Renewals of the lease that failed; after 20 s of nothing else the daemon ends.",
    registry=REGISTRY,
)


VERIFIED_BLOCKS = Counter(
    "oracle_verified_blocks_total",
    "Blocks read, by the level of proof that each has reached.",
    ["level"],
    registry=REGISTRY,
)
VERIFY_FAILURES = Counter(
    "oracle_verify_failures_total",
    "Answers that contradict their block's header or other logs, by what contradicts;"
    " sender: a call was signed by another account, or says something else than what "
    "was signed.",
    ["check", "endpoint"],
    registry=REGISTRY,
)
MISSING_LOGS = Counter(
    "oracle_verify_missing_logs_total",
    "Logs that an endpoint left out, and that were found all the same.",
    ["endpoint"],
    registry=REGISTRY,
)
LOGS_CUT_OFF = Counter(
    "oracle_endpoint_truncated_responses_total",
    "Times that an endpoint was found to leave logs out of an answer without a word: "
    "it stops at a count, or its ranges lack what their blocks have.",
    ["endpoint"],
    registry=REGISTRY,
)
UNPROVEN_SENDERS = Counter(
    "oracle_verify_unproven_senders_total",
    "Calls whose sender is the endpoint's word alone: unsigned, of an unknown type, "
    "or contradicted by all. Their blocks do not count as proven.",
    ["endpoint"],
    registry=REGISTRY,
)
DUPLICATE_LOGS = Counter(
    "oracle_duplicate_logs_total",
    "Logs that an endpoint gave twice.",
    ["endpoint"],
    registry=REGISTRY,
)
WRONG_LOG_TIMES = Counter(
    "oracle_log_timestamp_mismatches_total",
    "Logs whose blockTimestamp was not their header's time, which was taken; the log "
    "event log_timestamp_mismatch names both.",
    ["endpoint"],
    registry=REGISTRY,
)
WINDOW_SPLITS = Counter(
    "oracle_window_splits_total",
    "Ranges asked for in parts: refused (by kind), may be cut off, one block.",
    ["reason"],
    registry=REGISTRY,
)
WINDOW_BLOCKS = Gauge(
    "oracle_window_blocks", "Blocks of the newest window.", ["endpoint"], registry=REGISTRY
)
SEGMENTS = Counter(
    "oracle_segments_total",
    "Ranges that were ordered of workers, by what came of it: taken, recalled (of an earlier "
    "run), refused (then the writer reads them), lost (the worker died, hung or answered "
    "something else).",
    ["outcome"],
    registry=REGISTRY,
)
for _outcome in ("taken", "recalled", "refused", "lost"):
    # Initialise to zero, so that alerts see the first increase.
    SEGMENTS.labels(_outcome)
CALIBRATED = Gauge(
    "oracle_chain_calibrated",
    "What the chain's headers (and signatures: sender) are worth: 1 proven by 20 "
    "blocks or calls, 0 not known yet, -1 not to be used.",
    ["feature"],
    registry=REGISTRY,
)
DEMOTED = Counter(
    "oracle_verification_downgrades_total",
    "Times that something proven turned out to be wrong; tried again after an hour.",
    ["feature"],
    registry=REGISTRY,
)
WITNESSED_WINDOWS = Counter(
    "oracle_witnessed_windows_total",
    "Windows of history, by what a second endpoint said of their last block: agreed, "
    "disputed, alone (there is none), unanswered.",
    ["result"],
    registry=REGISTRY,
)
for _result in ("agreed", "disputed", "alone", "unanswered"):
    # Initialise to zero, so that alerts see the first increase.
    WITNESSED_WINDOWS.labels(_result)
REFUSED = Gauge(
    "oracle_block_refused",
    "1 while a block is not taken in, because what is said of it cannot be true and "
    "nobody proves it.",
    registry=REGISTRY,
)
BELOW_LEVEL = Gauge(
    "oracle_blocks_below_level",
    "Final blocks that are to be read again: they were read less surely than verify.history asks "
    "for and the chain allows. Nothing is reported while it is above 0. It falls with each window "
    "and stands still while no endpoint gives the lowest of them.",
    registry=REGISTRY,
)
