"""Limits of one endpoint, learned while reading windows from it.

Request sizes, supported methods, and the number of logs at which its responses are silently
truncated. See docs/explanation/ingest.md#ranges.
"""

from collections import deque
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.range_sizer import RangeSizer

# How often a request is tried that is refused with an ambiguous error.
_MAX_TRIES = 3
# The largest of this many recent responses counts, because a limit may be lowered.
_RECENT_RESPONSES = 32
# One of this many windows of history is also read by the hashes of some blocks.
_SAMPLE_INTERVAL = 8


@dataclass(slots=True)
class LearnedLimits:
    """Learned limits of one endpoint, None while unknown; thread-safe.

    `serves_logs_by_hash`: EIP-234. `rejects_unknown_blocks`: it returns an error, not an empty
    list, for an unknown block. `serves_block_receipts`: `eth_getBlockReceipts`. `max_logs`: the
    number of logs at which its responses were found to be silently truncated. `omits_logs`: its
    ranges lacked logs that it returned by block hash.
    """

    range_sizer: RangeSizer = field(default_factory=RangeSizer)
    serves_logs_by_hash: bool | None = None
    rejects_unknown_blocks: bool | None = None
    serves_block_receipts: bool | None = None
    max_logs: int | None = None
    omits_logs: bool = False
    # Whether the facts of an earlier run are loaded; and the facts stored for the next one.
    is_loaded: bool = False
    stored_facts: dict[str, str] = field(default_factory=dict)
    _hash_query_failures: int = 0
    _window_count: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    # The number of logs in recent responses that were not empty.
    _recent_log_counts: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT_RESPONSES))

    def record_hash_query_failure(self) -> None:
        """Record a failed query of logs by hash; stop trying if none ever succeeded."""
        with self._lock:
            self._hash_query_failures += 1
            if self.serves_logs_by_hash is None and self._hash_query_failures >= _MAX_TRIES:
                self.serves_logs_by_hash = False

    def may_be_truncated(self, log_count: int) -> bool:
        """Return whether a response of so many logs may be truncated.

        True for the first response and for the largest of the recent ones: only an endpoint that
        returned more lately is known to be able to return more.
        """
        with self._lock:
            if not log_count:
                return False
            largest = max(self._recent_log_counts, default=0)
            self._recent_log_counts.append(log_count)
            is_limit = self.max_logs is not None and log_count >= self.max_logs
            return is_limit or log_count >= largest

    def record_truncation(self, log_count: int) -> bool:
        """Record that a response of so many logs was truncated; return whether that is new."""
        with self._lock:
            is_lower = self.max_logs is None or log_count < self.max_logs
            if is_lower:
                self.max_logs = log_count
            return is_lower

    def should_sample_window(self) -> bool:
        """Return whether to read this window a second way: the first one, then every eighth."""
        with self._lock:
            self._window_count += 1
            return self._window_count % _SAMPLE_INTERVAL == 1
