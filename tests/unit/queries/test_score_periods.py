"""The daily changes of a score, and the parts of each, add up to the total change."""

from decimal import Decimal

import pytest

from oracle.domain.fixed_point import UNIT
from oracle.queries.api.history_points import HistoryPoint
from oracle.queries.api.node_history import HistoryMark, NodeHistory
from oracle.queries.score_periods import (
    ScorePeriod,
    list_score_periods,
    list_total_periods,
)
from tests.support.api import IndexedHistory
from tests.support.histories import History, make_node_address

_DAY = 86_400
_HUNDREDTH = UNIT // 100


@pytest.fixture
def history(new_sqlite_store) -> NodeHistory:
    """The history of a node with two bad days, and a day without tasks between them."""
    played = History().joins("A").scores("A", 10, 10, 10, 5).after(_DAY)
    played.scores("A", 0, 0, 2).after(2 * _DAY).scores("A", 2, 0).after(600)
    with new_sqlite_store() as store:
        client = IndexedHistory(store).whole(played).client()
        page = client.get(f"/nodes/{make_node_address('A')}").text
        response = client.get(f"/v1/nodes/{make_node_address('A')}/history")
    assert page.count('<a href="/tasks/') >= 2
    return NodeHistory.model_validate(response.json())


def list_points(history: NodeHistory) -> list[HistoryPoint]:
    """Return the points of a history from which no row was omitted."""
    points = []
    for time, *scores in history.rows:
        qos, long_term, reliability = (int(Decimal(score) * UNIT) for score in scores)
        points.append(HistoryPoint(time, qos, long_term, reliability, is_excluded=False))
    return points


def list_periods(history: NodeHistory) -> list[ScorePeriod]:
    return list_score_periods(history, list_points(history))


def test_totals_cover_the_last_day_and_the_full_history(history):
    last_day, whole = list_total_periods(history, list_points(history))
    (period,) = (period for period in list_periods(history) if period.start == last_day.start)
    assert last_day._replace(seconds=_DAY) == period
    assert whole.change == sum(period.change for period in list_periods(history))
    for total in (last_day, whole):
        assert sum(part for _, part in total.parts) == total.change
    assert len(whole.decreases) == sum(len(period.decreases) for period in list_periods(history))


def test_daily_changes_sum_to_the_total_change_of_the_score(history):
    qos_values = [int(qos.replace(".", "")) for _, qos, *_ in history.rows]
    start, end = (qos // _HUNDREDTH * _HUNDREDTH for qos in (qos_values[0], qos_values[-1]))
    periods = list_periods(history)
    assert sum(period.change for period in periods) == end - start
    assert [period.start for period in periods] == sorted(
        {period.start for period in periods}, reverse=True
    )


def test_parts_of_a_day_sum_to_its_change(history):
    for period in list_periods(history):
        assert sum(part for _, part in period.parts) == period.change


def test_day_with_timeouts_lists_its_timeouts_and_lowest_score(history):
    bad_day = next(period for period in list_periods(history) if period.start == _DAY)
    assert len(bad_day.decreases) == 2
    assert all(mark.task is not None and mark.time // _DAY == 1 for mark in bad_day.decreases)
    assert bad_day.lowest_qos <= min(bad_day.qos_before, bad_day.qos_after)


def test_drop_of_reliability_costs_nothing_if_recovered_the_same_day():
    full, low, fifth = "1.000000000000000000", "0.300000000000000000", "0.200000000000000000"
    rows = [(time, qos, full, qos) for time, qos in ((_DAY, full), (_DAY + 60, low))]
    rows += [(_DAY + 3_600, fifth, fifth, full), (3 * _DAY, fifth, fifth, full)]
    mark = HistoryMark.model_construct(
        time=_DAY + 60, cause="timed_out", before=full, after=low, incident=None
    )
    recovered = NodeHistory.model_construct(first=_DAY, last=3 * _DAY, rows=rows, marks=[mark])
    (period,) = list_periods(recovered)
    assert period.parts == [("scores of its tasks", -UNIT * 8 // 10)]
    assert (period.decreases, period.has_recovered) == ([mark], True)
    assert period.lowest_qos == UNIT // 5
