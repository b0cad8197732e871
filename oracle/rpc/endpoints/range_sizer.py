"""Chooses how many blocks to request at once from an endpoint.

See docs/explanation/ingest.md#ranges.
"""

from threading import Lock

from oracle.domain.blocks import BlockRange
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Logs per window: enough for efficient requests and commits, few enough to stay small.
WANTED_LOGS = 6_000
# Initial window: the density of logs is unknown, and may be high.
FIRST_BLOCKS = 100
MOST_BLOCKS = 100_000
# A window with all headers is one batch of headers.
MOST_WITH_HEADERS = 100
# A window of history, whose logs are requested by range, is a few batches of headers.
MOST_LINKED = 500
# Headers without logs that are checked in a window of history.
LOOKED_AT = 16
_QUICK_SECONDS = 2.0
_LATE_SECONDS = 8.0
# Weight of the newest window in the running density.
_NEWEST = 0.5
# Minimum growth in blocks; and the size up to which it doubles while nothing was refused.
_STEP, _SLOW_START = 50, 500


class RangeSizer:
    """Adapts the number of blocks per request to one endpoint; thread-safe.

    The size grows while responses are fast, shrinks at once after a refusal or a slow response,
    and keeps windows at about `target_logs` by the last density. `limit` is the maximum number of
    blocks that the endpoint stated; it is only ever lowered.
    """

    def __init__(self, wanted_logs: int = WANTED_LOGS, limit: int = MOST_BLOCKS) -> None:
        self._wanted_logs = wanted_logs
        self._lock = Lock()
        self._blocks = FIRST_BLOCKS
        self._is_starting = True
        self.limit = max(1, min(limit, MOST_BLOCKS))
        self._density = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether the endpoint has stated a limit."""
        return self.limit < MOST_BLOCKS

    def cut(self, blocks: BlockRange, *, most: int) -> BlockRange:
        """Return the first part of the range for one request, at most `max_blocks` blocks."""
        with self._lock:
            size = min(self._blocks, self.limit, most)
            if self._density:
                size = min(size, max(1, int(self._wanted_logs / self._density)))
        return BlockRange(blocks.first, min(blocks.last, blocks.first + size - 1))

    def answered(self, blocks: BlockRange, logs: int, seconds: float) -> None:
        """Adapt the size after a response."""
        density = logs / len(blocks)
        with self._lock:
            self._density += (density - self._density) * (_NEWEST if self._density else 1)
            if seconds > _LATE_SECONDS:
                self._is_starting = False
                self._blocks = max(1, min(self._blocks, len(blocks)) * 4 // 5)
            elif seconds < _QUICK_SECONDS and len(blocks) >= self._blocks:
                self._is_starting = self._is_starting and self._blocks < _SLOW_START
                step = self._blocks if self._is_starting else max(_STEP, self._blocks // 10)
                self._blocks = min(MOST_BLOCKS, self._blocks + step)

    def refused(self, blocks: BlockRange, error: RpcError) -> int:
        """Adapt the size after a refusal; return the smaller number of blocks to request."""
        less = max(1, len(blocks) // 2)
        stated = error.blocks if error.kind is ErrorKind.TOO_LARGE else None
        proposed = _sound(blocks, error.suggested)
        with self._lock:
            self._is_starting = False
            if stated is not None and stated < len(blocks):
                self.limit = less = min(stated, self.limit)
            elif proposed is not None:
                less = proposed
            self._blocks = max(1, min(self._blocks, less))
        return less


def _sound(blocks: BlockRange, suggested: tuple[int, int] | None) -> int | None:
    """Return the suggested number of blocks, if the range starts at the refused one's first block.

    Endpoints also suggest the refused range itself, inverted ranges and unrelated ones (reth
    #23810).
    """
    if suggested is None:
        return None
    first, last = suggested
    is_sound = first == blocks.first and first <= last < blocks.last
    return last - first + 1 if is_sound else None
