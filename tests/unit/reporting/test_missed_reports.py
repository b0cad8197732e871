"""Missed reports are summarised in one short line, however many there are."""

import pytest

from oracle.reporting.landing import format_missed_periods
from oracle.store.report_repository import SUPERSEDED_REASON, ReportState, StoredReport
from tests.unit.store.test_reports import report


def test_missed_periods_with_the_same_reason_are_merged():
    late, gone = "its deadline passed", "another round came before it"
    assert format_missed_periods([(7, late)]) == "period 7: its deadline passed"
    assert format_missed_periods([(3, gone), (5, late), (6, late), (9, late), (10, gone)]) == (
        "period 3: another round came before it; 3 periods, 5 to 9: its deadline passed; "
        "period 10: another round came before it"
    )


@pytest.mark.parametrize(
    ("state", "reason", "outcome"),
    [
        (ReportState.MISSED, SUPERSEDED_REASON, "superseded"),
        (ReportState.MISSED, "its deadline passed", "missed"),
        (ReportState.MISSED, None, "missed"),
        (ReportState.SKIPPED, SUPERSEDED_REASON, "skipped"),
        (ReportState.LANDED, None, "landed"),
    ],
)
def test_report_outcome_depends_on_its_state_and_reason(
    state: ReportState, reason: str | None, outcome: str
):
    stored = StoredReport(report(7), state, reason, None, None)
    assert stored.outcome == outcome
