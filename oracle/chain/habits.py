"""What we have learned of one endpoint while reading windows by it (chain.md 3.7).

What a method costs, which it serves, and at which count its answers stop without a word.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from oracle.chain.ranges import Sizer

# So often is asked for what is refused by an error that may mean anything.
_TRIES = 3
# Where endpoints are known to stop without a word.
_ROUND_COUNTS = frozenset({100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000})


@dataclass(slots=True)
class Habits:
    """One endpoint's; used by several threads. None: not known yet.

    `pins`: serves logs by the hash of their block (EIP-234). `admits`: answers with an error for
    a block that it does not know, and not as if it were empty. `gives_receipts`: serves
    `eth_getBlockReceipts`.
    """

    sizer: Sizer = field(default_factory=Sizer)
    pins: bool | None = None
    admits: bool | None = None
    gives_receipts: bool | None = None
    # The limit that was written down for the next run.
    kept_limit: int | None = None
    _unpinned: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)
    _largest: int = 0
    # Counts that looked like a limit and were none.
    _whole: set[int] = field(default_factory=set)

    def was_not_pinned(self) -> None:
        """Note an error in place of logs by hash; who never gave any is not asked for ever."""
        with self._lock:
            self._unpinned += 1
            if self.pins is None and self._unpinned >= _TRIES:
                self.pins = False

    def may_be_cut_off(self, count: int) -> bool:
        """Tell whether an answer of so many logs looks cut off: a round number, or the largest.

        The largest count is suspicious when it comes a second time.
        """
        with self._lock:
            again = count == self._largest and count > 0
            self._largest = max(self._largest, count)
            return (again or count in _ROUND_COUNTS) and count not in self._whole

    def was_whole(self, count: int) -> None:
        """Remember that this count was no limit."""
        with self._lock:
            self._whole.add(count)


class EveryHabit:
    """The habits of every endpoint, by its shown name; `made` starts a new one's."""

    def __init__(self, made: Callable[[str], Habits] = lambda _: Habits()) -> None:
        self._made = made
        self._lock = Lock()
        self._of: dict[str, Habits] = {}

    def of(self, endpoint: str) -> Habits:
        """Return the habits of this endpoint."""
        with self._lock:
            if endpoint not in self._of:
                self._of[endpoint] = self._made(endpoint)
            return self._of[endpoint]
