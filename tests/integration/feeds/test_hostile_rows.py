"""Invented rows of a hostile feed are rejected or kept as faults, and no process dies of them."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from oracle.chain.feed.relay_reader import find_unreadable_reason
from oracle.domain.feed_rows import MAX_NAME_CHARS, MAX_ROW_ID, FeedRow
from oracle.errors import TransientError
from oracle.indexer.feed_polls import ingest_reread_response
from oracle.indexer.rebuild import RebuildOptions, rebuild_state
from oracle.store.database import Store
from tests.integration.feeds.test_feed_faults import list_stored_rows
from tests.integration.feeds.test_following_a_feed import busy
from tests.support.examples import examples
from tests.support.feeds.feed_follower import FeedFollower, follow_relay
from tests.support.feeds.relay import Relay, make_relay_node, make_relay_task

# Each reads streams over HTTP, page by page.
pytestmark = pytest.mark.slow

MAX_BIGINT = 2**63 - 1


def hostile(relay: Relay, **changed: object) -> None:
    """Append a row that is valid except for the changes."""
    relay.starts(99, 1)
    relay.rows[-1] |= changed


def poll_on(feed: FeedFollower) -> None:
    """Poll and fold for a while; a rejected poll is repeated, as in the daemon."""
    for _ in range(8):
        with suppress(TransientError):
            feed.passes(10)


@pytest.mark.parametrize("below", [0, 1, 63, 64, 65, 2**20 - 1, 2**20, 2**20 + 65])
def test_row_id_near_the_integer_limit_does_not_stop_the_reader(store: Store, below: int):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        relay.next_id = MAX_BIGINT - below
        relay.joins(9)
        poll_on(feed)
        feed.restart()
        poll_on(feed)

        is_taken = MAX_BIGINT - below <= MAX_ROW_ID
        assert (make_relay_node(9) in feed.pools()) == is_taken
        assert {make_relay_node(1), make_relay_node(2), make_relay_node(3)} <= feed.pools().keys()


def test_reader_restarts_although_the_largest_possible_row_id_is_stored(store: Store):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        largest = FeedRow(
            MAX_BIGINT, "NodeJoin", make_relay_node(9), "", "{}", seen_from=1_060, seen_to=1_060
        )
        with store.transaction() as uow:
            uow.feed.append([largest])
        feed.restart()
        poll_on(feed)

        assert {make_relay_node(1), make_relay_node(2), make_relay_node(3)} <= feed.pools().keys()


@pytest.mark.parametrize("field", ["type", "node_address", "task_id_commitment"])
@pytest.mark.parametrize("char", ["a", "é", "\U0001f300"])
def test_name_longer_than_index_limit_is_rejected(store: Store, field: str, char: str):
    """PostgreSQL's index accepts 2,704 bytes; compressible text would not reach the limit."""
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        long = "".join(chr(ord(char) + number % 26) for number in range(7 * MAX_NAME_CHARS))
        hostile(relay, **{field: long})
        with pytest.raises(TransientError, match="too long"):
            feed.poll()
        relay.rows.pop()
        relay.joins(9)
        feed.passes(60)

        assert make_relay_node(9) in feed.pools()


@pytest.mark.parametrize("field", ["type", "node_address", "task_id_commitment"])
def test_longest_accepted_name_fits_every_index(store: Store, field: str):
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        long = "".join(chr(0x1F300 + number * 7 % 700) for number in range(MAX_NAME_CHARS))
        hostile(relay, **{field: long})
        feed.passes(60)

        assert long in {getattr(row, name) for row in list_stored_rows(feed) for name in COLUMNS}


COLUMNS = ("kind", "node", "task")


@pytest.mark.parametrize("opening", ['{"x":', "["])
@pytest.mark.parametrize("depth", [65, 500, 900, 5_000])
def test_deeply_nested_row_is_rejected_at_any_stack_depth(store: Store, opening: str, depth: int):
    """Whether a row is unreadable depends on the row, not on the remaining stack of the reader."""
    relay = busy(Relay())
    closing = "}" if opening.startswith("{") else "]"
    inner = opening * depth + "1" + closing * depth
    args = {"task_id_commitment": make_relay_task(99), "selected_node": make_relay_node(1)}
    text = json.dumps(args)[:-1] + f', "deep": {inner}}}'
    with follow_relay(store, relay) as feed:
        hostile(relay, args=text)
        feed.passes(60)

        assert feed.kinds() == ["bad_row"]
        (row,) = (row for row in list_stored_rows(feed) if row.args == text)
        assert at_depth(0, row) == at_depth(850, row) is not None
        before = feed.digest()
        assert rebuild_state(store, feed.follower.folder, RebuildOptions()).is_same
        assert feed.digest() == before


