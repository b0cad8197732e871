"""Windows of time (UTC months, or a number of seconds), compared with Python's calendar."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from oracle.domain.scoring.legacy_tally import compute_window_number, compute_window_start
from tests.unit.systems.legacy.networks import legacy_with

MONTHS = legacy_with(window_seconds=None)
LAST = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
times = st.integers(0, LAST)


@given(times)
def test_month_window_matches_calendar(time):
    utc_time = datetime.fromtimestamp(time, UTC)
    assert compute_window_number(time, MONTHS) == (utc_time.year - 1970) * 12 + utc_time.month - 1


@given(st.integers(1970, 9999), st.integers(1, 12))
def test_month_window_starts_at_midnight_on_first_day(year, month):
    first = int(datetime(year, month, 1, tzinfo=UTC).timestamp())
    window = (year - 1970) * 12 + month - 1
    assert compute_window_start(window, MONTHS) == first
    assert compute_window_number(first, MONTHS) == window
    assert compute_window_number(first - 1, MONTHS) == window - 1


@given(st.integers(0, 2**63 - 1), st.none() | st.integers(1, 10**9))
def test_every_time_lies_within_its_window(time, seconds):
    legacy = legacy_with(window_seconds=seconds)
    window = compute_window_number(time, legacy)
    assert compute_window_start(window, legacy) <= time < compute_window_start(window + 1, legacy)


@pytest.mark.parametrize(
    ("seconds", "time", "window"), [(60, 59, 0), (60, 60, 1), (7, 0, 0), (86_400, 10**6, 11)]
)
def test_window_in_seconds_is_counted_from_epoch(seconds, time, window):
    assert compute_window_number(time, legacy_with(window_seconds=seconds)) == window
