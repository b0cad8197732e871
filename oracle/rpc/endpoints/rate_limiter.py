"""Token bucket of one endpoint: the calls per second that it accepts, learned from refusals.

The bucket never blocks the caller: work that has begun may overdraw the bucket, and the next work
goes elsewhere or gets the waiting time. See docs/explanation/endpoints.md#health.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import SystemRandom
from threading import Lock

# Factor applied to the rate after a refusal, and growth per second without one, in calls/s.
_CUT = 0.7
_GROWTH = 0.5
_LEAST_RATE = 0.5
# Above this rate there is no limit.
_MOST_RATE = 500.0
# The rate is never cut below this share of the recent peak within one second: slower requests do
# not help with an endpoint that refuses at any rate, such as a busy node.
_BORNE = 0.5
_BORNE_SECONDS = 60.0
# How long calls are counted to measure their rate.
_COUNTED_SECONDS = 10.0
# Wait after a refusal without a stated time: doubling up to the maximum, with jitter.
_FIRST_WAIT = 0.25
_LONGEST_WAIT = 30.0


@dataclass(slots=True)
class RateLimiter:
    """Rate limiter of one endpoint; thread-safe. `jitter` returns a number from 0 to 1."""

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
    # The current second's start and its answered calls; the peak of any second in this minute and
    # in the one before; and when this minute began.
    _second: tuple[float, int] = (-math.inf, 0)
    _most: tuple[int, int] = (0, 0)
    _minute: float = -math.inf
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._filled_at = self._counted_from = self.clock()

    def wait(self) -> float:
        """Return the seconds until a request may be sent; 0 if it may be sent now."""
        with self._lock:
            now = self.clock()
            self._fill(now)
            debt = 0.0 if self._tokens > 0 else (1e-3 - self._tokens) / self.rate
            return max(0.0, self._blocked_until - now, debt)

    def blocked(self) -> float:
        """Return the seconds until the endpoint accepts requests, ignoring overdrawn tokens."""
        with self._lock:
            return max(0.0, self._blocked_until - self.clock())

    def spend(self, calls: int) -> None:
        """Take tokens for the calls that are being sent."""
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
        """Lower the rate after a refusal; `retry_after` in seconds, if stated."""
        with self._lock:
            now = self.clock()
            self._fill(now)
            counted = self._calls / max(1.0, now - self._counted_from)
            cut = _CUT * min(self.rate, max(counted, self._seen, 1.0))
            self.rate = max(_LEAST_RATE, cut, min(self.rate, _BORNE * max(self._most)))
            if retry_after is None:
                whole = min(_LONGEST_WAIT, _FIRST_WAIT * 2**self._refusals)
                retry_after = whole * (1 + self.jitter()) / 2
            # Capped, because 2 to the power of thousands does not fit a float.
            self._refusals = min(self._refusals + 1, 10)
            self._blocked_until = max(self._blocked_until, now + retry_after)
            self._tokens = min(self._tokens, 1.0)

    def answered(self, calls: int = 1) -> None:
        """Record that the endpoint answered so many calls."""
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
        # Time during which the endpoint was blocked does not count.
        calm = min(passed, max(0.0, now - self._blocked_until))
        self.rate += calm * _GROWTH
        if self.rate > _MOST_RATE:
            self.rate = math.inf
