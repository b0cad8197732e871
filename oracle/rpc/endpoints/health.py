"""Tracks one endpoint's health, and refuses requests that would probably fail.

Every request is recorded. Each method has a circuit breaker and a latency; the retry budget and
the rate limit apply to the whole endpoint. See docs/explanation/endpoints.md#health.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from threading import Lock
from typing import Any, TypeVar

from oracle.rpc.endpoints.rate_limiter import Backoff, RateLimiter
from oracle.rpc.rpc_errors import (
    BLAMELESS,
    CallRefusedError,
    ErrorKind,
    RpcError,
    RpcTimeoutError,
)
from oracle.telemetry import rpc_metrics as metrics

# Seconds to wait before the second, third and fourth attempt.
RETRY_PAUSES_SECONDS = (0.05, 0.2, 0.5)
# Maximum number of retries by kind of error. Only errors that may be temporary are retried. A
# truncated response gets fewer retries, because its size may be the cause.
_MAX_RETRIES_BY_KIND = {
    ErrorKind.UNREACHABLE: 3,
    ErrorKind.INVALID: 3,
    ErrorKind.THROTTLED: 3,
    ErrorKind.NOT_THERE: 2,
    ErrorKind.CUT: 1,
}
# Each failure takes one unit from this budget, and each response returns one. Requests are retried
# while more than half of the budget is left.
_RETRY_BUDGET = 10
# Maximum duration of a failed request that is retried.
_MAX_RETRY_DURATION_SECONDS = 1.0


@dataclass(slots=True)
class RetryBudget:
    """Limits immediate retries of failed requests to one endpoint.

    The object is thread-safe. Immediate retries help, because a broken connection, an error page
    of a proxy or a busy node often affects only one request. Requests to an endpoint that mostly
    fails are not retried.
    """

    _remaining_budget: int = _RETRY_BUDGET
    _lock: Lock = field(default_factory=Lock, repr=False)

    def record_success(self) -> None:
        """Restore one unit of the budget after a response."""
        with self._lock:
            self._remaining_budget = min(_RETRY_BUDGET, self._remaining_budget + 1)

    def record_failure(
        self, error: RpcError, retry_count: int, duration_seconds: float
    ) -> float | None:
        """Record a failure, and return the pause before the next retry.

        The request has been retried `retry_count` times. The pause is in seconds, or None if the
        request must not be retried at once.
        """
        with self._lock:
            self._remaining_budget = max(0, self._remaining_budget - (error.kind not in BLAMELESS))
            has_budget = self._remaining_budget > _RETRY_BUDGET // 2
        if (
            not has_budget
            or duration_seconds > _MAX_RETRY_DURATION_SECONDS
            or retry_count >= _MAX_RETRIES_BY_KIND.get(error.kind, 0)
        ):
            return None
        return RETRY_PAUSES_SECONDS[retry_count]


# The breaker opens after this many consecutive failures. It also opens if the share of failures
# among the recent requests exceeds the maximum.
_MAX_FAILURES_IN_A_ROW = 5
_RECENT_REQUESTS = 20
_MAX_FAILURE_SHARE = 0.3
# Seconds that an open breaker waits before it permits a trial request. They double after each
# failed trial, up to the maximum.
INITIAL_BREAKER_WAIT_SECONDS = 10.0
MAX_BREAKER_WAIT_SECONDS = 300.0
# If a trial request has no outcome after this many seconds, another one may be sent.
_TRIAL_SECONDS = 60.0


class BreakerState(IntEnum):
    """The state of a circuit breaker.

    The number is the value of its metric.
    """

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


@dataclass(slots=True)
class CircuitBreaker:
    """Stops requests for one method of an endpoint after too many failures.

    Times are in seconds; any monotonic clock will do.
    """

    _recent_outcomes: deque[bool] = field(default_factory=lambda: deque(maxlen=_RECENT_REQUESTS))
    _failures_in_a_row: int = 0
    _wait_seconds: float = INITIAL_BREAKER_WAIT_SECONDS
    # Time from which a trial request may be sent, or None if the breaker is closed.
    _trial_at: float | None = None
    _trial_until: float = 0.0
    _last_failure_at: float = 0.0

    def get_state(self, now: float) -> BreakerState:
        """Return the circuit breaker's state at a given time."""
        if self._trial_at is None:
            return BreakerState.CLOSED
        is_trial_allowed = now >= self._trial_at and now >= self._trial_until
        return BreakerState.HALF_OPEN if is_trial_allowed else BreakerState.OPEN

    def try_acquire_request_slot(self, now: float) -> bool:
        """Return whether a request may be sent now.

        A half-open breaker permits one request at a time.
        """
        state = self.get_state(now)
        if state is BreakerState.HALF_OPEN:
            self._trial_until = now + _TRIAL_SECONDS
        return state is not BreakerState.OPEN

    def record_success(self) -> None:
        """Record a response that does not count as a failure.

        A response to a trial request closes the breaker.
        """
        self._failures_in_a_row = 0
        if self._trial_at is not None:
            self._recent_outcomes.clear()
            self._trial_at = None
            self._wait_seconds = INITIAL_BREAKER_WAIT_SECONDS
            self._trial_until = 0.0
        self._recent_outcomes.append(True)

    def record_failure(self, now: float) -> None:
        """Record a failed request.

        A failed trial request doubles the wait until the next trial.
        """
        self._last_failure_at = now
        self._failures_in_a_row += 1
        self._recent_outcomes.append(False)
        if self._trial_at is not None:
            self._wait_seconds = min(MAX_BREAKER_WAIT_SECONDS, 2 * self._wait_seconds)
        elif self._failures_in_a_row < _MAX_FAILURES_IN_A_ROW and not self._is_error_rate_high():
            return
        self._trial_at = now + self._wait_seconds
        self._trial_until = 0.0

    def limit_wait(self, max_seconds: float) -> None:
        """Limit how long to wait for a trial request after the last failure.

        The wait is at most `max_seconds`.
        """
        if self._trial_at is not None:
            self._trial_at = min(self._trial_at, self._last_failure_at + max_seconds)

    def compute_failure_rate(self) -> float:
        """Return the share of failures among the last requests, from 0 to 1."""
        if self._recent_outcomes:
            return self._recent_outcomes.count(False) / len(self._recent_outcomes)
        return 0.0

    def _is_error_rate_high(self) -> bool:
        return (
            len(self._recent_outcomes) == _RECENT_REQUESTS
            and self.compute_failure_rate() > _MAX_FAILURE_SHARE
        )


