"""The rate limit and the backoff of one endpoint, learned from its refusals.

The rate limiter is a token bucket that never blocks the caller. Work that has begun may overdraw
the bucket; later work then uses another endpoint, or waits for the time that the bucket returns.
The backoff applies to the requests of the transaction manager, and starts after a rate limit or a
slow response (tests/faults/sending/cases.toml#f26). See docs/explanation/endpoints.md#health.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import SystemRandom
from threading import Lock

# Seconds to wait if the endpoint states no time. They double with each further refusal, up to the
# maximum.
_INITIAL_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
# Maximum wait. A longer Retry-After is capped, because signed statements expire.
_MAX_RETRY_AFTER_SECONDS = 300.0
_MAX_DOUBLINGS = 10


class Backoff:
    """The backoff of one endpoint.

    `clock` returns seconds, `jitter` a number from 0 to 1.
    """

    def __init__(
        self, clock: Callable[[], float], jitter: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock
        self._jitter = jitter or SystemRandom().random
        self._until: float | None = None
        self._started_at = 0.0
        self._refusals = 0

    def get_remaining_seconds(self) -> float:
        """Return the seconds until the endpoint may be used, or 0 if it may be used now."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    def start(self, retry_after: float | None) -> None:
        """Start a backoff, twice as long after each consecutive refusal.

        The length is at most a minute. A longer `retry_after` (seconds) takes precedence, up to
        five minutes. Half of the length is random, so that daemons that were refused at the same
        time do not all retry at the same time.
        """
        backoff_seconds = _INITIAL_BACKOFF_SECONDS * 2 ** min(self._refusals, _MAX_DOUBLINGS)
        wait_seconds = min(backoff_seconds, _MAX_BACKOFF_SECONDS) * (1 + self._jitter()) / 2
        if retry_after is not None:
            wait_seconds = min(max(retry_after, wait_seconds), _MAX_RETRY_AFTER_SECONDS)
        self._refusals += 1
        self._started_at = self._clock()
        self._until = self._started_at + wait_seconds

    def limit_wait(self, max_seconds: float) -> None:
        """Shorten the backoff so that it ends within `max_seconds` of its start."""
        if self._until is not None:
            self._until = min(self._until, self._started_at + max_seconds)

    def reset(self) -> None:
        """End the backoff after a response from the endpoint."""
        self._until = None
        self._refusals = 0


# A refusal multiplies the rate by the factor. Each second without a refusal adds the growth, in
# calls per second.
_DECREASE_FACTOR = 0.7
_GROWTH_PER_SECOND = 0.5
_MIN_RATE = 0.5
# Rate above which no limit applies.
_MAX_RATE = 500.0
# Minimum rate, as a share of the recent peak of calls per second. Some endpoints, such as a busy
# node, refuse requests at any rate, so slowing down further would not help.
_MIN_SHARE_OF_PEAK = 0.5
_PEAK_WINDOW_SECONDS = 60.0
# Period over which calls are counted to measure their rate.
_RATE_WINDOW_SECONDS = 10.0
# Seconds to wait after a refusal that states no time. They double up to the maximum, with jitter.
_INITIAL_WAIT_SECONDS = 0.25
_MAX_WAIT_SECONDS = 30.0