def at_depth(calls: int, row: FeedRow) -> str | None:
    """Return why a row is unreadable, as seen from deep in the stack."""
    return find_unreadable_reason(row) if calls == 0 else at_depth(calls - 1, row)


def test_brackets_inside_strings_do_not_count_as_nesting(store: Store):
    relay = busy(Relay())
    args = {
        "task_id_commitment": make_relay_task(99),
        "selected_node": make_relay_node(1),
        "text": '[{\\"' * 200,
    }
    with follow_relay(store, relay) as feed:
        hostile(relay, args=json.dumps(args))
        feed.passes(60)

        assert feed.faults() == []


@pytest.mark.parametrize("clock", [1, 2**62])
def test_feed_clock_of_a_reread_or_second_feed_is_not_stored(store: Store, clock: int):
    """A clock that was not compared with ours would stop every later reread."""
    relay = busy(Relay())
    with follow_relay(store, relay) as feed:
        feed.passes(60)
        del relay.rows[4]
        now, relay.now = relay.now, clock
        answer = feed.client.poll(0, 100)
        relay.now = now
        (fault,) = ingest_reread_response(store, answer)

        with store.read_transaction() as uow:
            cursor = uow.feed.get_cursor()
        assert cursor is not None
        assert (cursor.reread_at, fault.found_at) == (cursor.polled_at, cursor.polled_at)


INTEGERS = st.one_of(
    st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 2**256, 10**4000]),
    st.integers(-(2**70), 2**70),
)
TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["", "0x", "9" * 77, "9" * 78, "\0"]))
VALUES = st.one_of(INTEGERS, TEXTS, st.none(), st.booleans(), st.floats(), st.lists(INTEGERS))
NAMES = st.sampled_from(
    [
        "task_id_commitment",
        "selected_node",
        "abort_reason",
        "last_status",
        "abort_issuer",
        "staking_amount",
        "score",
        "network",
    ]
)
KINDS = st.sampled_from(
    [
        "NodeJoin",
        "NodeQuit",
        "NodeStaking",
        "NodeSlashed",
        "NodeKickedOut",
        "TaskStarted",
        "TaskScoreReady",
        "TaskErrorReported",
        "TaskValidated",
        "TaskEndInvalidated",
        "TaskEndGroupRefund",
        "TaskEndGroupSuccess",
        "TaskEndSuccess",
        "TaskEndAborted",
        "NodeTeleported",
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "type": KINDS,
        "node_address": st.one_of(
            st.sampled_from([make_relay_node(1), make_relay_node(2), make_relay_node(3)]), VALUES
        ),
        "task_id_commitment": st.one_of(
            st.sampled_from([make_relay_task(1), make_relay_task(2), make_relay_task(3)]), VALUES
        ),
    }
)


@given(made=st.lists(st.tuples(ROWS, st.dictionaries(NAMES, VALUES), st.booleans()), max_size=12))
# Without shrinking: an example polls and folds some twenty times over HTTP.
@settings(examples(20, in_ci=4), phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_arbitrary_row_is_rejected_or_stored(
    made: list[tuple[dict[str, Any], dict[str, Any], bool]], databases
):
    relay = Relay()
    for number in (1, 2, 3):
        relay.joins(number)
    for row, args, is_plain in made:
        relay.emit("NodeJoin", make_relay_node(1))
        named = {"task_id_commitment": row["task_id_commitment"]} if is_plain else {}
        relay.rows[-1] |= row | {"args": json.dumps(named | args)}
    with databases() as fresh, follow_relay(fresh, relay) as feed:
        poll_on(feed)
        feed.restart()
        poll_on(feed)
        before = feed.digest()

        with fresh.read_transaction() as uow:
            is_empty = uow.cursor.get() is None
        # A page with a rejected row is rejected completely, and then nothing is folded.
        assert is_empty or rebuild_state(fresh, feed.follower.folder, RebuildOptions()).is_same
        assert feed.digest() == before
