"""Case 55: a websocket that is silent, ends, or sends heads twice or in reverse order."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event

import pytest

from devnet.fakechain.virtual_clock import VirtualClock
from devnet.fakechain.websocket import PushServer, serve_websocket
from oracle.errors import InputError
from oracle.rpc.new_heads import PAUSE_SECONDS, NewHeadSubscription, PolledHead
from tests.faults.ingest.conftest import OpenIndexer
from tests.support.ingest.endpoints import read_metric
from tests.support.ingest.fake_chain import FakeChain
from tests.support.ingest.indexer import Indexer

# A test that waits for longer has failed.
_PATIENCE_SECONDS = 120.0


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be so"
        time.sleep(0.005)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def until_the_end() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def line(fake_chain: FakeChain, until_the_end: ExitStack) -> PushServer:
    return until_the_end.enter_context(serve_websocket(fake_chain.provider))


@pytest.fixture
def indexer(fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock) -> Indexer:
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    return indexer


@pytest.fixture
def woken(
    line: PushServer, indexer: Indexer, clock: VirtualClock, until_the_end: ExitStack
) -> Event:
    """Return an event that is set at each notice of the websocket, which is already subscribed."""
    woken = Event()
    tracker = indexer.source.tracker

    def read_polled_head() -> PolledHead:
        return PolledHead(tracker.newest_number, tracker.block_seconds)

    wakeups = NewHeadSubscription(line.url, woken.set, read_polled_head, clock, check_seconds=0.02)
    until_the_end.callback(wakeups.stop)
    wakeups.start()
    wait_until(lambda: line.subscription_count == 1)
    return woken


def test_new_head_wakes_indexer(fake_chain: FakeChain, woken: Event):
    fake_chain.live(1)

    assert woken.wait(_PATIENCE_SECONDS)


def test_case_55_silent_websocket_is_reconnected_when_polling_finds_blocks(
    fake_chain: FakeChain, indexer: Indexer, line: PushServer, woken: Event, clock: VirtualClock
):
    before = read_metric("oracle_websocket_failures_total", reason="silent")
    line.is_silent = True
    # Three blocks of twelve seconds are borne, as long as polling sees none.
    clock.advance(1_000)
    fake_chain.live(1)
    indexer.index()

    wait_until(lambda: line.subscription_count == 2)

    assert read_metric("oracle_websocket_failures_total", reason="silent") == before + 1
    assert not woken.is_set()
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_55_websocket_backs_off_for_five_minutes_after_two_failures(
    fake_chain: FakeChain, indexer: Indexer, line: PushServer, woken: Event, clock: VirtualClock
):
    failures = read_metric("oracle_websocket_failures_total", reason="silent")
    line.is_silent = True
    for round_ in (1, 2):
        wait_until(lambda round_=round_: line.subscription_count == round_)  # type: ignore[misc]  # mypy cannot infer it
        clock.advance(37)
        fake_chain.live(1)
        indexer.index()
        wait_until(
            lambda round_=round_: (  # type: ignore[misc]  # mypy cannot infer it
                read_metric("oracle_websocket_failures_total", reason="silent")
                == failures + round_
            )
        )
    line.is_silent = False

    clock.advance(PAUSE_SECONDS - 1)
    # It polls fifty times a second.
    assert not woken.wait(0.2)
    assert line.subscription_count == 2
    clock.advance(1)
    wait_until(lambda: line.subscription_count == 3)
    fake_chain.live(1)
    assert woken.wait(_PATIENCE_SECONDS)


def test_case_55_repeatedly_closed_websocket_leaves_no_gap(
    fake_chain: FakeChain, indexer: Indexer, line: PushServer, woken: Event
):
    for round_ in range(1, 5):
        wait_until(lambda round_=round_: line.subscription_count == round_)  # type: ignore[misc]  # mypy cannot infer it
        line.remaining_heads = 1
        fake_chain.live(1)
        assert woken.wait(_PATIENCE_SECONDS)
        woken.clear()
        # While there is no listener.
        fake_chain.live(1)
        indexer.index()

    assert indexer.cursor == (38, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize("wrong", ["sends_twice", "reverses_pairs"])
def test_case_55_duplicate_or_unordered_heads_change_nothing(
    fake_chain: FakeChain, indexer: Indexer, line: PushServer, woken: Event, wrong: str
):
    setattr(line, wrong, True)
    for _ in range(6):
        fake_chain.live(1)
        if woken.wait(0.05):
            woken.clear()
            indexer.index()
    fake_chain.live(2)
    assert woken.wait(_PATIENCE_SECONDS)
    indexer.index()

    assert indexer.cursor == (38, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()


def test_non_websocket_url_raises_input_error(clock: VirtualClock):
    with pytest.raises(InputError, match=r"\[chain\] websocket: .*ws:// or wss://"):
        NewHeadSubscription("http://localhost", lambda: None, lambda: PolledHead(0, 0.0), clock)


def test_websocket_name_omits_the_credentials_in_its_url(clock: VirtualClock):
    url = "wss://me:hunter2pw@localhost:1/v3/0123456789abcdefkey"

    wakeups = NewHeadSubscription(url, lambda: None, lambda: PolledHead(0, 0.0), clock)

    assert wakeups.name == "wss://localhost:1"
