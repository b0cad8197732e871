"""Limits of one endpoint, learned while reading windows from it.

The limits are request sizes, supported methods, and the number of logs at which responses are
silently truncated. See docs/explanation/ingest.md#ranges.
"""

from collections import deque
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.range_sizer import RangeSizer

# Number of tries of a request that is refused with an ambiguous error.
_MAX_TRIES = 3
# The largest of this many recent responses counts, because a limit may be lowered.
_RECENT_RESPONSES = 32
# One of this many windows of history is also read by the hashes of some blocks.
_SAMPLE_INTERVAL = 8


@dataclass(slots=True)
class LearnedLimits:
    """Learned limits of one endpoint, None while unknown; thread-safe.

    `serves_logs_by_hash` is support for EIP-234, and `serves_block_receipts` for
    `eth_getBlockReceipts`. `rejects_unknown_blocks` means that the endpoint returns an error, not
    an empty list, for an unknown block. `max_logs` is the number of logs at which responses were
    found to be silently truncated. `omits_logs` means that a range lacked logs that the endpoint
    returned by block hash.
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
        """Return whether a response of `log_count` logs may be truncated.

        The result is True if no recent response was larger, because nothing shows then that the
        endpoint can return more.
        """
        with self._lock:
            if not log_count:
                return False
            largest = max(self._recent_log_counts, default=0)
            self._recent_log_counts.append(log_count)
            is_limit = self.max_logs is not None and log_count >= self.max_logs
            return is_limit or log_count >= largest

    def record_truncation(self, log_count: int) -> bool:
        """Record that a response of `log_count` logs was truncated; return whether that is new."""
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
