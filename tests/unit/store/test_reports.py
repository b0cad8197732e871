"""Cut reports, their states and outcomes are stored."""

from dataclasses import replace

import pytest
from sqlalchemy.exc import IntegrityError

from oracle.domain.reports.report import Report, ReportChange
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.store.database import Store
from oracle.store.report_repository import ReportState, StoredReport
from tests.unit.store.samples import block, make_hash

CHANGE = ReportChange(node_count=3, steps=900, max_steps=500, crosses_band=True)


def report(period: int, *, is_due: bool = True) -> Report:
    return Report(
        period=period,
        as_of=block(10 * period),
        head_round=4,
        prev=make_hash(4),
        deadline=20 * period + 600,
        root=make_hash(period),
        change=CHANGE,
        is_due=is_due,
    )


def test_scheduled_report_is_due_until_landed(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1))
        assert uow.reports.list_due() == [
            StoredReport(report(1), ReportState.DUE, reason=None, round=None, digest=None)
        ]
        uow.reports.set_signed_round(1, 5, make_hash(6))
        uow.reports.set_state(1, ReportState.LANDED)
        assert uow.reports.list_due() == []
        assert uow.reports.get(1) == StoredReport(
            report(1), ReportState.LANDED, reason=None, round=5, digest=make_hash(6)
        )


def test_report_without_changes_is_skipped(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1, is_due=False))
        stored = uow.reports.get(1)
    assert stored is not None
    assert (stored.state, stored.reason) == (ReportState.SKIPPED, "too little has changed")


def test_second_report_of_period_is_rejected(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1))
    with pytest.raises(IntegrityError), store.transaction() as uow:
        uow.reports.add(report(1, is_due=False))


def test_newest_period_is_returned(store: Store):
    with store.transaction() as uow:
        assert uow.reports.find_newest_period() is None
        for period in (3, 1, 2):
            uow.reports.add(report(period))
        assert uow.reports.find_newest_period() == 3
        assert [stored_report.report.period for stored_report in uow.reports.list_newest(2)] == [
            2,
            3,
        ]
        assert [
            stored_report.report.period for stored_report in uow.reports.list_between(11, 1000)
        ] == [
            2,
            3,
        ]


def test_rewind_deletes_later_reports_except_landed_ones(store: Store):
    with store.transaction() as uow:
        for period in (1, 2, 3):
            uow.reports.add(report(period))
        uow.reports.add(report(4, is_due=False))
        uow.reports.set_state(3, ReportState.LANDED)
        assert uow.reports.delete_from_block(report(2).as_of.number) == 1
        periods = [stored_report.report.period for stored_report in uow.reports.list_newest()]
    assert periods == [1, 3]


def make_header(stored: Report) -> ReportHeader:
    return ReportHeader(
        period=stored.period,
        as_of=stored.as_of.number,
        as_of_time=stored.as_of.time,
        head_round=stored.head_round,
        prev=stored.prev,
        deadline=stored.deadline,
        root=stored.root,
        is_due=stored.is_due,
    )


def test_report_headers_since_a_period_match_the_stored_reports(store: Store):
    with store.transaction() as uow:
        for period in (1, 2):
            uow.reports.add(report(period))
        uow.reports.add(report(3, is_due=False))
        uow.reports.set_signed_round(2, 7, report(2).fingerprint)
        stored_cuts = uow.reports.list_headers_since(2)
    assert [stored_cut.header for stored_cut in stored_cuts] == [
        make_header(report(2)),
        make_header(report(3, is_due=False)),
    ]
    assert [(stored_cut.round, stored_cut.digest) for stored_cut in stored_cuts] == [
        (7, report(2).fingerprint),
        (None, None),
    ]


def test_first_complete_period_never_decreases(store: Store):
    with store.transaction() as uow:
        assert uow.reports.get_first_complete_period() == 0
        for period in (5, 3):
            uow.reports.raise_first_complete_period(period)
        assert uow.reports.get_first_complete_period() == 5


def test_marking_a_missing_report_raises_value_error(store: Store):
    with pytest.raises(ValueError, match="no report of period 9"), store.transaction() as uow:
        uow.reports.set_state(9, ReportState.MISSED, "why")


def test_stored_report_has_the_same_fingerprint(store: Store):
    with store.transaction() as uow:
        uow.reports.add(report(1))
        stored = uow.reports.get(1)
    assert stored is not None
    assert stored.report.fingerprint == report(1).fingerprint
    assert stored.report.fingerprint != replace(report(1), head_round=5).fingerprint
