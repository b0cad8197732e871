"""Concurrent requests for the same response share one computation."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest
from typing_extensions import override

from oracle.daemon.web.answer_cache import SingleFlight

PATIENCE_SECONDS = 60.0


class Counted(Event):
    """An event that reports when a number of threads wait for it."""

    def __init__(self, waiter_count: int) -> None:
        super().__init__()
        self.all_wait = Barrier(waiter_count + 1)

    @override
    def wait(self, timeout: float | None = None) -> bool:
        self.all_wait.wait(PATIENCE_SECONDS)
        return super().wait(timeout)


def test_concurrent_identical_requests_share_one_response():
    flights = SingleFlight[str](1, PATIENCE_SECONDS)
    is_made = Event()
    makes = []
    waiters = Counted(19)

    def make() -> str:
        makes.append(1)
        flights._pending_by_key["/"].finished = waiters
        is_made.set()
        waiters.all_wait.wait(PATIENCE_SECONDS)
        return "the page"

    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(flights.get_or_make, "/", make)
        assert is_made.wait(PATIENCE_SECONDS)
        answers = [first, *(pool.submit(flights.get_or_make, "/", make) for _ in range(19))]
        responses = [future.result(PATIENCE_SECONDS) for future in answers]

    assert (responses, makes) == (["the page"] * 20, [1])


def test_request_returns_none_if_no_slot_is_free():
    flights = SingleFlight[str](1, PATIENCE_SECONDS)
    is_made = Event()
    goes_on = Event()

    def make() -> str:
        is_made.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        return "slow"

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(flights.get_or_make, "/slow", make)
        assert is_made.wait(PATIENCE_SECONDS)
        assert flights.get_or_make("/other", lambda: "never") is None
        goes_on.set()
        assert slow.result(PATIENCE_SECONDS) == "slow"
    assert flights.get_or_make("/other", lambda: "now") == "now"


def test_waiting_request_retries_after_the_shared_one_fails():
    flights = SingleFlight[str](2, PATIENCE_SECONDS)
    is_made = Event()
    goes_on = Event()

    def fail() -> str:
        is_made.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        raise ValueError("no")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(flights.get_or_make, "/", fail)
        assert is_made.wait(PATIENCE_SECONDS)
        second = pool.submit(flights.get_or_make, "/", lambda: "well")
        goes_on.set()
        with pytest.raises(ValueError, match="no"):
            first.result(PATIENCE_SECONDS)
        assert second.result(PATIENCE_SECONDS) == "well"


def test_waiting_request_computes_its_own_response_after_a_timeout():
    flights = SingleFlight[str](2, 0.01)
    is_made = Event()
    goes_on = Event()

    def make() -> str:
        is_made.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        return "late"

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(flights.get_or_make, "/", make)
        assert is_made.wait(PATIENCE_SECONDS)
        assert flights.get_or_make("/", lambda: "my own") == "my own"
        goes_on.set()
        assert slow.result(PATIENCE_SECONDS) == "late"
