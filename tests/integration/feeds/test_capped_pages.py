"""A relay that caps its pages: only an empty page is the end of the stream, not a short one."""

import json
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import Phase, given, settings, strategies as st

from oracle.chain.feed.feed_client import FeedClient, FeedResponseError, FiguresClient
from oracle.indexer.feed_polls import REREAD_ROWS, get_reread_start_id, ingest_reread_response
from oracle.store.database import Store
from tests.integration.feeds.test_two_readers import play_step
from tests.support.examples import examples
from tests.support.feeds.feed_follower import FeedFollower, follow_relay
from tests.support.feeds.relay import Relay, make_relay_node, serve_relay

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow

RANK_SCORES = (10, 5, 2)


def ranks_of(steps: int) -> dict[str, list[int]]:
    """Compute every node's task scores from the steps of `play_step` alone."""
    scores: dict[str, list[int]] = {make_relay_node(number): [] for number in range(1, 6)}
    for step in range(1, steps):
        for rank, offset in enumerate(range(3)):
            scores[make_relay_node(1 + (step + offset) % 5)].append(RANK_SCORES[rank])
    return scores


def reread_kinds(feed: FeedFollower) -> list[str]:
    """Read the settled rows again as the daemon does each hour; return the kinds of faults."""
    with feed.store.read_transaction() as uow:
        cursor = uow.feed.get_cursor()
    assert cursor is not None
    start = get_reread_start_id(cursor)
    answer = feed.client.poll(start, feed.settings.page_rows, REREAD_ROWS + 1)
    return [fault.kind for fault in ingest_reread_response(feed.store, answer)]


def assert_scores_are_a_prefix(feed: FeedFollower, steps: int) -> None:
    """While the reader lags, no score may be missing before one that is there."""
    expected = ranks_of(steps)
    for address, pool in feed.pools().items():
        assert pool == expected[address][: len(pool)]


# Without shrinking: an example polls and mines some hundred times over HTTP.
@settings(examples(12, in_ci=4), phases=[Phase.explicit, Phase.generate])
@given(
    cap=st.integers(1, 120),
    backlog=st.integers(0, 12),
    live=st.integers(0, 4),
    restarts=st.sets(st.integers(0, 12), max_size=4),
)
def test_every_feed_row_is_scored_with_any_page_cap(
    cap: int, backlog: int, live: int, restarts: set[int], databases
):
    relay = Relay(page_cap=cap)
    steps = 1 + backlog + live
    for step in range(1 + backlog):
        play_step(relay, step)
    with databases() as fresh, follow_relay(fresh, relay) as feed:
        for number in range(12):
            if number in restarts:
                feed.restart()
            if number < live:
                play_step(relay, 1 + backlog + number)
            feed.passes(10)
            assert_scores_are_a_prefix(feed, steps)
            assert reread_kinds(feed) == []

        assert feed.pools() == ranks_of(steps)
        assert feed.faults() == []


def test_reader_behind_a_capped_feed_continues_until_it_has_caught_up(store: Store):
    relay = Relay(page_cap=10)
    for step in range(30):
        play_step(relay, step)
    with follow_relay(store, relay) as feed:
        feed.poll()

        with store.read_transaction() as uow:
            cursor = uow.feed.get_cursor()
        assert cursor is not None
        assert (cursor.fully_polled_at, feed.reads_on) == (0, True)
        feed.passes(60)
        assert feed.pools() == ranks_of(30)
        assert not feed.reads_on


def test_interrupted_reread_does_not_report_vanished_rows(store: Store):
    relay = Relay()
    for step in range(10):
        play_step(relay, step)
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        relay.page_cap = 3
        answer = feed.client.poll(0, 100, 2)

        assert len(answer.rows) == 6
        assert not answer.is_complete
        assert ingest_reread_response(store, answer) == ()


def test_row_that_settles_after_a_reread_is_not_reported_as_vanished(store: Store):
    relay = Relay()
    play_step(relay, 0)
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        answer = feed.client.poll(0, 100)
        play_step(relay, 1)
        feed.passes(60)

        assert answer.is_complete
        assert ingest_reread_response(store, answer) == ()


def test_page_of_repeated_rows_is_rejected(store: Store):
    """A feed that repeats rows forever never shows its end."""
    relay = Relay()
    play_step(relay, 0)
    with serve_relay(relay) as url, closing(FeedClient(url, "feed.url", 5.0, 1 << 16)) as client:
        last = relay.rows[-1]["id"]
        body = relay.answer("/v1/events?start=0&limit=100")
        relay.fault = lambda path: body if f"start={last}" in path else None

        with pytest.raises(FeedResponseError, match="contains no row after"):
            client.poll(0, 100)


def test_capped_node_list_is_read_completely():
    count, cap = 57, 10
    nodes = [
        {
            "address": make_relay_node(number),
            "qos_score": 0.5,
            "staking_score": 0.5,
            "prob_weight": 0.25,
        }
        for number in range(1, count + 1)
    ]
    relay = Relay()
    relay.fault = lambda path: page_of(nodes, path, cap)
    with (
        serve_relay(relay) as url,
        closing(FiguresClient(url, "--url", 5.0, lambda: 0.0)) as client,
    ):
        assert len(client.fetch_node_stats()) == count


def test_node_list_that_repeats_its_first_page_is_rejected():
    nodes = [
        {
            "address": make_relay_node(1),
            "qos_score": 0.5,
            "staking_score": 0.5,
            "prob_weight": 0.25,
        }
    ]
    relay = Relay()
    relay.fault = lambda _: page_of(nodes, "?page=1", 10)
    with (
        serve_relay(relay) as url,
        closing(FiguresClient(url, "--url", 5.0, lambda: 0.0)) as client,
        pytest.raises(FeedResponseError, match="repeats"),
    ):
        client.fetch_node_stats()


def page_of(nodes: list[dict[str, object]], path: str, cap: int) -> tuple[int, bytes]:
    """Return a page of a list whose pages have up to `cap` rows."""
    number = int(parse_qs(urlsplit(path).query)["page"][0])
    rows = nodes[(number - 1) * cap : number * cap]
    return 200, json.dumps({"message": "success", "data": rows}).encode()