@dataclass(slots=True)
class RateLimiter:
    """The rate limiter of one endpoint.

    The object is thread-safe. `jitter` returns a number from 0 to 1.
    """

    clock: Callable[[], float]
    jitter: Callable[[], float] = SystemRandom().random
    rate: float = math.inf
    _tokens: float = 1.0
    _filled_at: float = 0.0
    _blocked_until: float = -math.inf
    # Time of the last refusal, and the pause in seconds that the endpoint requested (None if it
    # requested no pause).
    _refused_at: float = -math.inf
    requested_seconds: float | None = None
    _refusals: int = 0
    _window_calls: int = 0
    _window_started_at: float = 0.0
    _measured_rate: float = 0.0
    # The current second and the number of calls answered in it. The two peaks are the maximum
    # calls in any second of this minute and of the previous one. The last value is the start of
    # this minute.
    _current_second: tuple[float, int] = (-math.inf, 0)
    _peaks: tuple[int, int] = (0, 0)
    _minute_started_at: float = -math.inf
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._filled_at = self._window_started_at = self.clock()

    def get_wait_seconds(self) -> float:
        """Return the seconds until a request may be sent, or 0 if it may be sent now."""
        with self._lock:
            now = self.clock()
            self._refill_tokens(now)
            seconds_to_token = 0.0 if self._tokens > 0 else (1e-3 - self._tokens) / self.rate
            return max(0.0, self._blocked_until - now, seconds_to_token)

    def get_blocked_seconds(self) -> float:
        """Return the seconds left to wait after a refusal, ignoring the tokens."""
        with self._lock:
            return max(0.0, self._blocked_until - self.clock())

    def take_tokens(self, call_count: int) -> None:
        """Take tokens for the calls being sent."""
        with self._lock:
            now = self.clock()
            self._refill_tokens(now)
            if now - self._window_started_at >= _RATE_WINDOW_SECONDS:
                self._measured_rate = self._window_calls / (now - self._window_started_at)
                self._window_calls, self._window_started_at = 0, now
            self._window_calls += call_count
            if self.rate < math.inf:
                self._tokens -= call_count

    def record_throttling(self, retry_after: float | None) -> None:
        """Lower the rate after the endpoint rejected a request as too frequent.

        `retry_after` is the wait in seconds that the endpoint requested, or None.
        """
        with self._lock:
            now = self.clock()
            self._refill_tokens(now)
            self._refused_at, self.requested_seconds = now, retry_after
            window_rate = self._window_calls / max(1.0, now - self._window_started_at)
            reduced_rate = _DECREASE_FACTOR * min(
                self.rate, max(window_rate, self._measured_rate, 1.0)
            )
            self.rate = max(
                _MIN_RATE, reduced_rate, min(self.rate, _MIN_SHARE_OF_PEAK * max(self._peaks))
            )
            if retry_after is None:
                max_wait_seconds = min(
                    _MAX_WAIT_SECONDS, _INITIAL_WAIT_SECONDS * 2**self._refusals
                )
                retry_after = max_wait_seconds * (1 + self.jitter()) / 2
            # The number is limited, because 2 to the power of thousands overflows a float.
            self._refusals = min(self._refusals + 1, 10)
            self._blocked_until = max(self._blocked_until, now + retry_after)
            self._tokens = min(self._tokens, 1.0)

    def limit_wait(self, max_seconds: float) -> None:
        """Limit the wait after the last refusal to `max_seconds`."""
        with self._lock:
            self._blocked_until = min(self._blocked_until, self._refused_at + max_seconds)

    def record_success(self, call_count: int = 1) -> None:
        """Record that the endpoint answered `call_count` calls."""
        with self._lock:
            self._refusals, self.requested_seconds = 0, None
            now = self.clock()
            if now - self._minute_started_at >= _PEAK_WINDOW_SECONDS:
                is_following_minute = now - self._minute_started_at < 2 * _PEAK_WINDOW_SECONDS
                self._peaks = (0, self._peaks[0] if is_following_minute else 0)
                self._minute_started_at = now
            second_started_at, second_calls = self._current_second
            self._current_second = (
                (second_started_at, second_calls + call_count)
                if now - second_started_at < 1.0
                else (now, call_count)
            )
            self._peaks = max(self._peaks[0], self._current_second[1]), self._peaks[1]

    def _refill_tokens(self, now: float) -> None:
        elapsed_seconds = max(0.0, now - self._filled_at)
        self._filled_at = now
        if self.rate == math.inf:
            return
        self._tokens = min(max(1.0, self.rate), self._tokens + elapsed_seconds * self.rate)
        # The rate does not grow while waiting after a refusal.
        unblocked_seconds = min(elapsed_seconds, max(0.0, now - self._blocked_until))
        self.rate += unblocked_seconds * _GROWTH_PER_SECOND
        if self.rate > _MAX_RATE:
            self.rate = math.inf
