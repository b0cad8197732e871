"""What we have learned of one endpoint while reading windows by it.

What a method costs, which it serves, and at which count its answers stop without a word.
See docs/explanation/ingest.md#ranges.
"""

from collections import deque
from dataclasses import dataclass, field
from threading import Lock

from oracle.rpc.endpoints.range_sizer import RangeSizer

# So often is asked for what is refused by an error that may mean anything.
_TRIES = 3
# Of so many answers with logs the largest counts: an endpoint may stop sooner than it used to.
_RECENT = 32
# One of so many windows of history is read in a second way, by the hashes of some blocks.
_SAMPLED = 8


@dataclass(slots=True)
class LearnedLimits:
    """One endpoint's; used by several threads. None: not known yet.

    `pins`: serves logs by the hash of their block (EIP-234). `admits`: answers with an error for
    a block that it does not know, and not as if it were empty. `gives_receipts`: serves
    `eth_getBlockReceipts`. `most_logs`: the count at which its answers were found to stop
    without a word. `omits`: its ranges left logs out that it gave by the hash of their block.
    """

    sizer: RangeSizer = field(default_factory=RangeSizer)
    pins: bool | None = None
    admits: bool | None = None
    gives_receipts: bool | None = None
    most_logs: int | None = None
    omits: bool = False
    # Whether what was written down by an earlier run is in it; and what was for the next one.
    is_recalled: bool = False
    kept: dict[str, str] = field(default_factory=dict)
    _unpinned: int = 0
    _windows: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    # How many logs the last answers held, but for the empty ones.
    _counts: deque[int] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def was_not_pinned(self) -> None:
        """Note an error in place of logs by hash; who never gave any is not asked for ever."""
        with self._lock:
            self._unpinned += 1
            if self.pins is None and self._unpinned >= _TRIES:
                self.pins = False

    def may_be_cut_off(self, count: int) -> bool:
        """Tell whether an answer of so many logs may be cut off: it is the largest of late.

        The first time as well, and no verdict lasts: only who gave more of late can give more.
        """
        with self._lock:
            if not count:
                return False
            largest = max(self._counts, default=0)
            self._counts.append(count)
            is_limit = self.most_logs is not None and count >= self.most_logs
            return is_limit or count >= largest

    def was_cut_off(self, count: int) -> bool:
        """Note that an answer of so many logs was; tell whether that is new."""
        with self._lock:
            is_new = self.most_logs is None or count < self.most_logs
            if is_new:
                self.most_logs = count
            return is_new

    def is_sample(self) -> bool:
        """Tell whether to read this window in a second way: the first one, and then some."""
        with self._lock:
            self._windows += 1
            return self._windows % _SAMPLED == 1
