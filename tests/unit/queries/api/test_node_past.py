"""What became of a node: joins and kickouts in order, and each round that changed its lane."""

import pytest

from oracle.domain.blocks import Position
from oracle.domain.events.oracle_events import KickProposed
from oracle.domain.ids import Hash
from oracle.queries.api.records.node_past import build_node_past
from oracle.queries.api.source import open_snapshot
from tests.support.api import IndexedHistory
from tests.support.histories import History, node
from tests.support.rounds import accepted, registered, take


@pytest.fixture
def past(new_sqlite_store):
    """A node that was due and no more, then proposed; its lane written, left and changed."""
    history = History().joins("A", "B")
    history.scores("A", *[2] * 20, *[0] * 31).after(60)
    history.scores("A", *[10] * 15).after(60)
    rounds = registered(node("A"), node("B"), words={0: 10_002 | 1 << 16})
    take(rounds, accepted(2, {0: 10_002 | 2 << 16}))
    take(rounds, accepted(3, {0: 5_002 | 2 << 16}))
    proposal = KickProposed(
        Position(history.block + 1, 0, 0), 4, node("A"), 3, Hash("0x" + 64 * "e"), 10**9, 10**10
    )
    rounds.fold_block(history.block + 1, [proposal], journal=False)
    history.after(60).pauses("A").after(7).quits("A")
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(history)
        with store.transaction() as uow:
            uow.rounds.save_changes(rounds.drain_changes())
        with open_snapshot(indexed.source) as snapshot:
            yield build_node_past(snapshot, node("A"))


def test_membership_changes_are_listed_newest_first(past):
    assert [turn.what for turn in past.membership] == [
        "quit",
        "paused",
        "kickout_proposed",
        "kickout_over",
        "kickout_due",
        "joined",
    ]
    assert past.membership[2].evidence == "0x" + 64 * "e"


def test_pause_and_quit_have_their_times(past):
    quit_, paused = past.membership[:2]
    assert quit_.time - paused.time == 7


def test_round_with_unchanged_lane_is_omitted(past):
    assert [
        (reported_round.round, reported_round.before[:6], reported_round.after[:6])
        for reported_round in past.reported
    ] == [
        (3, "1.0000", "0.5000"),
        (1, "never ", "1.0000"),
    ]
