"""The article's memory equals a plain count of the last five minutes of any history."""

from statistics import median

import pytest
from hypothesis import given, strategies as st

from oracle.domain.ids import Address
from oracle.systems.pocket.js_arithmetic import round_to_five_decimals
from oracle.systems.pocket.node_selector import ArticleMemory
from oracle.systems.pocket.parameters import ARTICLE
from oracle.systems.pocket.ranking import NodeStats
from tests.support.examples import examples

A = Address("a")
WINDOW, EACH, CAP = ARTICLE.window_ms, ARTICLE.out_ms_per_failure, ARTICLE.out_cap_ms
# The outcome, and the milliseconds since the previous one.
_gaps = st.sampled_from((0, 0, 1, 999, 5_999, 6_000, 150_000, 299_999, 300_000, 300_001))
_outcomes = st.lists(
    st.tuples(_gaps, st.none() | st.sampled_from((0.05, 0.15, 0.2, 0.3, 9.0))), max_size=40
)


def count_outcomes(latencies: list[tuple[int, float | None]], now: int) -> NodeStats:
    """Count the outcomes in (now - window, now], and add up the penalties of failures."""
    recent_latencies = [latency for at, latency in latencies if now - WINDOW < at <= now]
    good = sorted(latency for latency in recent_latencies if latency is not None)
    out_until = 0
    for at, latency in latencies:
        if latency is None:
            out_until = min(at + CAP, max(out_until, at) + EACH)
    is_out = now < out_until
    if not good:
        rate = 0.0 if recent_latencies else 1.0
        stats = NodeStats(A, len(recent_latencies), rate, 0.0, 0.0, is_out)
    else:
        place = (len(good) - 1) * 0.9
        low = good[int(place)]
        high = good[min(int(place) + 1, len(good) - 1)]
        p90 = low + (place - int(place)) * (high - low)
        weighted = median(good) + (0.3 * p90 if len(recent_latencies) > 20 else 0)
        stats = NodeStats(
            A, len(recent_latencies), len(good) / len(recent_latencies),
            round_to_five_decimals(median(good)), round_to_five_decimals(weighted), is_out, p90,
        )  # fmt: skip
    return stats._replace(out_until_ms=out_until) if is_out else stats


def near(stats: NodeStats) -> tuple[object, ...]:
    """Compare approximately: interpolation rounds the last bits."""
    return tuple(
        pytest.approx(field, abs=2e-5) if isinstance(field, float) else field for field in stats
    )


@examples(200)
@given(outcomes=_outcomes, later=_gaps, asks=st.booleans())
def test_stats_match_outcomes_of_last_five_minutes(outcomes, later, asks):
    memory = ArticleMemory(ARTICLE)
    latencies = list[tuple[int, float | None]]()
    now = 0
    for gap, latency in outcomes:
        now += gap
        latencies.append((now, latency))
        if latency is None:
            memory.record_failure(A, now)
        else:
            memory.record_success(A, latency, now)
        if asks:
            assert tuple(memory.compute_stats(A, now)) == near(count_outcomes(latencies, now))
    assert tuple(memory.compute_stats(A, now + later)) == near(
        count_outcomes(latencies, now + later)
    )


@examples(60)
@given(outcomes=_outcomes, query_times=st.lists(st.integers(0, 10**7), max_size=5))
def test_computing_stats_does_not_change_later_stats(outcomes, query_times):
    unqueried_memory = ArticleMemory(ARTICLE)
    queried_memory = ArticleMemory(ARTICLE)
    now = 0
    for gap, latency in outcomes:
        now += gap
        for memory in (unqueried_memory, queried_memory):
            memory.record_failure(A, now) if latency is None else memory.record_success(
                A, latency, now
            )
        for time in query_times:
            queried_memory.compute_stats(A, time)
    assert queried_memory.compute_stats(A, now) == unqueried_memory.compute_stats(A, now)


@examples(60)
@given(times=st.lists(st.integers(0, WINDOW - 1), min_size=1, max_size=30))
def test_successes_recorded_late_count_as_if_recorded_in_order(times):
    late = ArticleMemory(ARTICLE)
    in_time = ArticleMemory(ARTICLE)
    for at in times:
        late.record_success(A, at / WINDOW, at)
    for at in sorted(times):
        in_time.record_success(A, at / WINDOW, at)
    for now in (*times, WINDOW, 2 * WINDOW):
        assert late.compute_stats(A, now) == in_time.compute_stats(A, now)


def test_future_outcomes_do_not_count():
    memory = ArticleMemory(ARTICLE)
    memory.record_success(A, 0.1, 5_000)
    assert (memory.compute_stats(A, 4_999).attempts, memory.compute_stats(A, 5_000).attempts) == (
        0,
        1,
    )


def test_failure_recorded_late_does_not_shorten_exclusion_time():
    memory = ArticleMemory(ARTICLE)
    for _ in range(60):
        memory.record_failure(A, 100_000)
    memory.record_failure(A, 1_000)
    assert memory.compute_stats(A, 399_999).failing


def test_passed_health_check_ends_only_the_current_failure():
    memory = ArticleMemory(ARTICLE)
    memory.record_failure(A, 0)
    memory.record_passed_health_check(A, 3_000)
    assert not memory.compute_stats(A, 3_000).failing
    memory.record_failure(A, 4_000)
    assert memory.compute_stats(A, 9_999).failing


def test_only_outcomes_within_window_are_kept():
    memory = ArticleMemory(ARTICLE)
    for n in range(5_000):
        memory.record_success(A, 0.1, n * 1_000)
    assert memory.compute_stats(A, 4_999_000).attempts == 300
    assert len(memory._windows[A]._outcomes) == 300
