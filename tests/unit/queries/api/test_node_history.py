"""The history of a node contains the fold's values at each time; thinning keeps every extreme."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from oracle.domain.fixed_point import UNIT, format_decimal
from oracle.domain.scoring.node_scores import (
    compute_long_term_score,
    compute_node_qos,
    compute_reliability,
    is_excluded,
)
from oracle.queries.api.history_points import (
    HistoryPoint,
    NodeRecord,
    compute_history_points,
    downsample_points,
)
from oracle.queries.api.node_history import HistoryQuery, build_node_history
from oracle.queries.api.source import RequestError, open_snapshot
from oracle.systems.crynux.crynux_rule_sets import CRYNUX
from tests.support.api import IndexedHistory
from tests.support.histories import History, fold_history, make_node_address

steps = st.lists(
    st.tuples(st.sampled_from([10, 5, 2, 0]), st.integers(0, 4_000)), min_size=1, max_size=70
)
points = st.builds(
    HistoryPoint, st.just(0), st.integers(0, UNIT), st.integers(0, UNIT), st.integers(0, UNIT)
)


def build_history(turns) -> History:
    history = History().joins("A")
    for score, pause in turns:
        history.scores("A", score).after(pause)
    return history


def record_of(changes) -> NodeRecord:
    mine = make_node_address("A")
    return NodeRecord(
        earlier_scores=[],
        scores=[entry for entry in changes.scores if entry.node == mine],
        changes=[change for change in changes.reliability if change.node == mine],
        kickout_intervals=[interval for interval in changes.kickouts if interval.node == mine],
        membership_changes=[turn for turn in changes.memberships if turn.node == mine],
    )


@given(steps)
def test_history_ends_at_the_current_figures_of_the_node(turns):
    history = build_history(turns)
    fold, changes = fold_history(history)
    current_node = fold.ledger.nodes[make_node_address("A")]
    *_, last = compute_history_points(record_of(changes), (1_000, history.time), CRYNUX)
    at = history.time
    assert last == (
        at,
        compute_node_qos(current_node, at, CRYNUX),
        compute_long_term_score(current_node, CRYNUX, at),
        compute_reliability(current_node, at, CRYNUX),
        is_excluded(current_node, at, CRYNUX),
    )


ways_to_leave = st.sampled_from([History.is_kicked_out, History.quits, History.is_slashed])
# A node that leaves twice and joins again: its scores, both ways to leave, and the following
# event.
careers = st.tuples(
    st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 10]), min_size=48, max_size=52),
    ways_to_leave,
    ways_to_leave,
    steps,
)


def played_career(career) -> History:
    scores, leaves, leaves_again, turns = career
    history = History().joins("A").scores("A", *scores).after(60)
    leaves(history, "A")
    history.after(60).joins("A").scores("A", 0, 10).after(60)
    leaves_again(history, "A")
    history.after(60).joins("A")
    for score, pause in turns:
        history.scores("A", score).after(pause)
    return history


@given(careers)
def test_history_after_a_rejoin_matches_the_figures_of_the_node(career):
    history = played_career(career)
    fold, changes = fold_history(history)
    current_node = fold.ledger.nodes[make_node_address("A")]
    at = history.time
    *_, last = compute_history_points(record_of(changes), (1_000, at), CRYNUX)
    assert last[2:] == (
        compute_long_term_score(current_node, CRYNUX, at),
        compute_reliability(current_node, at, CRYNUX),
        is_excluded(current_node, at, CRYNUX),
    )


@given(st.one_of(steps.map(build_history), careers.map(played_career)), st.integers(0, 100))
def test_history_that_starts_later_ends_at_the_same_point(history, share):
    _, changes = fold_history(history)
    record = record_of(changes)
    start = 1_000 + (history.time - 1_000) * share // 100
    late = replace(
        record,
        earlier_scores=[entry for entry in record.scores if entry.time < start],
        scores=[entry for entry in record.scores if entry.time >= start],
    )
    *_, full_history_end = compute_history_points(record, (1_000, history.time), CRYNUX)
    *_, part = compute_history_points(late, (start, history.time), CRYNUX)
    assert full_history_end == part


@given(st.lists(st.tuples(st.integers(0, 50), points), min_size=2, max_size=400))
def test_thinned_history_keeps_original_points_and_extremes(drawn):
    time, course_points = 0, []
    for pause, point in drawn:
        time += pause
        course_points.append(point._replace(time=time))
    thinned_points = downsample_points(course_points, 60)
    assert len(thinned_points) <= 60
    assert set(thinned_points) <= set(course_points)
    assert all(earlier.time <= later.time for earlier, later in pairwise(thinned_points))
    for column in ("qos", "reliability"):
        for extreme in (min, max):
            assert extreme(getattr(point, column) for point in thinned_points) == extreme(
                getattr(point, column) for point in course_points
            )


@pytest.fixture
def indexed(store):
    return IndexedHistory(store).whole(
        build_history([(10, 60), (5, 30), (0, 5), (0, 5), (0, 400), (2, 90), (10, 1_000)])
    )


def query_history(indexed, **query):
    with open_snapshot(indexed.source) as snapshot:
        return build_node_history(snapshot, make_node_address("A"), HistoryQuery(**query))


def test_newest_history_point_matches_current_qos(indexed):
    history = query_history(indexed)
    with indexed.store.read_transaction() as uow:
        stored_node = uow.nodes.get_many([make_node_address("A")])[make_node_address("A")]
        cursor = uow.cursor.get()
    qos = compute_node_qos(stored_node, cursor.time, CRYNUX)
    assert qos is not None
    assert history.rows[-1][:2] == (cursor.time, format_decimal(qos))
    assert (history.exact, history.thinned) == (True, False)


def test_timeout_markers_include_exclusion_end(indexed):
    marks = query_history(indexed).marks
    assert [mark.cause for mark in marks].count("timed_out") == 3
    assert marks[-1].back_at is None or marks[-1].back_at > marks[-1].time
    assert any(mark.back_at is not None for mark in marks)


def test_history_is_limited_to_requested_number_of_points(indexed):
    history = query_history(indexed, points=12)
    assert (len(history.rows) <= 12, history.thinned) == (True, True)


def test_history_starts_when_node_first_appears(indexed):
    history = query_history(indexed, first=0)
    assert history.first == history.rows[0][0] == 1_000


def test_reversed_time_span_is_rejected(indexed):
    with pytest.raises(RequestError, match="expected `from` before `to`"):
        query_history(indexed, first=1_050, last=1_010)
