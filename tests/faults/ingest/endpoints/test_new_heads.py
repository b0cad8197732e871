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
def exit_stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def push_server(fake_chain: FakeChain, exit_stack: ExitStack) -> PushServer:
    return exit_stack.enter_context(serve_websocket(fake_chain.provider))


@pytest.fixture
def indexer(fake_chain: FakeChain, open_indexer: OpenIndexer, clock: VirtualClock) -> Indexer:
    indexer = open_indexer(fake_chain.urls[0], clock=clock)
    indexer.index()
    return indexer


@pytest.fixture
def wakeup_event(
    push_server: PushServer, indexer: Indexer, clock: VirtualClock, exit_stack: ExitStack
) -> Event:
    """Return an event that is set at each notice of the websocket, which is already subscribed."""
    wakeup_event = Event()
    tracker = indexer.source.tracker

    def read_polled_head() -> PolledHead:
        return PolledHead(tracker.newest_number, tracker.block_seconds)

    wakeups = NewHeadSubscription(
        push_server.url, wakeup_event.set, read_polled_head, clock, check_seconds=0.02
    )
    exit_stack.callback(wakeups.stop)
    wakeups.start()
    wait_until(lambda: push_server.subscription_count == 1)
    return wakeup_event


def test_new_head_wakes_the_indexer(fake_chain: FakeChain, wakeup_event: Event):
    fake_chain.live(1)

    assert wakeup_event.wait(_PATIENCE_SECONDS)


def test_case_55_websocket_is_reconnected_if_polls_see_newer_heads(
    fake_chain: FakeChain,
    indexer: Indexer,
    push_server: PushServer,
    wakeup_event: Event,
    clock: VirtualClock,
):
    before = read_metric("oracle_websocket_failures_total", reason="silent")
    push_server.is_silent = True
    # Three blocks of twelve seconds are borne, as long as polling sees none.
    clock.advance(1_000)
    fake_chain.live(1)
    indexer.index()

    wait_until(lambda: push_server.subscription_count == 2)

    assert read_metric("oracle_websocket_failures_total", reason="silent") == before + 1
    assert not wakeup_event.is_set()
    assert indexer.canonical_logs() == fake_chain.logs()


def test_case_55_websocket_backs_off_after_two_failures(
    fake_chain: FakeChain,
    indexer: Indexer,
    push_server: PushServer,
    wakeup_event: Event,
    clock: VirtualClock,
):
    failures = read_metric("oracle_websocket_failures_total", reason="silent")
    push_server.is_silent = True
    for round_ in (1, 2):
        wait_until(lambda round_=round_: push_server.subscription_count == round_)  # type: ignore[misc]  # mypy cannot infer it
        clock.advance(37)
        fake_chain.live(1)
        indexer.index()
        wait_until(
            lambda round_=round_: (  # type: ignore[misc]  # mypy cannot infer it
                read_metric("oracle_websocket_failures_total", reason="silent")
                == failures + round_
            )
        )
    push_server.is_silent = False

    clock.advance(PAUSE_SECONDS - 1)
    # It polls fifty times a second.
    assert not wakeup_event.wait(0.2)
    assert push_server.subscription_count == 2
    clock.advance(1)
    wait_until(lambda: push_server.subscription_count == 3)
    fake_chain.live(1)
    assert wakeup_event.wait(_PATIENCE_SECONDS)


def test_case_55_repeatedly_closed_websocket_leaves_no_gap(
    fake_chain: FakeChain, indexer: Indexer, push_server: PushServer, wakeup_event: Event
):
    for round_ in range(1, 5):
        wait_until(lambda round_=round_: push_server.subscription_count == round_)  # type: ignore[misc]  # mypy cannot infer it
        push_server.remaining_heads = 1
        fake_chain.live(1)
        assert wakeup_event.wait(_PATIENCE_SECONDS)
        wakeup_event.clear()
        # While there is no listener.
        fake_chain.live(1)
        indexer.index()

    assert indexer.cursor == (38, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()


@pytest.mark.parametrize("wrong", ["sends_twice", "reverses_pairs"])
def test_case_55_duplicate_or_unordered_heads_change_nothing(
    fake_chain: FakeChain,
    indexer: Indexer,
    push_server: PushServer,
    wakeup_event: Event,
    wrong: str,
):
    setattr(push_server, wrong, True)
    for _ in range(6):
        fake_chain.live(1)
        if wakeup_event.wait(0.05):
            wakeup_event.clear()
            indexer.index()
    fake_chain.live(2)
    assert wakeup_event.wait(_PATIENCE_SECONDS)
    indexer.index()

    assert indexer.cursor == (38, fake_chain.head.hash)
    assert indexer.canonical_logs() == fake_chain.logs()


def test_non_websocket_url_raises_input_error(clock: VirtualClock):
    with pytest.raises(InputError, match=r"\[chain\] websocket: .*ws:// or wss://"):
        NewHeadSubscription("http://localhost", lambda: None, lambda: PolledHead(0, 0.0), clock)


def test_websocket_name_hides_credentials_of_its_url(clock: VirtualClock):
    url = "wss://me:hunter2pw@localhost:1/v3/0123456789abcdefkey"

    wakeups = NewHeadSubscription(url, lambda: None, lambda: PolledHead(0, 0.0), clock)

    assert wakeups.name == "wss://localhost:1"
