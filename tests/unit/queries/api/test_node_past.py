"""The past of a node: joins and kickouts in order, and each round that changed its lane."""

import pytest

from oracle.queries.api.records.node_past import build_node_past
from oracle.queries.api.source import open_snapshot
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address
from tests.support.indexed_rounds import accuse_node, index_with_rounds


@pytest.fixture
def past(new_sqlite_store):
    """Index a node that was due and recovered, then accused;
    its lane changed in two of three rounds.
    """
    history = History().joins("A", "B")
    blocks = [history.block]
    history.scores("A", *[2] * 20, *[0] * 31).after(60)
    history.scores("A", *[10] * 15).after(100_000).scores("B", 5)
    blocks.append(history.block)
    history.after(60).scores("B", 5)
    blocks.append(history.block)
    history.after(60).after(60).pauses("A").after(7).quits("A")
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store)
        state = index_with_rounds(indexed, history, blocks)
        accuse_node(indexed, state, make_node_address("A"), blocks[-1] + 1, ready_at=10**9)
        with open_snapshot(indexed.source) as snapshot:
            yield build_node_past(snapshot, make_node_address("A"))


def test_membership_changes_are_listed_newest_first(past):
    assert [turn.what for turn in past.membership] == [
        "quit",
        "paused",
        "kickout_accused",
        "kickout_over",
        "kickout_due",
        "joined",
    ]
    assert past.membership[2].evidence == "0x" + 64 * "e"


def test_events_have_times_even_without_headers_and_logs(past):
    quit_, paused, _, over, due, _ = past.membership
    assert quit_.time - paused.time == 7
    # The opening score came in the first hundred blocks, and the closing one after 60
    # seconds.
    assert over.time - due.time > 60


def test_round_that_does_not_change_the_lane_is_omitted(past):
    assert [
        (reported_round.round, reported_round.before[:6], reported_round.after[:6])
        for reported_round in past.reported
    ] == [
        (2, "0.5000", "0.3159"),
        # A node that the first round contains was never reported before.
        (1, "never ", "0.5000"),
    ]
