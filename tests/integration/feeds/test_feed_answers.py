"""Responses of a feed that are invalid, too large, late, or of another time are discarded."""

import json

import pytest

from oracle.errors import TransientError
from oracle.rpc.rpc_errors import RpcTimeoutError
from oracle.store.database import Store
from tests.integration.feeds.test_feed_faults import list_stored_rows
from tests.integration.feeds.test_following_a_feed import busy
from tests.support.feeds.feed_follower import follow_relay
from tests.support.feeds.relay import Relay, make_relay_node

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"message":"Unknown column"}'),
        (200, b"<html>maintenance</html>"),
        (200, b'{"message":"success"}'),
        (200, b'{"message":"validation_error","data":[]}'),
        (200, b'{"message":"success","data":{}}'),
        (200, b'{"message":"success","data":[7]}'),
        (200, b'{"message":"success","data":[{"id":"7"}]}'),
        (200, b'{"message":"success","data":[{"id":7,"type":null}]}'),
        (200, b"[" * 100_000),
    ],
)
def test_malformed_feed_page_is_not_stored(store: Store, status: int, body: bytes):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(10)
        rows = len(list_stored_rows(feed))
        feed.relay.joins(9)
        feed.relay.fault = lambda path: (status, body) if "start=" in path else None

        with pytest.raises(TransientError):
            feed.poll()
        feed.relay.fault = lambda _: None
        assert len(list_stored_rows(feed)) == rows
        feed.passes(60)
        assert make_relay_node(9) in feed.pools()


def test_unordered_rows_are_rejected_and_not_stored(store: Store):
    relay = busy(Relay())
    rows = [relay.rows[1], relay.rows[0]]
    body = json.dumps({"message": "success", "data": rows}).encode()
    relay.fault = lambda path: (200, body) if "start=" in path else None
    with follow_relay(store, relay) as feed:
        with pytest.raises(TransientError, match="not ordered by id"):
            feed.poll()
        assert list_stored_rows(feed) == []


def test_oversized_page_is_requested_again_in_halves(store: Store):
    relay = Relay()
    for _ in range(60):
        relay.emit("DownloadModel", make_relay_node(1), model_id="x" * 2_000)
    relay.joins(2)
    with follow_relay(store, relay) as feed:
        feed.passes(60)

        assert len(list_stored_rows(feed)) == 61
        assert feed.faults() == []


def test_row_larger_than_the_response_limit_is_reported(store: Store):
    relay = Relay()
    relay.emit("DownloadModel", make_relay_node(1), model_id="x" * 100_000)
    with (
        follow_relay(store, relay) as feed,
        pytest.raises(TransientError, match="max_response_mib"),
    ):
        feed.poll()


def test_stream_of_many_pages_is_read_completely(store: Store):
    relay = Relay()
    for number in range(1, 58):
        relay.joins(number)
    with follow_relay(store, relay) as feed:
        feed.settings = feed.settings.model_copy(update={"page_rows": 10})
        feed.passes(60)

        assert len(feed.pools()) == 57


def test_unresponsive_feed_pauses_indexing_but_loses_no_rows(store: Store):
    relay = Relay()
    with follow_relay(store, relay) as feed:
        feed.passes(20)
        with store.read_transaction() as uow:
            before = uow.cursor.get()
        # The feed does not respond for a while; the chain continues.
        feed.chain.mine_many(5)
        feed.catch_up()
        with store.read_transaction() as uow:
            assert uow.cursor.get() == before
        relay.joins(1)
        relay.now += 50
        feed.passes(60)

        assert set(feed.pools()) == {make_relay_node(1)}


def test_missing_feed_response_times_out(store: Store):
    relay = Relay()
    with follow_relay(store, relay) as feed:
        feed.client._timeout_seconds = 1e-6
        with pytest.raises((RpcTimeoutError, TransientError)):
            feed.poll()
        assert feed.polls == []


@pytest.mark.parametrize("drift", [-3600, 3600])
def test_poll_is_rejected_if_the_feed_clock_is_far_off(store: Store, drift: int):
    with follow_relay(store, busy(Relay())) as feed:
        with pytest.raises(TransientError, match="clock"):
            feed.poll(our_time=feed.relay.now + drift)
        assert list_stored_rows(feed) == []


def test_stored_row_times_do_not_decrease_if_the_feed_clock_goes_back(store: Store):
    relay = Relay()
    with follow_relay(store, relay) as feed:
        feed.passes(40)
        relay.now -= 20
        relay.joins(1)
        feed.poll()

        (row,) = list_stored_rows(feed)
        assert row.seen_to == relay.now + 20
