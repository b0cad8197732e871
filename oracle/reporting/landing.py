"""Records which reports landed on chain, whoever sent them, and which were missed."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from oracle.bindings.qos_roots import RootsStatus
from oracle.chain.heads import Heads
from oracle.domain.blocks import BlockRef
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.quorum.quorum_context import find_status_mismatch
from oracle.quorum.statements import find_final_block
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.report_repository import (
    SUPERSEDED_REASON,
    ReportState,
    StoredReportHeader,
)
from oracle.txmgr.context import StepResult

# The `action` of a StepResult if the step only marked reports as missed.
REPORT_MISSED = "report missed"


def mark_landed_reports(
    context: ReportingContext, heads: Heads, stored_reports: list[StoredReportHeader]
) -> StepResult | None:
    """Mark reports as landed once their round is final.

    The result is None if there are no such reports.

    An accepted round counts regardless of its sender. It also counts if the report is stored as
    `missed`, because this reporter's own push was too late.
    """
    open_reports = [
        stored_report
        for stored_report in stored_reports
        if stored_report.header.is_due
        and (
            stored_report.state is ReportState.DUE
            or (stored_report.state is ReportState.MISSED and stored_report.digest is not None)
        )
    ]
    if not open_reports:
        return None
    with context.account_context.store.read_transaction() as uow:
        landed_periods = [
            stored_report.header.period
            for stored_report in open_reports
            if _has_report_landed(context, uow, stored_report, heads)
        ]
    if not landed_periods:
        return None
    with context.account_context.write_transaction() as uow:
        for period in landed_periods:
            uow.reports.set_state(period, ReportState.LANDED)
    return StepResult("report landed", None, f"period {', '.join(map(str, landed_periods))}")


def mark_missed_reports(
    context: ReportingContext, stored_reports: list[StoredReportHeader]
) -> StepResult | None:
    """Mark signed reports that can no longer land as missed.

    The result is None if there are no such reports.

    A report whose push is still unfinished is skipped, because the push decides its outcome.
    """
    signed_reports = [
        stored_report
        for stored_report in stored_reports
        if stored_report.state is ReportState.DUE and stored_report.digest is not None
    ]
    if not signed_reports:
        return None
    with context.account_context.store.read_transaction() as uow:
        paying_account = (
            context.account_context.account
            if context.account_context.sender_account.has_payer
            else None
        )
        unfinished_intents = (
            [] if paying_account is None else uow.outbox.intents.list_unfinished(paying_account)
        )
        pushed_digests = {intent.request.digest for intent in unfinished_intents}
        periods_with_reasons = [
            (stored_report.header.period, _find_missed_reason_in_index(uow, stored_report))
            for stored_report in signed_reports
            if stored_report.digest not in pushed_digests
        ]
    missed_periods = [
        (period, reason) for period, reason in periods_with_reasons if reason is not None
    ]
    detail = "; ".join(f"period {period}: {reason}" for period, reason in missed_periods)
    return _store_missed_reports(context, missed_periods, detail)


def mark_unsigned_reports_as_missed(
    context: ReportingContext, stored_reports: list[StoredReportHeader], status: RootsStatus
) -> StepResult | None:
    """Mark unsigned reports that the contract can no longer accept as missed.

    The result is None if there are no such reports. `status` is the response of a single endpoint,
    so nothing is marked unless it agrees with the indexed events, and only the time of a final
    block can end a report.
    """
    unsigned_headers = [
        stored_report.header
        for stored_report in stored_reports
        if stored_report.state is ReportState.DUE and stored_report.digest is None
    ]
    with context.account_context.store.read_transaction() as uow:
        final_block = find_final_block(uow)
        if final_block is None or find_status_mismatch(uow, status) is not None:
            return None
    periods_with_reasons = [
        (header.period, find_missed_reason(header, status, final_block))
        for header in unsigned_headers
    ]
    missed_periods = [
        (period, reason) for period, reason in periods_with_reasons if reason is not None
    ]
    return _store_missed_reports(context, missed_periods, format_missed_periods(missed_periods))


def _store_missed_reports(
    context: ReportingContext, missed_periods: list[tuple[int, str]], detail: str
) -> StepResult | None:
    """Store the reports of these periods as missed.

    The result is None if there are no periods.
    """
    if not missed_periods:
        return None
    with context.account_context.write_transaction() as uow:
        for period, reason in missed_periods:
            uow.reports.set_state(period, ReportState.MISSED, reason)
    return StepResult(REPORT_MISSED, None, detail)


def format_missed_periods(missed_periods: Sequence[tuple[int, str]]) -> str:
    """Format missed periods (given in ascending order), merging neighbours of one reason."""
    return "; ".join(_iter_missed_spans(missed_periods))


def _iter_missed_spans(missed_periods: Sequence[tuple[int, str]]) -> Iterator[str]:
    for reason, periods_with_reason in groupby(missed_periods, key=lambda span_text: span_text[1]):
        periods = [period for period, _ in periods_with_reason]
        first_period = periods[0]
        last_period = periods[-1]
        span_text = (
            f"period {first_period}"
            if first_period == last_period
            else f"{len(periods)} periods, {first_period} to {last_period}"
        )
        yield f"{span_text}: {reason}"


def find_missed_reason(
    report: ReportHeader, contract_status: RootsStatus, newest_block: BlockRef
) -> str | None:
    """Return why the contract cannot accept a report after `newest_block`.

    The result is None if the contract may still accept it.
    """
    head = contract_status.head
    if (head.round, contract_status.last_root) != (report.head_round, report.prev):
        # An endpoint that reports a lower round is behind, so its answer does not count.
        return SUPERSEDED_REASON if head.round >= report.head_round else None
    if newest_block.number + 1 - report.as_of > contract_status.limits.anchor_window:
        return "as-of left the anchor window"
    if newest_block.time > report.deadline:
        return "its deadline passed"
    return None


def is_report_accepted(uow: UnitOfWork, stored_report: StoredReportHeader) -> bool:
    """Return whether the contract accepted the signed report.

    The round need not be final.
    """
    accepted_round = uow.rounds.find_accepted_round(stored_report.header.head_round + 1)
    return accepted_round is not None and accepted_round.root == stored_report.header.root


def _find_missed_reason_in_index(uow: UnitOfWork, stored_report: StoredReportHeader) -> str | None:
    # Only the final block may decide. A report marked as missed is never sent, and a single
    # endpoint may have made up a newer block.
    final_block = find_final_block(uow)
    if final_block is None:
        return None
    round_number = stored_report.header.head_round + 1
    accepted_round = uow.rounds.find_accepted_round(round_number)
    if accepted_round is not None:
        is_final_with_other_root = (
            accepted_round.root != stored_report.header.root
            and accepted_round.at.block <= final_block.number
        )
        return f"another report became round {round_number}" if is_final_with_other_root else None
    return "its deadline passed" if final_block.time > stored_report.header.deadline else None


def _has_report_landed(
    context: ReportingContext, uow: UnitOfWork, stored_report: StoredReportHeader, heads: Heads
) -> bool:
    accepted_round = uow.rounds.find_accepted_round(stored_report.header.head_round + 1)
    # It is enough to compare roots. The root depends on the as-of block, whose hash the contract
    # has checked.
    return (
        accepted_round is not None
        and accepted_round.root == stored_report.header.root
        and context.account_context.is_final(accepted_round.at.block, heads)
    )
