"""Limits of one endpoint, learned while reading windows from it.

Request sizes, supported methods, and the number of logs at which its responses are silently
truncated. See docs/explanation/ingest.md#ranges.
"""

from collections import deque
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.range_sizer import RangeSizer

# How often a request is tried that is refused with an ambiguous error.
_TRIES = 3
# The largest of this many recent responses counts, because a limit may be lowered.
_RECENT = 32
# One of this many windows of history is also read by the hashes of some blocks.
_SAMPLED = 8


@dataclass(slots=True)
class LearnedLimits:
    """Learned limits of one endpoint, None while unknown; thread-safe.

    `serves_logs_by_hash`: EIP-234. `rejects_unknown_blocks`: it returns an error, not an empty
    list, for an unknown block. `serves_block_receipts`: `eth_getBlockReceipts`. `max_logs`: the
    number of logs at which its responses were found to be silently truncated. `omits_logs`: its
    ranges lacked logs that it returned by block hash.
    """

    sizer: RangeSizer = field(default_factory=RangeSizer)
    pins: bool | None = None
    admits: bool | None = None
    gives_receipts: bool | None = None
    most_logs: int | None = None
    omits: bool = False
    # Whether the facts of an earlier run are loaded; and the facts stored for the next one.
    is_recalled: bool = False
    kept: dict[str, str] = field(default_factory=dict)
    _unpinned: int = 0
    _windows: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    # The number of logs in recent responses that were not empty.
    _counts: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def was_not_pinned(self) -> None:
        """Record a failed query of logs by hash; stop trying if none ever succeeded."""
        with self._lock:
            self._unpinned += 1
            if self.pins is None and self._unpinned >= _TRIES:
                self.pins = False

    def may_be_cut_off(self, count: int) -> bool:
        """Return whether a response of so many logs may be truncated.

        True for the first response and for the largest of the recent ones: only an endpoint that
        returned more lately is known to be able to return more.
        """
        with self._lock:
            if not count:
                return False
            largest = max(self._counts, default=0)
            self._counts.append(count)
            is_limit = self.most_logs is not None and count >= self.most_logs
            return is_limit or count >= largest

    def was_cut_off(self, count: int) -> bool:
        """Record that a response of so many logs was truncated; return whether that is new."""
        with self._lock:
            is_new = self.most_logs is None or count < self.most_logs
            if is_new:
                self.most_logs = count
            return is_new

    def is_sample(self) -> bool:
        """Return whether to read this window a second way: the first one, and then every eighth."""
        with self._lock:
            self._windows += 1
            return self._windows % _SAMPLED == 1
