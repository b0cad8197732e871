"""Every fault of a feed: docs/explanation/feed.md#faults, one test each."""

import json

import pytest
from sqlalchemy import select

from oracle.domain.feed_rows import FeedRow
from oracle.indexer.feed_faults import find_fault_blocking_publication
from oracle.indexer.feed_polls import (
    compare_with_second_feed,
    get_reread_start_id,
    ingest_reread_response,
)
from oracle.store.database import Store, UnitOfWork
from oracle.store.tables.feed_tables import feed_row
from tests.integration.feeds.test_following_a_feed import busy
from tests.support.feeds.feed_follower import FeedFollower, follow_relay
from tests.support.feeds.relay import Relay, make_relay_node

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow


def list_stored_rows(feed: FeedFollower) -> list[FeedRow]:
    with feed.store.read_transaction() as uow:
        return uow.feed.list_canonical_rows(1, 0, 10**6)


def list_conflicting_nodes(uow: UnitOfWork, row_id: int) -> list[str]:
    """Return the nodes of the rows of this id that are kept as evidence and not folded."""
    is_evidence = (feed_row.c.id == row_id) & ~feed_row.c.canonical
    return list(uow._connection.scalars(select(feed_row.c.node).where(is_evidence)))


def reread_rows(feed: FeedFollower) -> list[str]:
    """Read the old rows again, and return the kinds of faults."""
    with feed.store.read_transaction() as uow:
        cursor = uow.feed.get_cursor()
    assert cursor is not None
    answer = feed.client.poll(get_reread_start_id(cursor), 100)
    return [fault.kind for fault in ingest_reread_response(feed.store, answer)]


def test_gap_in_row_ids_is_not_a_fault(store: Store):
    relay = Relay()
    relay.joins(1)
    relay.burn(50)
    relay.joins(2)
    with follow_relay(store, relay) as feed:
        feed.passes(100)

        assert set(feed.pools()) == {make_relay_node(1), make_relay_node(2)}
        assert feed.faults() == []


def test_late_row_is_folded_in_the_order_of_its_id(store: Store):
    relay = Relay()
    early = relay.joins(1)
    late = relay.rows.pop()
    relay.starts(11, 1)
    relay.answers(11, 1)
    with follow_relay(store, relay) as feed:
        feed.passes(10)
        relay.rows.append(late)
        feed.passes(100)

        assert [row.id for row in list_stored_rows(feed)] == [early, early + 1, early + 2]
        assert feed.faults() == []
        with store.read_transaction() as uow:
            assert uow.anomalies.count() == 0


def test_row_inserted_among_settled_rows_is_not_folded(store: Store):
    relay = Relay()
    relay.joins(1)
    relay.joins(2)
    late = relay.rows.pop()
    relay.joins(3)
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        before = feed.digest()
        relay.rows.append(late)

        assert reread_rows(feed) == ["late_row"]
        feed.passes(0)
        assert feed.digest() == before
        with store.read_transaction() as uow:
            assert list_conflicting_nodes(uow, late["id"]) == [make_relay_node(2)]
            assert find_fault_blocking_publication(uow) is not None


def test_rereading_unchanged_rows_stores_nothing(store: Store):
    with follow_relay(store, busy(Relay())) as feed:
        feed.passes(100)
        rows = len(list_stored_rows(feed))
        assert sum(poll.row_count for poll in feed.polls) == rows

        assert reread_rows(feed) == []
        assert len(list_stored_rows(feed)) == rows


