"""A token bucket for one endpoint: how many calls a second it bears, learned from refusals.

It never makes anybody wait: work that has begun may overdraw it, and the next work goes elsewhere
or is told for how long there is none.
See docs/explanation/endpoints.md#health.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import SystemRandom
from threading import Lock

# What a refusal leaves of the rate, and what a second without one adds to it, in calls a second.
_CUT = 0.7
_GROWTH = 0.5
_LEAST_RATE = 0.5
# Above it there is no limit any more.
_MOST_RATE = 500.0
# It is never cut below this share of what it bore within one second lately: who refuses at any
# rate, as a busy node does, is not helped by asking more slowly.
_BORNE = 0.5
_BORNE_SECONDS = 60.0
# How long calls are counted before their rate is known.
_COUNTED_SECONDS = 10.0
# Wait where a refusal does not say how long: doubling from one to the other, jittered.
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 30.0


@dataclass(slots=True)
class RateLimiter:
    """May be used by several threads at once; `jitter` draws from 0 to 1."""

    clock: Callable[[], float]
    jitter: Callable[[], float] = SystemRandom().random
    rate: float = math.inf
    _tokens: float = 1.0
    _filled_at: float = 0.0
    _blocked_until: float = -math.inf
    _refusals: int = 0
    _calls: int = 0
    _counted_from: float = 0.0
    _seen: float = 0.0
    # Calls answered in the second that began then; the most of any second of this minute, and of
    # the one before; and when this minute began.
    _second: tuple[float, int] = (-math.inf, 0)
    _most: tuple[int, int] = (0, 0)
    _minute: float = -math.inf
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._filled_at = self._counted_from = self.clock()

    def wait(self) -> float:
        """Return for how many seconds nothing may be asked; 0: it may be now."""
        with self._lock:
            now = self.clock()
            self._fill(now)
            debt = 0.0 if self._tokens > 0 else (1e-3 - self._tokens) / self.rate
            return max(0.0, self._blocked_until - now, debt)

    def blocked(self) -> float:
        """Return for how many seconds the endpoint wants nothing to be asked, our debt apart."""
        with self._lock:
            return max(0.0, self._blocked_until - self.clock())

    def spend(self, calls: int) -> None:
        """Note what is being asked."""
        with self._lock:
            now = self.clock()
            self._fill(now)
            if now - self._counted_from >= _COUNTED_SECONDS:
                self._seen = self._calls / (now - self._counted_from)
                self._calls, self._counted_from = 0, now
            self._calls += calls
            if self.rate < math.inf:
                self._tokens -= calls

    def refused(self, retry_after: float | None) -> None:
        """Note that the endpoint wants less; `retry_after` in seconds where it said so."""
        with self._lock:
            now = self.clock()
            self._fill(now)
            counted = self._calls / max(1.0, now - self._counted_from)
            cut = _CUT * min(self.rate, max(counted, self._seen, 1.0))
            self.rate = max(_LEAST_RATE, cut, min(self.rate, _BORNE * max(self._most)))
            if retry_after is None:
                whole = min(_LONGEST_WAIT, _FIRST_WAIT * 2**self._refusals)
                retry_after = whole * (1 + self.jitter()) / 2
            # Thousands of refusals make no number that a float cannot hold.
            self._refusals = min(self._refusals + 1, 10)
            self._blocked_until = max(self._blocked_until, now + retry_after)
            self._tokens = min(self._tokens, 1.0)

    def answered(self, calls: int = 1) -> None:
        """Note that the endpoint did what it was asked, so many calls."""
        with self._lock:
            self._refusals = 0
            now = self.clock()
            if now - self._minute >= _BORNE_SECONDS:
                is_next = now - self._minute < 2 * _BORNE_SECONDS
                self._most, self._minute = (0, self._most[0] if is_next else 0), now
            began, count = self._second
            self._second = (began, count + calls) if now - began < 1.0 else (now, calls)
            self._most = max(self._most[0], self._second[1]), self._most[1]

    def _fill(self, now: float) -> None:
        passed, self._filled_at = max(0.0, now - self._filled_at), now
        if self.rate == math.inf:
            return
        self._tokens = min(max(1.0, self.rate), self._tokens + passed * self.rate)
        # Time that it had us wait shows nothing.
        calm = min(passed, max(0.0, now - self._blocked_until))
        self.rate += calm * _GROWTH
        if self.rate > _MOST_RATE:
            self.rate = math.inf
