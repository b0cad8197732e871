"""The limits of one endpoint, learned while reading windows of blocks from it.

These are the number of blocks to request at once, the supported methods, and the number of logs at
which responses are silently truncated. See docs/explanation/ingest.md#ranges.
"""

from collections import deque
from dataclasses import dataclass, field
from threading import Lock

from oracle.domain.blocks import BlockRange
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Number of logs that a window should contain. It is large enough for efficient requests and
# commits, and small enough to keep them short.
TARGET_LOGS = 6_000
# Size of the first window. It is small, because the density of logs is unknown and may be high.
INITIAL_BLOCKS = 100
MAX_BLOCKS = 100_000
# Maximum size of a window for which all headers are read in a single batch.
MAX_BLOCKS_WITH_HEADERS = 100
# Maximum size of a window of history for which all headers are read, in a few batches.
MAX_LINKED_BLOCKS = 500
# Approximate number of blocks without logs whose headers are checked in a window of history.
SAMPLED_HEADERS = 16
_FAST_RESPONSE_SECONDS = 2.0
_SLOW_RESPONSE_SECONDS = 8.0
# Weight of the newest window in the average density of logs.
_NEWEST_WEIGHT = 0.5
# Minimum number of blocks by which the range grows. At first, the range doubles instead, until a
# refusal or until it reaches _SLOW_START_BLOCKS.
_MIN_STEP, _SLOW_START_BLOCKS = 50, 500