def test_first_version_of_a_rewritten_row_is_folded(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        before = feed.digest()
        relay.rows[0] |= {
            "node_address": make_relay_node(9),
            "args": json.dumps({"node_address": make_relay_node(9)}),
        }

        assert reread_rows(feed) == ["changed_row"]
        assert feed.digest() == before
        with store.read_transaction() as uow:
            assert uow.feed.list_canonical_rows(1, 1, 1)[0].node == make_relay_node(1)
            assert list_conflicting_nodes(uow, 1) == [make_relay_node(9)]


def test_vanished_row_is_reported(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        del relay.rows[4]

        assert reread_rows(feed) == ["vanished_row"]


def test_rows_deleted_by_retention_are_not_a_fault(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        del relay.rows[:4]

        assert reread_rows(feed) == []


@pytest.mark.parametrize("real", range(5, 11))
def test_abort_reason_that_appears_later_is_not_a_fault(store: Store, real: int):
    relay = Relay()
    relay.joins(1)
    relay.starts(11, 1)
    relay.aborts(11, reason=1, status=4)
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        args = json.loads(relay.rows[2]["args"]) | {"abort_reason": real}
        relay.rows[2]["args"] = json.dumps(args)

        assert reread_rows(feed) == []


def test_reader_stops_if_the_feed_restarts_its_row_ids(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        relay.rows, relay.next_id = [], 1
        relay.joins(7)
        feed.passes(10)

        assert feed.kinds() == ["went_back"]
        assert feed.poll() is None


def test_restarted_row_ids_that_pass_the_cursor_are_reported(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        relay.rows, relay.next_id = [], 1
        for number in range(1, 30):
            relay.joins(number)
        feed.passes(10)

        assert feed.kinds() == ["changed_row"]


def test_reader_that_was_down_beyond_retention_reports_a_gap(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(100)
        relay.burn(5)
        relay.rows = []
        relay.joins(7)
        feed.passes(10)

        assert feed.kinds() == ["gap_by_retention"]


def test_malformed_row_is_stored_as_a_bad_row_but_not_folded(store: Store):
    relay = Relay()
    relay.joins(1)
    relay.joins(2)
    relay.rows[0]["args"] = "{"
    with follow_relay(store, relay) as feed:
        feed.passes(60)

        assert feed.kinds() == ["bad_row"]
        assert set(feed.pools()) == {make_relay_node(2)}
        with store.read_transaction() as uow:
            assert find_fault_blocking_publication(uow) is None
        assert len(list_stored_rows(feed)) == 2


def test_row_of_an_unknown_kind_is_stored_without_a_fault(store: Store):
    relay = Relay()
    relay.emit("NodeTeleported", make_relay_node(1), where="mars")
    relay.joins(2)
    with follow_relay(store, relay) as feed:
        feed.passes(60)

        assert feed.faults() == []
        assert [row.kind for row in list_stored_rows(feed)] == ["NodeTeleported", "NodeJoin"]


def test_disagreement_of_the_second_feed_is_reported(store: Store, other_store: Store):
    relay = busy(Relay())
    mirror = Relay(rows=[dict(row) for row in relay.rows], next_id=relay.next_id)
    mirror.rows[3] |= {"args": mirror.rows[3]["args"].replace("}", " }")}
    del mirror.rows[5]
    with follow_relay(store, relay) as feed, follow_relay(other_store, mirror) as second:
        feed.passes(100)
        before = feed.digest()

        answer = second.client.poll(0, 100)
        comparison_faults = compare_with_second_feed(feed.store, answer, "mirror")

        assert [(fault.kind, fault.row) for fault in comparison_faults] == [
            ("disagree", 4),
            ("disagree", 6),
        ]
        assert feed.digest() == before
        with store.read_transaction() as uow:
            assert find_fault_blocking_publication(uow) is not None


def test_lag_of_the_second_feed_is_not_a_fault(store: Store, other_store: Store):
    relay = busy(Relay())
    mirror = Relay(rows=relay.rows[:4], next_id=5)
    with follow_relay(store, relay) as feed, follow_relay(other_store, mirror) as second:
        feed.passes(100)

        assert compare_with_second_feed(feed.store, second.client.poll(0, 100), "mirror") == ()
        with store.read_transaction() as uow:
            cursor = uow.feed.get_cursor()
        assert cursor is not None
        assert cursor.compared_id == 4
