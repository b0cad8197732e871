"""The trend of each node in a list: the QoS of the fold, read for all nodes in one query."""

import random
from itertools import groupby

import pytest
from sqlalchemy import event

from oracle.domain.fold.fold import Fold
from oracle.domain.scoring.node_scores import compute_node_qos
from oracle.queries.api.history_points import MAX_TREND_POINTS, TrendCache, compute_qos_trend
from oracle.queries.api.source import open_snapshot
from oracle.store.activity_repository import NodeTrendPoint
from oracle.systems.crynux.crynux_rule_sets import CRYNUX, RELAY
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address

NAMES = "ABC"


def a_history(seed: int, turns: int) -> History:
    """Return scores and timeouts of three nodes, some in one block, others long apart."""
    chance = random.Random(seed)  # noqa: S311  a history to be played again
    history = History().joins(*NAMES)
    for _ in range(turns):
        history.scores(chance.choice(NAMES), chance.choice([10, 5, 2, 0]))
        if chance.random() < 0.8:
            history.after(chance.choice([1, 60, 4_000]))
    return history.after(10)


def list_folded_qos(history: History, name: str) -> list[int]:
    """Return the QoS at the end of every block that changed the node, oldest first."""
    fold = Fold(CRYNUX)
    qos_values = list[int]()
    for _, block_events in groupby(history.events, key=lambda entry: entry.at.block):
        events = list(block_events)
        fold.fold_events(events)
        changes = fold.drain_changes()
        changed = {entry.node for entry in changes.scores} | {
            entry.node for entry in changes.reliability
        }
        if make_node_address(name) in changed:
            qos = compute_node_qos(
                fold.ledger.nodes[make_node_address(name)], events[-1].time, CRYNUX
            )
            assert qos is not None
            qos_values.append(qos)
    return qos_values


def read_trends(indexed: IndexedHistory, trend_cache: TrendCache):
    with open_snapshot(indexed.source) as snapshot:
        rows = list(snapshot.uow.nodes.iterate_all())
        return trend_cache.load_trends(snapshot.uow, rows, generation=0)


@pytest.mark.parametrize(("seed", "turns"), [(1, 3), (2, 40), (3, 400)])
def test_recent_qos_values_match_the_fold_at_the_end_of_each_block(store, seed, turns):
    history = a_history(seed, turns)
    trend_by_node = read_trends(IndexedHistory(store).whole(history), TrendCache(CRYNUX))
    for name in NAMES:
        course = trend_by_node[make_node_address(name)]
        assert list(course) == list_folded_qos(history, name)[-MAX_TREND_POINTS:]


def test_recent_histories_are_read_in_one_query_and_cached(new_sqlite_store):
    statements = []
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(a_history(4, 60))
        trend_cache = TrendCache(CRYNUX)
        with open_snapshot(indexed.source) as snapshot:
            rows = list(snapshot.uow.nodes.iterate_all())
            connection = snapshot.uow.activity._connection

            @event.listens_for(connection, "before_cursor_execute")
            def _count(_connection, _cursor, statement, *_args):
                statements.append(statement)

            first = trend_cache.load_trends(snapshot.uow, rows, generation=0)
            assert len(statements) == 1
            assert trend_cache.load_trends(snapshot.uow, rows, generation=0) == first
            assert len(statements) == 1


def test_no_sparkline_is_shown_for_an_inconsistent_history(new_sqlite_store):
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store).whole(a_history(5, 60))
        with open_snapshot(indexed.source) as snapshot:
            row = next(
                stored_node
                for stored_node in snapshot.uow.nodes.iterate_all()
                if stored_node.address == make_node_address("A")
            )
            steps = snapshot.uow.activity.get_trend_points_by_node(
                [make_node_address("A")], CRYNUX.pool_size + MAX_TREND_POINTS
            )
    right = steps[make_node_address("A")]
    last = max(index for index, step in enumerate(right) if step.score is not None)
    wrong = [*right]
    wrong[last] = NodeTrendPoint(*wrong[last][:2], 10 - (wrong[last].score or 0), 0)
    assert compute_qos_trend(right, row, CRYNUX)
    assert compute_qos_trend(wrong, row, CRYNUX) == ()


def test_no_sparkline_is_shown_under_rules_with_restarts(new_sqlite_store):
    with new_sqlite_store() as store:
        indexed = IndexedHistory(store, RELAY).whole(a_history(6, 20))
        assert read_trends(indexed, TrendCache(RELAY)) == {}