T = TypeVar("T")

# Weight of the newest duration in a method's average latency.
_NEWEST_WEIGHT = 0.3
# Seconds for which a method is skipped after the endpoint has reported it as unsupported.
_UNSUPPORTED_SECONDS = 3600.0
# Kinds of errors that open a circuit breaker. After an error of another kind, the range is halved
# until a request succeeds, and an open breaker must not stop that.
_BREAKING_KINDS = {ErrorKind.UNREACHABLE, ErrorKind.SLOW, ErrorKind.INVALID, ErrorKind.REFUSED}
# Maximum wait for an endpoint's rate limit to permit a request if there is no other endpoint.
MAX_WAIT_IN_PLACE_SECONDS = 2.0
# Errors of these kinds are retried only if there is no alternative endpoint.
_RETRIED_IF_SOLE = {ErrorKind.THROTTLED, ErrorKind.NOT_THERE}


@dataclass(slots=True)
class EndpointHealth:
    """The health of the endpoint `name`.

    `clock` returns seconds.
    """

    name: str
    clock: Callable[[], float]
    rate_limiter: RateLimiter = field(init=False)
    # The backoff delays requests of the transaction manager after a rate limit or a slow response.
    backoff: Backoff = field(init=False)
    breaker_by_method: dict[str, CircuitBreaker] = field(default_factory=dict)
    # Average response time of each method, in seconds.
    latency_by_method: dict[str, float] = field(default_factory=dict)
    last_error_by_method: dict[str, str] = field(default_factory=dict)
    # Time until which each method is treated as unsupported.
    unsupported_until: dict[str, float] = field(default_factory=dict)
    # Budget for retries, and function that waits before a retry.
    retry_budget: RetryBudget = field(default_factory=RetryBudget)
    sleep: Callable[[float], None] = time.sleep
    # True if no other endpoint can replace this endpoint while it is rate-limited.
    is_sole: bool = False

    def __post_init__(self) -> None:
        self.rate_limiter, self.backoff = RateLimiter(self.clock), Backoff(self.clock)

    def send_once(
        self, method: str, call_count: int, send: Callable[[], list[Any]], *, ignore_backoff: bool
    ) -> list[Any]:
        """Send requests without retries.

        A backoff starts if the endpoint requests it. Circuit breakers are ignored. Their purpose
        is to switch to another endpoint, but these requests are sent to several endpoints to
        compare the results. With `ignore_backoff`, requests are sent even during a backoff, and
        their outcome does not change the backoff.

        Raises:
            RpcError: the endpoint is in backoff, or a response is missing.
        """
        backoff_seconds = self.get_backoff_seconds()
        if backoff_seconds > 0 and not ignore_backoff:
            raise RpcError(
                self.name, ErrorKind.BACKOFF, f"no requests for another {backoff_seconds:.1f} s"
            )
        self.rate_limiter.take_tokens(call_count)
        try:
            call_results = send()
        except RpcError as error:
            metrics.CALLS.labels(self.name, method, error.kind.value).inc()
            if backoff_seconds <= 0:
                self._start_backoff_if_needed(error)
            raise
        metrics.CALLS.labels(self.name, method, "answered").inc()
        refusals = [result for result in call_results if isinstance(result, CallRefusedError)]
        rate_limit_refusal = next(
            (refusal for refusal in refusals if refusal.is_rate_limited), None
        )
        if rate_limit_refusal is not None and backoff_seconds <= 0:
            self._start_backoff_if_needed(rate_limit_refusal)
        elif len(refusals) < len(call_results) and backoff_seconds <= 0:
            self.backoff.reset()
            self.rate_limiter.record_success(call_count)
        return call_results

    def get_backoff_seconds(self) -> float:
        """Return the seconds until the endpoint may be used, or 0 if it may be used now.

        The transaction manager uses this.
        """
        return max(self.backoff.get_remaining_seconds(), self.rate_limiter.get_blocked_seconds())

    def _start_backoff_if_needed(self, error: RpcError) -> None:
        """Start a backoff if the error is a rate limit or a slow response."""
        is_rate_limited = (
            (isinstance(error, CallRefusedError) and error.is_rate_limited)
            or error.retry_after is not None
            or error.kind is ErrorKind.THROTTLED
        )
        if is_rate_limited:
            self.rate_limiter.record_throttling(error.retry_after)
        if is_rate_limited or error.kind is ErrorKind.SLOW or isinstance(error, RpcTimeoutError):
            self.backoff.start(error.retry_after)

    def send_with_retries(self, method: str, call_count: int, send: Callable[[], T]) -> T:
        """Send one request, with a few immediate retries if it fails.

        The circuit breaker and the latency count the request once, however often it is retried.

        Raises:
            RpcError: the request failed, or was not sent because the method failed too often or is
                unsupported.
        """
        self._check_method_allowed(method)
        started_at = self.clock()
        retry_count = 0
        while True:
            attempt_started_at = self.clock()
            self.rate_limiter.take_tokens(call_count)
            try:
                response = send()
            except RpcError as error:
                metrics.CALLS.labels(self.name, method, error.kind.value).inc()
                self._record_rate_limit(error)
                pause_seconds = self._record_failure_and_get_pause(
                    error, retry_count, self.clock() - attempt_started_at
                )
                if pause_seconds is None:
                    self._record_failure(method, error, self.clock() - started_at)
                    raise
                retry_count += 1
                self.sleep(pause_seconds)
            else:
                self.retry_budget.record_success()
                self.rate_limiter.record_success(call_count)
                self._record_success(method, self.clock() - attempt_started_at)
                return response

    def _record_failure_and_get_pause(
        self, error: RpcError, retry_count: int, duration_seconds: float
    ) -> float | None:
        """Record a failure, and return the pause before a retry, or None for no retry.

        The pause is in seconds.
        """
        pause_seconds = self.retry_budget.record_failure(error, retry_count, duration_seconds)
        if pause_seconds is None or error.kind not in _RETRIED_IF_SOLE:
            return pause_seconds
        wait_seconds = max(pause_seconds, self.rate_limiter.get_wait_seconds())
        is_short_enough = (
            self.is_sole
            and not error.is_for_whole_batch
            and wait_seconds <= MAX_WAIT_IN_PLACE_SECONDS
        )
        return wait_seconds if is_short_enough else None

    def wait_if_only_endpoint(self) -> None:
        """Wait until the endpoint may be used, if it is the only one and the wait is short."""
        wait_seconds = self.rate_limiter.get_wait_seconds()
        if self.is_sole and 0 < wait_seconds <= MAX_WAIT_IN_PLACE_SECONDS:
            self.sleep(wait_seconds)

    def _record_rate_limit(self, error: RpcError) -> None:
        if error.kind is ErrorKind.THROTTLED:
            self.rate_limiter.record_throttling(error.retry_after)

    def supports_method(self, method: str) -> bool:
        """Return whether the endpoint supports a method, as far as known.

        The result is True until the endpoint reports otherwise.
        """
        return self.clock() >= self.unsupported_until.get(method, -math.inf)

    def compute_latency_excess(self, other_health: "EndpointHealth") -> float:
        """Return how many seconds slower this endpoint is than another.

        The result is the maximum over the methods that both endpoints have served.
        """
        # The dicts are copied, because other threads may change them during the iteration.
        own_latencies = self.latency_by_method.copy()
        other_latencies = other_health.latency_by_method.copy()
        shared_methods = own_latencies.keys() & other_latencies.keys()
        return max(
            (own_latencies[method] - other_latencies[method] for method in shared_methods),
            default=0.0,
        )

    def limit_breaker_wait(self, max_seconds: float) -> None:
        """Limit the wait of each method's circuit breaker after a failure.

        A trial request is allowed at the latest `max_seconds` after the failure.
        """
        for breaker in list(self.breaker_by_method.values()):
            breaker.limit_wait(max_seconds)

    def limit_rate_limit_wait(self, max_seconds: float) -> None:
        """Limit the pause that the endpoint last requested.

        The pause is at most `max_seconds`.
        """
        self.rate_limiter.limit_wait(max_seconds)
        self.backoff.limit_wait(max_seconds)

    def reset_latency(self) -> None:
        """Reset the latencies, so that the next responses measure them again."""
        self.latency_by_method.clear()

    def _check_method_allowed(self, method: str) -> None:
        if not self.supports_method(method):
            message = f"{method}: reported as unsupported within the last hour"
            raise RpcError(self.name, ErrorKind.UNSUPPORTED, message)
        breaker = self.breaker_by_method.get(method)
        if breaker is not None and not breaker.try_acquire_request_slot(self.clock()):
            last_error = self.last_error_by_method.get(method, "")
            message = f"{method} failed too often; last error: {last_error}"
            raise RpcError(self.name, ErrorKind.BACKOFF, message)

    def _record_success(self, method: str, duration_seconds: float) -> None:
        self._get_breaker(method).record_success()
        latency_seconds = self._record_latency(method, duration_seconds)
        metrics.CALLS.labels(self.name, method, "answered").inc()
        metrics.LATENCY.labels(self.name, method).set(latency_seconds)
        self._update_metrics(method)

    def _record_failure(self, method: str, error: RpcError, duration_seconds: float) -> None:
        if error.is_for_whole_batch or error.kind is ErrorKind.THROTTLED:
            # Nothing is recorded. The caller sends a smaller batch, or the rate limiter delays the
            # next request.
            pass
        elif error.kind is ErrorKind.UNSUPPORTED and method not in self.latency_by_method:
            # Mark only a method that has never worked. If the method worked before, a parameter
            # must have caused the error.
            self.unsupported_until[method] = self.clock() + _UNSUPPORTED_SECONDS
        elif error.kind is ErrorKind.SLOW and not isinstance(error, RpcTimeoutError):
            # The endpoint reports that its own time limit was exceeded. This is not a failure,
            # because the caller divides the range until the endpoint can return it.
            self._get_breaker(method).record_success()
        elif error.kind in _BREAKING_KINDS:
            self._get_breaker(method).record_failure(self.clock())
            self.last_error_by_method[method] = error.detail
            if error.kind is ErrorKind.SLOW:
                self._record_latency(method, duration_seconds)
        elif error.kind in BLAMELESS:
            self._get_breaker(method).record_success()
        self._update_metrics(method)

    def _record_latency(self, method: str, duration_seconds: float) -> float:
        """Add a duration to the method's moving average, and return the average."""
        mean_latency = self.latency_by_method.get(method, duration_seconds)
        mean_latency += _NEWEST_WEIGHT * (duration_seconds - mean_latency)
        self.latency_by_method[method] = mean_latency
        return mean_latency

    def _get_breaker(self, method: str) -> CircuitBreaker:
        return self.breaker_by_method.setdefault(method, CircuitBreaker())

    def _update_metrics(self, method: str) -> None:
        breaker = self.breaker_by_method.get(method)
        state = BreakerState.CLOSED if breaker is None else breaker.get_state(self.clock())
        metrics.CIRCUIT_STATE.labels(self.name, method).set(state)
        rate = self.rate_limiter.rate
        metrics.RATE_LIMIT.labels(self.name).set(0 if rate == math.inf else rate)
