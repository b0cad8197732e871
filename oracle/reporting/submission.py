"""Decides whether a report's changes are worth its gas.

The decision is made when a push is planned, and again whenever the push is reviewed before it is
sent.
"""

from dataclasses import replace

from oracle.bindings.qos_roots import RootsStatus
from oracle.domain.reports.report import Report
from oracle.domain.reports.submission_policy import SubmissionDecision, decide_submission
from oracle.reporting.reporting_context import ReportingContext
from oracle.reporting.sanity_gate import find_hold_reason, hold_report
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent


def decide_report_submission(
    context: ReportingContext, report: Report, contract_status: RootsStatus
) -> SubmissionDecision:
    """Decide whether to send a report now, and its maximum fee per gas in wei.

    If the report is not sent now, it is evaluated again at the next block. The maximum fee never
    exceeds the cap. A report that the sanity gate holds is not sent, regardless of who signed it.
    In this case, the function stores the hold. See docs/explanation/reports.md#when-to-publish.
    """
    with context.account_context.store.read_transaction() as uow:
        reason = find_hold_reason(context, uow, report)
        push_and_block_times = contract_status.head.pushed_at, contract_status.block.time
        submission_decision = _decide_submission_by_change(context, report, push_and_block_times)
    if reason is not None:
        hold_report(context, report, reason)
        return SubmissionDecision(should_send=False, reason=f"held: {reason}", max_fee_per_gas=0)
    if submission_decision.should_send and context.account_context.is_market_fee_above(
        submission_decision.max_fee_per_gas
    ):
        reason = "gas costs more than the change is worth yet"
        return replace(submission_decision, should_send=False, reason=reason)
    return submission_decision


def find_submission_obstacle(
    context: ReportingContext, uow: UnitOfWork, intent: Intent, now: int
) -> tuple[str, str] | None:
    """Return why a planned push must not be sent now, as an error class and a text.

    The result is None if the push may be sent. A held report is not sent, and a report whose
    change has become too small waits. No endpoint is queried, because the commit that assigns the
    nonce calls this function, too. `now` is the time of the newest block.
    """
    submission_decision = decide_push_submission(context, uow, intent, now)
    if submission_decision is None or submission_decision.should_send:
        return None
    return "not_worth", submission_decision.reason


def decide_push_submission(
    context: ReportingContext, uow: UnitOfWork, intent: Intent, now: int
) -> SubmissionDecision | None:
    """Decide whether a planned push is worth sending, based only on the indexed state.

    The result is None if the report of the push is no longer stored.
    """
    period = intent.request.period
    stored_report = None if period is None else uow.reports.get(period)
    if stored_report is None:
        return None
    hold = uow.holds.get(stored_report.report.period)
    if hold is not None and hold.released_at is None:
        return SubmissionDecision(
            should_send=False, reason=f"held: {hold.reason}", max_fee_per_gas=0
        )
    newest_rounds = uow.rounds.list_accepted(1)
    return _decide_submission_by_change(
        context, stored_report.report, (newest_rounds[-1].time if newest_rounds else 0, now)
    )


def _decide_submission_by_change(
    context: ReportingContext, report: Report, times: tuple[int, int]
) -> SubmissionDecision:
    """Decide whether a report is worth sending, given its change and the last round's age."""
    pushed_at, now = times
    return decide_submission(
        report.change,
        now - pushed_at,
        context.submission_policy,
        heartbeat_seconds=context.report_settings.heartbeat_seconds,
        fee_cap=context.account_context.sender_account.caps.fee_per_gas,
    )
