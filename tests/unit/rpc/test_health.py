"""Circuit breakers and token buckets, for any sequence of results."""

import math

import pytest
from hypothesis import given, strategies as st

from devnet.fakechain.virtual_clock import VirtualClock
from oracle.rpc.endpoints.health import (
    INITIAL_BREAKER_WAIT_SECONDS,
    MAX_BREAKER_WAIT_SECONDS,
    BreakerState,
    CircuitBreaker,
    RetryBudget,
)
from oracle.rpc.endpoints.rate_limiter import RateLimiter
from oracle.rpc.rpc_errors import ErrorKind, RpcError


def open_breaker(at: float = 0.0) -> CircuitBreaker:
    breaker = CircuitBreaker()
    for _ in range(5):
        breaker.record_failure(at)
    return breaker


def test_five_consecutive_failures_open_breaker_for_ten_seconds():
    breaker = open_breaker()

    assert not breaker.try_acquire_request_slot(INITIAL_BREAKER_WAIT_SECONDS - 0.1)
    assert breaker.try_acquire_request_slot(INITIAL_BREAKER_WAIT_SECONDS)


@pytest.mark.parametrize(("every", "opens"), [(4, False), (3, True)])
def test_breaker_opens_after_four_failures_in_ten_requests(every, opens):
    breaker = CircuitBreaker()
    states = set()
    for turn in range(40):
        if turn % every:
            breaker.record_success()
        else:
            breaker.record_failure(0.0)
        states.add(breaker.get_state(0.0))

    assert (BreakerState.OPEN in states) is opens


def test_half_open_breaker_admits_only_one_request():
    breaker = open_breaker()

    assert breaker.try_acquire_request_slot(INITIAL_BREAKER_WAIT_SECONDS)
    assert not breaker.try_acquire_request_slot(INITIAL_BREAKER_WAIT_SECONDS)
    breaker.record_success()
    assert breaker.get_state(INITIAL_BREAKER_WAIT_SECONDS) is BreakerState.CLOSED


def test_failed_trial_doubles_the_wait_up_to_five_minutes():
    breaker = open_breaker()
    now = 0.0
    waits = []
    for _ in range(8):
        began = now
        while not breaker.try_acquire_request_slot(now):
            now += 5
        waits.append(now - began)
        breaker.record_failure(now)

    assert waits == [10, 20, 40, 80, 160, 300, 300, 300]
    assert max(waits) == MAX_BREAKER_WAIT_SECONDS


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 400)), max_size=60))
def test_breaker_is_never_open_longer_than_max_wait(history):
    breaker = CircuitBreaker()
    now = 0.0
    for works, passes in history:
        now += passes
        if breaker.try_acquire_request_slot(now):
            if works:
                breaker.record_success()
            else:
                breaker.record_failure(now)

    assert breaker.get_state(now + MAX_BREAKER_WAIT_SECONDS + 60) is not BreakerState.OPEN


def bucket(clock: VirtualClock) -> RateLimiter:
    return RateLimiter(clock, jitter=lambda: 1.0)


def test_token_bucket_without_throttling_is_unlimited():
    clock = VirtualClock()
    full = bucket(clock)
    full.take_tokens(100_000)

    assert (full.rate, full.get_wait_seconds()) == (math.inf, 0.0)


def test_throttling_doubles_the_wait_up_to_30_seconds():
    clock = VirtualClock()
    token_bucket = bucket(clock)
    waits = []
    for _ in range(9):
        token_bucket.record_throttling(None)
        waits.append(token_bucket.get_wait_seconds())
        clock.advance(token_bucket.get_wait_seconds())

    assert waits == pytest.approx([0.25, 0.5, 1, 2, 4, 8, 16, 30, 30])


@pytest.mark.slow
@given(
    st.lists(st.one_of(st.just("refused"), st.integers(1, 200), st.floats(0.1, 20)), max_size=40)
)
def test_throttled_token_bucket_never_exceeds_its_rate(history):
    """Work that has begun may overdraw the bucket; the debt is paid before the next call."""
    clock = VirtualClock()
    token_bucket = bucket(clock)
    token_bucket.record_throttling(0.0)
    for event in history:
        if event == "refused":
            token_bucket.record_throttling(0.0)
        elif isinstance(event, int):
            rate = token_bucket.rate
            if token_bucket.get_wait_seconds() == 0 and rate < math.inf:
                token_bucket.take_tokens(event)
                # Without refusals, rates grow by half a call per second each second.
                owed = event - max(1.0, rate)
                assert token_bucket.get_wait_seconds() <= max(0.0, event / rate)
                assert owed <= 0 or token_bucket.get_wait_seconds() > 0
        else:
            clock.advance(event)


def test_repeated_throttling_keeps_half_of_the_sustained_rate():
    clock = VirtualClock()
    token_bucket = bucket(clock)
    for _ in range(60):
        for _ in range(20):
            token_bucket.take_tokens(1)
            token_bucket.record_success()
        token_bucket.record_throttling(0.0)
        clock.advance(1.0)

    assert token_bucket.rate >= 10


def test_throttling_halves_sustained_rate():
    clock = VirtualClock()
    token_bucket = bucket(clock)
    token_bucket.take_tokens(20)
    token_bucket.record_success(20)
    for _ in range(20):
        token_bucket.record_throttling(0.0)

    assert token_bucket.rate == 10


def test_sustained_rate_expires_after_two_minutes():
    clock = VirtualClock()
    token_bucket = bucket(clock)
    token_bucket.record_success(20)
    clock.advance(130)
    token_bucket.record_success()
    for _ in range(20):
        token_bucket.record_throttling(0.0)

    assert token_bucket.rate < 1


def failure(kind: ErrorKind) -> RpcError:
    return RpcError("http://one.example", kind, "words")


@pytest.mark.parametrize(
    ("kind", "pauses"),
    [
        (ErrorKind.UNREACHABLE, [0.05, 0.2, 0.5, None]),
        (ErrorKind.INVALID, [0.05, 0.2, 0.5, None]),
        (ErrorKind.CUT, [0.05, None, None, None]),
        (ErrorKind.SLOW, [None] * 4),
        (ErrorKind.REFUSED, [None] * 4),
    ],
)
def test_kind_of_a_fast_failure_determines_its_retries(
    kind: ErrorKind, pauses: list[float | None]
):
    budget = RetryBudget()

    assert [budget.record_failure(failure(kind), tries, 0.0) for tries in range(4)] == pauses


def test_retry_budget_is_exhausted_until_requests_succeed():
    budget = RetryBudget()
    away = [budget.record_failure(failure(ErrorKind.UNREACHABLE), 0, 0.0) for _ in range(20)]
    for _ in range(7):
        budget.record_success()

    assert away[5:] == [None] * 15
    assert budget.record_failure(failure(ErrorKind.UNREACHABLE), 0, 0.0) is not None


def test_slow_failure_is_not_retried():
    assert RetryBudget().record_failure(failure(ErrorKind.UNREACHABLE), 0, 5.0) is None
