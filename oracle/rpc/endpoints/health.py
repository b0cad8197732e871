"""Health of one endpoint: circuit breaker and latency by method, retry budget, rate limit.

Every request to the endpoint is recorded here, and requests that would fail anyway are refused.
See docs/explanation/endpoints.md#health.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from threading import Lock
from typing import Any, TypeVar

from oracle.rpc.endpoints.backoff import Backoff
from oracle.rpc.endpoints.rate_limiter import RateLimiter
from oracle.rpc.rpc_errors import (
    BLAMELESS,
    CallRefusedError,
    ErrorKind,
    RpcError,
    RpcTimeoutError,
)
from oracle.telemetry import rpc_metrics as metrics

# Pauses before the second, third and fourth attempt, in seconds.
PAUSES = (0.05, 0.2, 0.5)
# Retries by kind, for failures that may be temporary; a truncated response may also be too long.
_TRIES = {
    ErrorKind.UNREACHABLE: 3,
    ErrorKind.INVALID: 3,
    ErrorKind.THROTTLED: 3,
    ErrorKind.NOT_THERE: 2,
    ErrorKind.CUT: 1,
}
# Each failure costs one, each response restores one; above half of it requests are retried.
_MOST = 10
# A request that took longer to fail is not retried, in seconds.
_QUICK_SECONDS = 1.0


@dataclass(slots=True)
class RetryBudget:
    """Limits immediate retries of failed requests to one endpoint; thread-safe.

    A broken connection, an error page of a proxy or a busy node behind the address is often gone
    at the next request. Requests to an endpoint that mostly fails are not retried.
    """

    _left: int = _MOST
    _lock: Lock = field(default_factory=Lock, repr=False)

    def succeeded(self) -> None:
        """Record a response."""
        with self._lock:
            self._left = min(_MOST, self._left + 1)

    def pause(self, error: RpcError, tries: int, took: float) -> float | None:
        """Record a failure after `retry_count` retries; return the pause before the next one.

        The pause is in seconds; None means that the request must not be retried at once.
        """
        with self._lock:
            self._left = max(0, self._left - (error.kind not in BLAMELESS))
            is_often = self._left > _MOST // 2
        if not is_often or took > _QUICK_SECONDS or tries >= _TRIES.get(error.kind, 0):
            return None
        return PAUSES[tries]


# Failures in a row that open the breaker, or their share among the last requests.
_IN_A_ROW = 5
_LAST = 20
_SHARE = 0.3
# Seconds until the breaker may be tried again, doubling from the first to the second.
FIRST_WAIT = 10.0
LONGEST_WAIT = 300.0
# A trial without an outcome after this long counts as over.
_TRIAL_SECONDS = 60.0


class State(IntEnum):
    """State of a circuit breaker; the number is the value of the metric."""

    CLOSED = 0
    ON_TRIAL = 1
    OPEN = 2


@dataclass(slots=True)
class CircuitBreaker:
    """Stops one method of one endpoint after too many failures; times are seconds of any clock."""

    _ended: deque[bool] = field(default_factory=lambda: deque(maxlen=_LAST))
    _in_a_row: int = 0
    _wait: float = FIRST_WAIT
    # When a trial request may be sent; None: closed.
    _opens_at: float | None = None
    _trial_until: float = 0.0
    _failed_at: float = 0.0

    def state(self, now: float) -> State:
        """Return the state at this time."""
        if self._opens_at is None:
            return State.CLOSED
        is_free = now >= self._opens_at and now >= self._trial_until
        return State.ON_TRIAL if is_free else State.OPEN

    def try_acquire(self, now: float) -> bool:
        """Return whether to send a request now; half open lets one request at a time pass."""
        state = self.state(now)
        if state is State.ON_TRIAL:
            self._trial_until = now + _TRIAL_SECONDS
        return state is not State.OPEN

    def succeeded(self) -> None:
        """Record a response; the response to a trial closes the breaker."""
        self._in_a_row = 0
        if self._opens_at is not None:
            self._ended.clear()
            self._opens_at, self._wait, self._trial_until = None, FIRST_WAIT, 0.0
        self._ended.append(True)

    def failed(self, now: float) -> None:
        """Record a failure; a failed trial doubles the wait."""
        self._failed_at = now
        self._in_a_row += 1
        self._ended.append(False)
        if self._opens_at is not None:
            self._wait = min(LONGEST_WAIT, 2 * self._wait)
        elif self._in_a_row < _IN_A_ROW and not self._is_error_rate_high():
            return
        self._opens_at, self._trial_until = now + self._wait, 0.0

    def wait_at_most(self, seconds: float) -> None:
        """Let a request pass this long after the last failure at the latest."""
        if self._opens_at is not None:
            self._opens_at = min(self._opens_at, self._failed_at + seconds)

    def failing_share(self) -> float:
        """Return the share of failures among the last requests, 0 to 1."""
        return self._ended.count(False) / len(self._ended) if self._ended else 0.0

    def _is_error_rate_high(self) -> bool:
        return len(self._ended) == _LAST and self.failing_share() > _SHARE


T = TypeVar("T")

# Weight of the newest duration in the running mean.
_NEWEST = 0.3
# How long a method is skipped after the endpoint reported it as unsupported.
_OFF_SECONDS = 3600.0
# Kinds that count against a method. The other kinds are responses to a request that may be halved
# repeatedly, which the breaker must not stop.
_BREAKING = {ErrorKind.UNREACHABLE, ErrorKind.SLOW, ErrorKind.INVALID, ErrorKind.REFUSED}
# A sole endpoint that is rate-limited for at most this many seconds is waited for in place.
LONGEST_WAIT_IN_PLACE = 2.0
# Kinds for which another endpoint, if there is one, is used at once.
_ALONE = {ErrorKind.THROTTLED, ErrorKind.NOT_THERE}


@dataclass(slots=True)
class LatencyMean:
    """Running mean of response times, in seconds; None before the first response."""

    seconds: float | None = None

    def record_duration(self, seconds: float) -> None:
        """Add the duration of one response to the mean."""
        mean = self.seconds
        self.seconds = seconds if mean is None else mean + _NEWEST * (seconds - mean)


@dataclass(slots=True)
class Health:
    """Health of the endpoint of this name; `clock` returns seconds."""

    name: str
    clock: Callable[[], float]
    bucket: RateLimiter = field(init=False)
    # For the sending side, after a rate limit or a slow response.
    backoff: Backoff = field(init=False)
    breakers: dict[str, CircuitBreaker] = field(default_factory=dict)
    speeds: dict[str, LatencyMean] = field(default_factory=dict)
    # The last error message of each method.
    last_words: dict[str, str] = field(default_factory=dict)
    # Until when a method counts as unsupported.
    off_until: dict[str, float] = field(default_factory=dict)
    # The retry budget, and the function that waits before a retry.
    retries: RetryBudget = field(default_factory=RetryBudget)
    pause: Callable[[float], None] = time.sleep
    # Whether no other endpoint can be used while this one is rate-limited.
    is_alone: bool = False

    def __post_init__(self) -> None:
        self.bucket, self.backoff = RateLimiter(self.clock), Backoff(self.clock)

    def asking_once(
        self, method: str, calls: int, ask: Callable[[], list[Any]], *, is_pressing: bool
    ) -> list[Any]:
        """Send requests that must not be retried; start a backoff if the endpoint requests it.

        Circuit breakers are ignored: they spare an endpoint requests that another one can serve,
        but here several endpoints are used to compare them. `ignore_backoff` sends during a
        backoff, and the outcome then does not change it.

        Raises:
            RpcError: the endpoint is in backoff, or a response is missing.
        """
        left = self.left_alone()
        if left > 0 and not is_pressing:
            raise RpcError(self.name, ErrorKind.BACKOFF, f"left alone for {left:.1f} s more")
        self.bucket.spend(calls)
        try:
            answers = ask()
        except RpcError as error:
            metrics.CALLS.labels(self.name, method, error.kind.value).inc()
            if left <= 0:
                self._leave_alone(error)
            raise
        metrics.CALLS.labels(self.name, method, "answered").inc()
        refusals = [one for one in answers if isinstance(one, CallRefusedError)]
        wanting = next((one for one in refusals if one.is_rate_limited), None)
        if wanting is not None and left <= 0:
            self._leave_alone(wanting)
        elif len(refusals) < len(answers) and left <= 0:
            self.backoff.end()
            self.bucket.answered(calls)
        return answers

    def left_alone(self) -> float:
        """Return the seconds until the sending side may use the endpoint; 0 if it may now."""
        return max(self.backoff.left(), self.bucket.blocked())

    def _leave_alone(self, error: RpcError) -> None:
        """Start a backoff after a rate limit or a slow response; not after another refusal."""
        asks = error.is_rate_limited if isinstance(error, CallRefusedError) else False
        asks = asks or error.retry_after is not None or error.kind is ErrorKind.THROTTLED
        if asks:
            self.bucket.refused(error.retry_after)
        if asks or error.kind is ErrorKind.SLOW or isinstance(error, RpcTimeoutError):
            self.backoff.begin(error.retry_after)

    def asking(self, method: str, calls: int, ask: Callable[[], T]) -> T:
        """Send one request, with a few immediate retries if it fails.

        The breaker and the latency record the request, not each attempt.

        Raises:
            RpcError: the request failed, or was not sent because the method failed too often or is
                unsupported.
        """
        self._admit(method)
        began, tries = self.clock(), 0
        while True:
            tried = self.clock()
            self.bucket.spend(calls)
            try:
                answer = ask()
            except RpcError as error:
                metrics.CALLS.labels(self.name, method, error.kind.value).inc()
                self._note_refusal(error)
                pause = self._pause(error, tries, self.clock() - tried)
                if pause is None:
                    self._failed(method, error, self.clock() - began)
                    raise
                tries += 1
                self.pause(pause)
            else:
                self.retries.succeeded()
                self.bucket.answered(calls)
                self._answered(method, self.clock() - tried)
                return answer

    def _pause(self, error: RpcError, tries: int, took: float) -> float | None:
        """Record the failure; return the pause in seconds before a retry, or None for no retry."""
        pause = self.retries.pause(error, tries, took)
        if pause is None or error.kind not in _ALONE:
            return pause
        wait = max(pause, self.bucket.wait())
        is_bearable = self.is_alone and not error.of_batch and wait <= LONGEST_WAIT_IN_PLACE
        return wait if is_bearable else None

    def bear(self) -> None:
        """Wait until the endpoint may be used, if it is the only one and the wait is short."""
        wait = self.bucket.wait()
        if self.is_alone and 0 < wait <= LONGEST_WAIT_IN_PLACE:
            self.pause(wait)

    def _note_refusal(self, error: RpcError) -> None:
        if error.kind is ErrorKind.THROTTLED:
            self.bucket.refused(error.retry_after)

    def has(self, method: str) -> bool:
        """Return whether the endpoint supports the method, as far as known."""
        return self.clock() >= self.off_until.get(method, -math.inf)

    def slower_than(self, other: "Health") -> float:
        """Return by how many seconds this endpoint is slower at methods that both served."""
        # Copies, because other threads change the originals meanwhile.
        mine, theirs = self.speeds.copy(), other.speeds.copy()
        shared = mine.keys() & theirs.keys()
        pairs = [(mine[m].seconds or 0, theirs[m].seconds or 0) for m in shared]
        return max((ours - others for ours, others in pairs), default=0.0)

    def wait_at_most(self, seconds: float) -> None:
        """Let one request of each method pass this long after its last failure."""
        for breaker in list(self.breakers.values()):
            breaker.wait_at_most(seconds)

    def forget_speed(self) -> None:
        """Reset the latencies, so that the next responses measure them anew."""
        self.speeds.clear()

    def _admit(self, method: str) -> None:
        if not self.has(method):
            raise RpcError(self.name, ErrorKind.UNSUPPORTED, f"{method}: it said so before")
        breaker = self.breakers.get(method)
        if breaker is not None and not breaker.try_acquire(self.clock()):
            last = self.last_words.get(method, "")
            words = f"{method} failed too often, the last time: {last}"
            raise RpcError(self.name, ErrorKind.BACKOFF, words)

    def _answered(self, method: str, seconds: float) -> None:
        self._breaker(method).succeeded()
        speed = self.speeds.setdefault(method, LatencyMean())
        speed.record_duration(seconds)
        metrics.CALLS.labels(self.name, method, "answered").inc()
        metrics.LATENCY.labels(self.name, method).set(speed.seconds or 0.0)
        self._show(method)

    def _failed(self, method: str, error: RpcError, seconds: float) -> None:
        if error.of_batch or error.kind is ErrorKind.THROTTLED:
            # A smaller batch follows, or the rate limiter handles it.
            pass
        elif error.kind is ErrorKind.UNSUPPORTED and method not in self.speeds:
            # A method that has worked before exists, so a parameter must be unsupported.
            self.off_until[method] = self.clock() + _OFF_SECONDS
        elif error.kind is ErrorKind.SLOW and not isinstance(error, RpcTimeoutError):
            # The endpoint responded with its own time limit: the range is divided until it fits.
            self._breaker(method).succeeded()
        elif error.kind in _BREAKING:
            self._breaker(method).failed(self.clock())
            self.last_words[method] = error.words
            if error.kind is ErrorKind.SLOW:
                self.speeds.setdefault(method, LatencyMean()).record_duration(seconds)
        elif error.kind in BLAMELESS:
            self._breaker(method).succeeded()
        self._show(method)

    def _breaker(self, method: str) -> CircuitBreaker:
        return self.breakers.setdefault(method, CircuitBreaker())

    def _show(self, method: str) -> None:
        breaker = self.breakers.get(method)
        state = State.CLOSED if breaker is None else breaker.state(self.clock())
        metrics.CIRCUIT_STATE.labels(self.name, method).set(state)
        rate = self.bucket.rate
        metrics.RATE_LIMIT.labels(self.name).set(0 if rate == math.inf else rate)
