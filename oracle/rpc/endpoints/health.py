"""Health of one endpoint: circuit breaker and latency by method, retry budget, learned limits.

Every request to the endpoint is recorded here, and requests that are known to fail are refused.
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

# Pauses before the second, third and fourth try, in seconds.
PAUSES = (0.05, 0.2, 0.5)
# What may pass by itself at once; an answer that was cut off may also be too long.
_TRIES = {
    ErrorKind.UNREACHABLE: 3,
    ErrorKind.INVALID: 3,
    ErrorKind.THROTTLED: 3,
    ErrorKind.NOT_THERE: 2,
    ErrorKind.CUT: 1,
}
# Each failure costs one, each answer gives one back; above half of it questions are asked again.
_MOST = 10
# What took longer to fail is not worth another try of the same, in seconds.
_QUICK_SECONDS = 1.0


@dataclass(slots=True)
class RetryBudget:
    """How often failed requests to one endpoint may be repeated at once; thread-safe.

    A broken connection, an error page of a proxy or a busy node behind the address passes at the
    next request. Requests to an endpoint that mostly fails are not repeated.
    """

    _left: int = _MOST
    _lock: Lock = field(default_factory=Lock, repr=False)

    def succeeded(self) -> None:
        """Note an answer."""
        with self._lock:
            self._left = min(_MOST, self._left + 1)

    def pause(self, error: RpcError, tries: int, took: float) -> float | None:
        """Note a failure after so many tries again, which took so many seconds.

        Returns after how many seconds to ask the same once more; None: not at once.
        """
        with self._lock:
            self._left = max(0, self._left - (error.kind not in BLAMELESS))
            is_often = self._left > _MOST // 2
        if not is_often or took > _QUICK_SECONDS or tries >= _TRIES.get(error.kind, 0):
            return None
        return PAUSES[tries]


# Failures in a row that open it, or a share of the last ones.
_IN_A_ROW = 5
_LAST = 20
_SHARE = 0.3
# Until it is tried again: doubling from one to the other, in seconds.
FIRST_WAIT = 10.0
LONGEST_WAIT = 300.0
# A trial that is not heard of for so long is over.
_TRIAL_SECONDS = 60.0


class State(IntEnum):
    """How far it lets questions through; the number is what the metric shows."""

    CLOSED = 0
    ON_TRIAL = 1
    OPEN = 2


@dataclass(slots=True)
class CircuitBreaker:
    """Stops one method of one endpoint after too many failures; times are seconds of any clock."""

    _ended: deque[bool] = field(default_factory=lambda: deque(maxlen=_LAST))
    _in_a_row: int = 0
    _wait: float = FIRST_WAIT
    # When it may be tried; None: closed.
    _opens_at: float | None = None
    _trial_until: float = 0.0
    _failed_at: float = 0.0

    def state(self, now: float) -> State:
        """Return how far it lets questions through now."""
        if self._opens_at is None:
            return State.CLOSED
        is_free = now >= self._opens_at and now >= self._trial_until
        return State.ON_TRIAL if is_free else State.OPEN

    def try_acquire(self, now: float) -> bool:
        """Tell whether to ask now; on trial only one question at a time passes."""
        state = self.state(now)
        if state is State.ON_TRIAL:
            self._trial_until = now + _TRIAL_SECONDS
        return state is not State.OPEN

    def succeeded(self) -> None:
        """Note an answer; one that was a trial closes the breaker."""
        self._in_a_row = 0
        if self._opens_at is not None:
            self._ended.clear()
            self._opens_at, self._wait, self._trial_until = None, FIRST_WAIT, 0.0
        self._ended.append(True)

    def failed(self, now: float) -> None:
        """Note a failure; a trial that fails doubles the wait."""
        self._failed_at = now
        self._in_a_row += 1
        self._ended.append(False)
        if self._opens_at is not None:
            self._wait = min(LONGEST_WAIT, 2 * self._wait)
        elif self._in_a_row < _IN_A_ROW and not self._is_error_rate_high():
            return
        self._opens_at, self._trial_until = now + self._wait, 0.0

    def wait_at_most(self, seconds: float) -> None:
        """Let a question pass so long after the last failure: there is news, or nobody else."""
        if self._opens_at is not None:
            self._opens_at = min(self._opens_at, self._failed_at + seconds)

    def failing_share(self) -> float:
        """Return the share of failures among the last questions, 0 to 1."""
        return self._ended.count(False) / len(self._ended) if self._ended else 0.0

    def _is_error_rate_high(self) -> bool:
        return len(self._ended) == _LAST and self.failing_share() > _SHARE


T = TypeVar("T")

# Weight of the newest answer in the running means.
_NEWEST = 0.3
# For so long a method is not asked for that the endpoint said it does not have.
_OFF_SECONDS = 3600.0
# What counts against a method. Others are answers to a question that may be cut in two, again
# and again, and must not end that.
_BREAKING = {ErrorKind.UNREACHABLE, ErrorKind.SLOW, ErrorKind.INVALID, ErrorKind.REFUSED}
# Who is asked alone, and wants to be left alone for no longer, is waited for in place; seconds.
LONGEST_WAIT_IN_PLACE = 2.0
# Where another endpoint may be asked, it is asked at once.
_ALONE = {ErrorKind.THROTTLED, ErrorKind.NOT_THERE}


@dataclass(slots=True)
class LatencyMean:
    """Running mean of what answers take, in seconds; None before the first."""

    seconds: float | None = None

    def record_duration(self, seconds: float) -> None:
        """Take in one answer."""
        mean = self.seconds
        self.seconds = seconds if mean is None else mean + _NEWEST * (seconds - mean)


@dataclass(slots=True)
class Health:
    """Of the endpoint of this name; `clock` counts seconds."""

    name: str
    clock: Callable[[], float]
    bucket: RateLimiter = field(init=False)
    # How long who sends leaves it alone: it asked us to wait, or kept us waiting.
    backoff: Backoff = field(init=False)
    breakers: dict[str, CircuitBreaker] = field(default_factory=dict)
    speeds: dict[str, LatencyMean] = field(default_factory=dict)
    # What was said when a method failed last.
    last_words: dict[str, str] = field(default_factory=dict)
    # Until when a method counts as not there.
    off_until: dict[str, float] = field(default_factory=dict)
    # What may be asked again at once, and how that is waited for.
    retries: RetryBudget = field(default_factory=RetryBudget)
    pause: Callable[[float], None] = time.sleep
    # Whether there is nobody else to be asked while this one wants us to wait.
    is_alone: bool = False

    def __post_init__(self) -> None:
        self.bucket, self.backoff = RateLimiter(self.clock), Backoff(self.clock)

    def asking_once(
        self, method: str, calls: int, ask: Callable[[], list[Any]], *, is_pressing: bool
    ) -> list[Any]:
        """Watch over questions that nobody may repeat; what is asked to wait is left alone.

        Breakers are passed by: they spare an endpoint what another one answers as well, and here
        several are asked for the sake of their agreement. `is_pressing`: asked all the same, and
        what it says then says nothing about how long to leave it alone.

        Raises:
            RpcError: it is left alone now; or it was asked, and something is missing.
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
        """Return for how many seconds who sends asks it nothing; 0: it may be asked."""
        return max(self.backoff.left(), self.bucket.blocked())

    def _leave_alone(self, error: RpcError) -> None:
        """Begin to, where it asks us to wait or kept us waiting; a refusal costs nothing."""
        asks = error.is_rate_limited if isinstance(error, CallRefusedError) else False
        asks = asks or error.retry_after is not None or error.kind is ErrorKind.THROTTLED
        if asks:
            self.bucket.refused(error.retry_after)
        if asks or error.kind is ErrorKind.SLOW or isinstance(error, RpcTimeoutError):
            self.backoff.begin(error.retry_after)

    def asking(self, method: str, calls: int, ask: Callable[[], T]) -> T:
        """Watch over one question, which is asked again a few times where it fails at once.

        Its breaker and its speed hear of the question and not of each try.

        Raises:
            RpcError: it is not asked: the method failed too often, or is not there; or it
                was, and failed.
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
        """Return after how many seconds to ask the same once more; None: not here and now."""
        pause = self.retries.pause(error, tries, took)
        if pause is None or error.kind not in _ALONE:
            return pause
        wait = max(pause, self.bucket.wait())
        is_bearable = self.is_alone and not error.of_batch and wait <= LONGEST_WAIT_IN_PLACE
        return wait if is_bearable else None

    def bear(self) -> None:
        """Wait until it may be asked, where there is nobody else and that is soon."""
        wait = self.bucket.wait()
        if self.is_alone and 0 < wait <= LONGEST_WAIT_IN_PLACE:
            self.pause(wait)

    def _note_refusal(self, error: RpcError) -> None:
        if error.kind is ErrorKind.THROTTLED:
            self.bucket.refused(error.retry_after)

    def has(self, method: str) -> bool:
        """Tell whether the endpoint has the method, as far as it is known."""
        return self.clock() >= self.off_until.get(method, -math.inf)

    def slower_than(self, other: "Health") -> float:
        """Return by how much this one is slower at what both were asked; seconds of an answer."""
        # Copies: meanwhile other threads learn, and forget.
        mine, theirs = self.speeds.copy(), other.speeds.copy()
        shared = mine.keys() & theirs.keys()
        pairs = [(mine[m].seconds or 0, theirs[m].seconds or 0) for m in shared]
        return max((ours - others for ours, others in pairs), default=0.0)

    def wait_at_most(self, seconds: float) -> None:
        """Let one question of each method pass so long after its last failure."""
        for breaker in list(self.breakers.values()):
            breaker.wait_at_most(seconds)

    def forget_speed(self) -> None:
        """Let the next answers say anew how fast it is."""
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
            # It minds the size of the batch, a smaller one follows; or it is for the bucket.
            pass
        elif error.kind is ErrorKind.UNSUPPORTED and method not in self.speeds:
            # What has answered before is there: then it is a parameter that is not known.
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
