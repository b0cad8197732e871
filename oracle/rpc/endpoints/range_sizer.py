"""How many blocks to ask an endpoint for at once: as many as it bears.

See docs/explanation/ingest.md#ranges.
"""

from threading import Lock

from oracle.domain.blocks import BlockRange
from oracle.rpc.rpc_errors import ErrorKind, RpcError

# Logs of one window: enough to make a request and a commit cheap, few enough to stay small.
WANTED_LOGS = 6_000
# How dense the logs are is not known yet: where they are dense, the first window stays small.
FIRST_BLOCKS = 100
MOST_BLOCKS = 100_000
# With all headers, a window is one batch of them.
MOST_WITH_HEADERS = 100
# And of history, where logs are asked for by range, a few batches: an answer stays small.
MOST_LINKED = 500
# Headers of a window of history without logs that are looked at all the same.
LOOKED_AT = 16
_QUICK_SECONDS = 2.0
_LATE_SECONDS = 8.0
# Weight of the newest window in the running density.
_NEWEST = 0.5
# Grows by at least so many blocks; and doubles up to so many, as long as nothing was refused.
_STEP, _SLOW_START = 50, 500


class RangeSizer:
    """Learns from every answer of one endpoint; may be used by several threads at once.

    Grows while answers come quickly, shrinks at once where one is refused or late, and keeps
    to about `wanted_logs` of the density met last. `limit` is the most blocks that the endpoint
    was heard to take; it is only ever tightened, and by its own words alone.
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
        """Whether the endpoint has named a limit."""
        return self.limit < MOST_BLOCKS

    def cut(self, blocks: BlockRange, *, most: int) -> BlockRange:
        """Return the first part of the range that is worth one request: at most so many blocks."""
        with self._lock:
            size = min(self._blocks, self.limit, most)
            if self._density:
                size = min(size, max(1, int(self._wanted_logs / self._density)))
        return BlockRange(blocks.first, min(blocks.last, blocks.first + size - 1))

    def answered(self, blocks: BlockRange, logs: int, seconds: float) -> None:
        """Learn from an answer that came."""
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
        """Learn from a refusal; return how many blocks to ask for instead, fewer than before."""
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
    """Return how many blocks an endpoint suggests, where they begin the refused range.

    Endpoints suggest the refused range itself, inverted ones and others too (reth #23810).
    """
    if suggested is None:
        return None
    first, last = suggested
    is_sound = first == blocks.first and first <= last < blocks.last
    return last - first + 1 if is_sound else None