class RangeSizer:
    """Adapts how many blocks are requested at once from an endpoint.

    The object is thread-safe. The size grows while responses are fast, and shrinks at once after a
    refusal or a slow response. It is chosen so that a window has about `target_logs` logs at the
    recent density of logs. `limit` is the maximum number of blocks that the endpoint has stated;
    it is never raised.
    """

    def __init__(self, target_logs: int = TARGET_LOGS, limit: int = MAX_BLOCKS) -> None:
        self._target_logs = target_logs
        self._lock = Lock()
        self._blocks = INITIAL_BLOCKS
        self._is_in_slow_start = True
        self.limit = max(1, min(limit, MAX_BLOCKS))
        self._density = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether the endpoint has stated a limit."""
        return self.limit < MAX_BLOCKS

    def limit_range(self, blocks: BlockRange, *, max_blocks: int) -> BlockRange:
        """Return the first part of the range that fits into one request.

        The part has at most `max_blocks` blocks.
        """
        with self._lock:
            block_count = min(self._blocks, self.limit, max_blocks)
            if self._density:
                block_count = min(block_count, max(1, int(self._target_logs / self._density)))
        return blocks.take_first(block_count)

    def record_response(self, blocks: BlockRange, log_count: int, duration_seconds: float) -> None:
        """Adapt the range size to a response."""
        logs_per_block = log_count / len(blocks)
        with self._lock:
            self._density += (logs_per_block - self._density) * (
                _NEWEST_WEIGHT if self._density else 1
            )
            if duration_seconds > _SLOW_RESPONSE_SECONDS:
                self._is_in_slow_start = False
                self._blocks = max(1, min(self._blocks, len(blocks)) * 4 // 5)
            elif duration_seconds < _FAST_RESPONSE_SECONDS and len(blocks) >= self._blocks:
                self._is_in_slow_start = (
                    self._is_in_slow_start and self._blocks < _SLOW_START_BLOCKS
                )
                step = (
                    self._blocks if self._is_in_slow_start else max(_MIN_STEP, self._blocks // 10)
                )
                self._blocks = min(MAX_BLOCKS, self._blocks + step)

    def shrink_after_error(self, blocks: BlockRange, error: RpcError) -> int:
        """Shrink the range size after an error, and return how many blocks to request."""
        reduced_size = max(1, len(blocks) // 2)
        stated_limit = error.max_blocks if error.kind is ErrorKind.TOO_LARGE else None
        suggested_size = _get_suggested_size(blocks, error.suggested_range)
        with self._lock:
            self._is_in_slow_start = False
            if stated_limit is not None and stated_limit < len(blocks):
                self.limit = reduced_size = min(stated_limit, self.limit)
            elif suggested_size is not None:
                reduced_size = suggested_size
            self._blocks = max(1, min(self._blocks, reduced_size))
        return reduced_size


def _get_suggested_size(blocks: BlockRange, suggested_range: tuple[int, int] | None) -> int | None:
    """Return how many blocks the endpoint suggests, or None if this cannot be used.

    A usable range starts at the first block of the refused range and is shorter. Some endpoints
    suggest the refused range itself, an inverted range or an unrelated range (reth #23810).
    """
    if suggested_range is None:
        return None
    first_block, last_block = suggested_range
    is_usable_suggestion = first_block == blocks.first and first_block <= last_block < blocks.last
    return last_block - first_block + 1 if is_usable_suggestion else None


# Number of times that a request may be refused with an ambiguous error before it is given up.
_MAX_TRIES = 3
# Number of responses that are compared. Older responses are not, because a provider may lower its
# limit.
_RECENT_RESPONSES = 32
# In one out of this many windows of history, the logs of some blocks are also requested by hash as
# a check.
_SAMPLE_INTERVAL = 8


@dataclass(slots=True)
class LearnedLimits:
    """The learned limits of one endpoint.

    Each limit is None while it is unknown. The object is thread-safe. `serves_logs_by_hash` is
    whether the endpoint supports EIP-234, and `serves_block_receipts` whether it supports
    `eth_getBlockReceipts`. `rejects_unknown_blocks` is whether it returns an error, instead of an
    empty list, for an unknown block. `max_logs` is the number of logs at which responses were
    found to be silently truncated. `omits_logs` is whether the response for a range once lacked
    logs that the endpoint returned by block hash.
    """

    range_sizer: RangeSizer = field(default_factory=RangeSizer)
    serves_logs_by_hash: bool | None = None
    rejects_unknown_blocks: bool | None = None
    serves_block_receipts: bool | None = None
    max_logs: int | None = None
    omits_logs: bool = False
    # The flag is True once the stored facts have been loaded. `stored_facts` are the facts that
    # are stored now.
    is_loaded: bool = False
    stored_facts: dict[str, str] = field(default_factory=dict)
    _hash_query_failures: int = 0
    _window_count: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    # Number of logs in each recent response that was not empty.
    _recent_log_counts: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT_RESPONSES))

    def record_hash_query_failure(self) -> None:
        """Record a failed query of logs by hash.

        After several failures, such queries stop.
        """
        with self._lock:
            self._hash_query_failures += 1
            if self.serves_logs_by_hash is None and self._hash_query_failures >= _MAX_TRIES:
                self.serves_logs_by_hash = False

    def may_be_truncated(self, log_count: int) -> bool:
        """Return whether a response with `log_count` logs may be truncated.

        The result is True if no recent response was larger, because there is then no evidence that
        the endpoint can return more logs.
        """
        with self._lock:
            if not log_count:
                return False
            largest_log_count = max(self._recent_log_counts, default=0)
            self._recent_log_counts.append(log_count)
            is_known_limit = self.max_logs is not None and log_count >= self.max_logs
            return is_known_limit or log_count >= largest_log_count

    def record_truncation(self, log_count: int) -> bool:
        """Record a truncated response, and return whether it shows a lower log limit."""
        with self._lock:
            is_lower_limit = self.max_logs is None or log_count < self.max_logs
            if is_lower_limit:
                self.max_logs = log_count
            return is_lower_limit

    def should_sample_window(self) -> bool:
        """Return whether to check this window by a second query.

        This is the case for every eighth window.
        """
        with self._lock:
            self._window_count += 1
            return self._window_count % _SAMPLE_INTERVAL == 1
