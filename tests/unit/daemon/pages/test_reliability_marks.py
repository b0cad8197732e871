"""The chart of a node marks each change of H by its declared cause."""

import pytest

from oracle.daemon.web.pages.node_page import build_trend_charts
from oracle.domain.scoring.reliability import CAUSES, ReliabilityCause, ReliabilityMark
from oracle.queries.api.node_history import HistoryMark, NodeHistory
from oracle.systems.crynux.crynux_rule_sets import CRYNUX


def drawn(cause: ReliabilityCause, after: str = "0.500000000000000000") -> tuple[int, int]:
    """Return the number of falls and rises that are drawn for one change from 0.9."""
    mark = HistoryMark.model_construct(
        time=1_050, cause=cause.value, before="0.900000000000000000", after=after, back_at=None
    )
    full_score = "1.000000000000000000"
    history = NodeHistory.model_construct(
        rows=[(time, full_score, full_score, full_score) for time in (1_000, 1_100)], marks=[mark]
    )
    chart, _ = build_trend_charts(history, CRYNUX)
    return len(chart.decreases), len(chart.increases)


@pytest.mark.parametrize("cause", ReliabilityCause)
def test_chart_marker_matches_the_cause_of_the_reliability_change(cause: ReliabilityCause):
    mark = CAUSES[cause].mark
    assert drawn(cause) == (mark is ReliabilityMark.DECREASE, mark is ReliabilityMark.INCREASE)


def test_void_timeout_has_no_chart_marker():
    assert drawn(ReliabilityCause.TIMEOUT_VOID) == (0, 0)


def test_unchanged_reliability_has_no_chart_marker():
    assert drawn(ReliabilityCause.SUCCEEDED, after="0.900000000000000000") == (0, 0)


def test_every_reliability_cause_has_an_entry_with_existing_rules():
    assert set(CAUSES) == set(ReliabilityCause)
    for info in CAUSES.values():
        named = [info.factor_rule, *(info.first_factor_rules or ()), info.increase_rule]
        assert [rule for rule in named if rule is not None and not hasattr(CRYNUX, rule)] == []
        assert info.mark is None or info.noun
