"""A connection is checked soon, and then after intervals that double."""

from itertools import pairwise

from hypothesis import given, strategies as st

from oracle.daemon.web.acceptor import RecheckSchedule
from tests.support.examples import examples


def looks_of(seconds: float) -> list[float]:
    """Return the times at which a silent connection is checked."""
    schedule = RecheckSchedule[str]()
    times = list[float]()
    schedule.add_connection("one", 0.0, 0)
    while (at := schedule.get_next_check_time()) is not None and at <= seconds:
        assert schedule.take_due_connections(at, 9) == ["one"]
        times.append(at)
        schedule.add_connection("one", at, len(times))
    return times


def test_connection_checks_start_immediately_and_back_off():
    times = looks_of(10.0)
    assert times[0] <= 0.005
    assert len(times) <= 14
    # Received data is noticed after at most twice the time that it took to arrive.
    assert all(later <= 2.01 * earlier + 0.01 for earlier, later in pairwise(times))


@examples(100)
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 20))), st.integers(1, 5))
def test_every_connection_is_checked_once_in_limited_batches(arrivals, max_due):
    schedule = RecheckSchedule[int]()
    for number, (at, check_count) in enumerate(sorted(arrivals)):
        schedule.add_connection(number, at, check_count)
    due_numbers: list[int] = []
    while (at := schedule.get_next_check_time()) is not None:
        due = schedule.take_due_connections(at, max_due)
        assert 1 <= len(due) <= max_due
        due_numbers += due
    assert sorted(due_numbers) == list(range(len(arrivals)))
    assert schedule.take_due_connections(1e9, max_due) == []
