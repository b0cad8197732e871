"""Signs the scheduled report, and plans its push once a quorum has signed.

The signed content follows from the chain alone (decision 0088). The transmitter decides when the
report is sent and whether it is worth its gas, but this does not change the content.

The leaves of a report from an earlier process, or from before a refold, are compared with the
nodes before it is signed: the process may have been faulty, or the refold may have repaired the
state. A report that this process cuts from the present state needs no comparison, because its tree
was compared once (`oracle.reporting.leaf_tree`).
"""

from dataclasses import dataclass

from oracle.bindings.qos_roots import RootsStatus, encode_push_report_call
from oracle.chain.heads import Heads
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_schedule import (
    ScheduleMoment,
    compute_submission_window,
    find_scheduled_report,
)
from oracle.errors import TransientError
from oracle.indexer.provenance import get_refold_count
from oracle.quorum.collector import (
    collect_signatures,
    find_unknown_signer_reason,
    refetch_recent_statements,
)
from oracle.quorum.sign_once import sign_once
from oracle.quorum.statement_tally import tally_signatures
from oracle.quorum.statements import build_report_statement, build_statement_record
from oracle.reporting.evidence_gate import find_unverified_kickout, verify_next_blocks
from oracle.reporting.landing import (
    is_report_accepted,
    mark_landed_reports,
    mark_missed_reports,
    mark_unsigned_reports_as_missed,
)
from oracle.reporting.leaf_tree import LeafTree
from oracle.reporting.push_call import (
    MAX_SCANNED_PUSHES,
    MAX_TRIES,
    RETRYABLE_STATES,
    find_push_expiry_reason,
    should_retry_push,
)
from oracle.reporting.readiness import (
    find_reporting_obstacle,
)
from oracle.reporting.reporting_context import ReportingContext
from oracle.reporting.sanity_gate import (
    find_hold_reason,
    hold_report,
    mark_unsignable_reports_not_due,
    update_hold_metrics,
)
from oracle.reporting.submission import decide_report_submission
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    PENDING_STATES,
    PUSH,
    CallRequest,
    Intent,
    IntentState,
    SignedStatement,
)
from oracle.store.report_repository import (
    WRONG_LEAVES_SUFFIX,
    ReportState,
    StoredReport,
    StoredReportHeader,
)
from oracle.telemetry.tracing import start_span
from oracle.txmgr.context import StepResult, describe_write
from oracle.txmgr.deferral import find_deadline_obstacle


@dataclass(frozen=True, slots=True)
class _ScheduledReport:
    """The scheduled report with its statement for the next round and the contract's state."""

    report: Report
    contract_status: RootsStatus
    statement: ReportStatement
    record: SignedStatement


def plan_push(
    context: ReportingContext, heads: Heads, *, mark_outcomes: bool = True
) -> StepResult | None:
    """Sign the scheduled report, collect a quorum, and plan the push.

    The result is None if there is nothing to do. With `mark_outcomes`, the outcomes of other
    reports are stored first; a read-only caller passes False.

    Raises:
        TransientError: no endpoint responds, or the contract's rules differ from the configured
            rules.
    """
    if context.account_context.is_halted():
        return None
    with context.account_context.store.read_transaction() as uow:
        # Export the holds again, because a hold ends when a report lands.
        update_hold_metrics(uow.holds.list_awaiting_operator())
        stored_reports = load_current_cuts(uow, context.report_settings)
        record_inherited_reports(context, uow)
        push_in_flight = _find_push_in_flight(context, uow)
        has_no_work = not any(
            _needs_work(context, uow, stored_report, heads) for stored_report in stored_reports
        )
    if has_no_work:
        context.quorum.missing.clear()
        # The key is not requested again before the next report.
        context.quorum.missing.refusal_reason = None
    step_result = (
        (
            mark_landed_reports(context, heads, stored_reports)
            or mark_missed_reports(context, stored_reports)
        )
        if mark_outcomes
        else None
    )
    if step_result is None and not has_no_work:
        step_result = _sign_and_plan_push(
            context, heads, stored_reports, push_in_flight, mark_outcomes=mark_outcomes
        )
    if step_result is None:
        refetch_recent_statements(context.quorum, stored_reports)
    return step_result


def _sign_and_plan_push(
    context: ReportingContext,
    heads: Heads,
    stored_reports: list[StoredReportHeader],
    push_in_flight: Intent | None,
    *,
    mark_outcomes: bool,
) -> StepResult | None:
    """Sign the report, and plan its push unless a push in flight may still land.

    A push in flight does not prevent signing, because the other reporters may be ahead.
    """
    status = context.quorum.fetch_contract_status()
    step_result = (
        mark_unsigned_reports_as_missed(context, stored_reports, status) if mark_outcomes else None
    )
    if step_result is not None:
        return step_result
    scheduled_report = _find_publishable_report(context, heads, stored_reports, status)
    if scheduled_report is None:
        return None
    is_free = push_in_flight is None or _is_push_stuck(context, push_in_flight, status)
    return _sign_report(context, scheduled_report) or (
        _plan_push_of_signed_report(context, scheduled_report) if is_free else None
    )


def load_current_cuts(uow: UnitOfWork, settings: ReportSettings) -> list[StoredReportHeader]:
    """Return the reports of recent submission windows, and all since the first due report."""
    newest_period = uow.reports.find_newest_period()
    first_due_period = uow.reports.find_first_due_period()
    if newest_period is None:
        return []
    periods_per_window = compute_submission_window(settings)
    first_period = (newest_period // periods_per_window - 2) * periods_per_window
    return uow.reports.list_headers_since(
        first_period if first_due_period is None else min(first_period, first_due_period)
    )


def _needs_work(
    context: ReportingContext, uow: UnitOfWork, stored_report: StoredReportHeader, heads: Heads
) -> bool:
    """Return whether a report requires further steps that depend on the contract's state."""
    if (
        stored_report.state is not ReportState.DUE
        or stored_report.header.as_of > context.find_latest_reportable_block(heads)
    ):
        return False
    return stored_report.digest is None or not is_report_accepted(uow, stored_report)


def _find_push_in_flight(context: ReportingContext, uow: UnitOfWork) -> Intent | None:
    """Return the newest push in flight, if there is one.

    No other push is planned while this push may land.
    """
    if not context.account_context.sender_account.has_payer:
        return None
    pushes = [
        intent
        for intent in uow.outbox.intents.list_in_states(
            context.account_context.account, PENDING_STATES
        )
        if intent.request.kind == PUSH
    ]
    return max(pushes, key=lambda intent: intent.id, default=None)


def _is_push_stuck(context: ReportingContext, push: Intent, status: RootsStatus) -> bool:
    """Return whether a sent push can no longer land, so that its nonce may be reused."""
    if push.state is not IntentState.LIVE:
        return False
    with context.account_context.store.read_transaction() as uow:
        return find_push_expiry_reason(context, uow, push, status) is not None


def _find_publishable_report(
    context: ReportingContext,
    heads: Heads,
    stored_reports: list[StoredReportHeader],
    status: RootsStatus,
) -> _ScheduledReport | None:
    """Return the scheduled report, if there is one and reporting is possible now.

    Raises:
        TransientError: the contract's rules differ from the configured rules.
    """
    with context.account_context.store.read_transaction() as uow:
        if find_reporting_obstacle(context, uow, heads, status) is not None:
            return None
    scheduled_report = _prepare_scheduled_report(context, heads, stored_reports, status)
    if scheduled_report is None:
        return None
    if status.rules_hash != context.rules_hash:
        raise TransientError(
            f"the contract requires rules {status.rules_hash}, but {context.rules_hash} are "
            "configured; nothing is published until they match"
        )
    return scheduled_report


def _prepare_scheduled_report(
    context: ReportingContext,
    heads: Heads,
    stored_reports: list[StoredReportHeader],
    status: RootsStatus,
) -> _ScheduledReport | None:
    with context.account_context.store.read_transaction() as uow:
        stored_report = load_scheduled_report(uow, context.report_settings, stored_reports, status)
    if (
        stored_report is None
        or stored_report.report.as_of.number > context.find_latest_reportable_block(heads)
    ):
        return None
    statement = build_report_statement(stored_report.report, status)
    return _ScheduledReport(
        stored_report.report, status, statement, build_statement_record(context.quorum, statement)
    )


def load_scheduled_report(
    uow: UnitOfWork,
    settings: ReportSettings,
    stored_reports: list[StoredReportHeader],
    status: RootsStatus,
) -> StoredReport | None:
    """Return the report that is scheduled for the next round, if there is one.

    `stored_reports` come from `load_current_cuts`. A report that is held for an operator is
    skipped.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return None
    moment = ScheduleMoment(
        number=cursor.number,
        time=cursor.time,
        head_round=status.head.round,
        last_root=status.last_root,
        anchor_window=status.limits.anchor_window,
    )
    scheduled_cut = find_scheduled_report(
        mark_unsignable_reports_not_due(uow, stored_reports),
        uow.reports.get_first_complete_period(),
        moment,
        settings,
    )
    return None if scheduled_cut is None else uow.reports.get(scheduled_cut.period)


def _sign_report(
    context: ReportingContext, scheduled_report: _ScheduledReport
) -> StepResult | None:
    """Sign the report if there is a signer and the report is not held.

    The result is None if there is nothing new.
    """
    if not context.account_context.sender_account.has_signer:
        return None
    with context.account_context.store.read_transaction() as uow:
        # The live statement of this round may belong to an earlier report.
        live_statement = uow.statements.find_live(scheduled_report.record)
        is_signed = (
            live_statement is not None and live_statement.digest == scheduled_report.record.digest
        )
        reason = (
            None
            if is_signed
            else find_wrong_leaves_reason(context, uow, scheduled_report.report)
            or find_hold_reason(context, uow, scheduled_report.report)
        )
        unverified_kickout = (
            None
            if is_signed or reason is not None
            else find_unverified_kickout(context, uow, scheduled_report.report)
        )
        stored_report = uow.reports.get(scheduled_report.report.period)
    if reason is not None:
        return hold_report(context, scheduled_report.report, reason)
    context.quorum.missing.evidence_reason = (
        None
        if unverified_kickout is None
        else f"period {scheduled_report.report.period} makes the kickout of "
        f"{unverified_kickout.node} due: {unverified_kickout.reason}"
    )
    if unverified_kickout is not None:
        return verify_next_blocks(context, unverified_kickout)
    with start_span(
        "report", round=scheduled_report.statement.round, period=scheduled_report.report.period
    ) as span:
        signed_statement = sign_once(
            context.quorum,
            scheduled_report.statement,
            scheduled_report.record,
            scheduled_report.contract_status,
        )
        span.record_result({} if signed_statement is None else {"digest": signed_statement.digest})
    if signed_statement is None or (
        stored_report is not None and stored_report.digest == signed_statement.digest
    ):
        return None
    dry_run_text = (
        f"the report is signed in round {signed_statement.round}, and would be sent once a quorum "
        "has signed"
    )
    with describe_write(dry_run_text), context.account_context.write_transaction() as uow:
        uow.reports.set_signed_round(
            scheduled_report.report.period, signed_statement.round, signed_statement.digest
        )
    context.quorum.missing.signer_reason = find_unknown_signer_reason(
        context.quorum, scheduled_report.contract_status
    )
    return StepResult(
        "report signed",
        None,
        f"round {signed_statement.round}, period {scheduled_report.report.period}",
    )


def _plan_push_of_signed_report(
    context: ReportingContext, scheduled_report: _ScheduledReport
) -> StepResult | None:
    """Plan the push of a report signed by a quorum, if this reporter transmits."""
    quorum_signatures = collect_signatures(
        context.quorum, scheduled_report.record, scheduled_report.contract_status
    )
    if quorum_signatures is None:
        return _hold_disputed_report(context, scheduled_report)
    context.quorum.missing.clear()
    if (
        not context.account_context.sender_account.has_payer
        or not scheduled_report.contract_status.can_accept_round
    ):
        return None
    report, record = scheduled_report.report, scheduled_report.record
    calldata = encode_push_report_call(
        scheduled_report.statement,
        scheduled_report.contract_status.head.config_count,
        quorum_signatures,
    )
    tries = _count_push_tries(context, record)
    if (
        tries is None
        or not decide_report_submission(
            context, report, scheduled_report.contract_status
        ).should_send
    ):
        return None
    block_time = scheduled_report.contract_status.block.time
    head_start_seconds = context.account_context.rank.head_start_seconds
    with context.account_context.store.read_transaction() as uow:
        if (
            find_deadline_obstacle(context.account_context, uow, report.deadline, block_time)
            is not None
        ):
            return None
    request = CallRequest(
        account=context.account_context.account,
        contract=record.contract,
        kind=PUSH,
        dedup_key=f"push:round={record.round}:{record.digest}:try={tries + 1}",
        calldata=calldata,
        period=report.period,
        round=record.round,
        as_of_block=report.as_of.number,
        as_of_hash=report.as_of.hash,
        digest=record.digest,
        not_before=block_time + head_start_seconds if head_start_seconds else None,
        deadline=report.deadline,
        exclusive_key=PUSH,
    )
    dry_run_text = f"the report would be sent in round {record.round}"
    with describe_write(dry_run_text), context.account_context.write_transaction() as uow:
        uow.reports.set_signed_round(report.period, record.round, record.digest)
        intent_id = uow.outbox.intents.add(request, context.account_context.stamp)
    return StepResult("push planned", intent_id, f"round {record.round}, period {report.period}")


def _count_push_tries(context: ReportingContext, record: SignedStatement) -> int | None:
    """Count the pushes of this statement.

    The result is None if no other push is allowed. An unsent push whose round was taken is tried
    again, because a reorg may have freed the round. A push that was mined while the contract was
    paused is also tried again. After any other outcome, the statement is not pushed again.
    """
    with context.account_context.store.read_transaction() as uow:
        pushes = uow.outbox.intents.list_newest(MAX_SCANNED_PUSHES, kind=PUSH)
    pushes_of_statement = [push for push in pushes if push.request.digest == record.digest]
    if len(pushes_of_statement) >= MAX_TRIES:
        return None
    has_last_push_ended = (
        not pushes_of_statement or pushes_of_statement[0].state in RETRYABLE_STATES
    )
    if has_last_push_ended or should_retry_push(context, pushes_of_statement[0]):
        return len(pushes_of_statement)
    return None


def _hold_disputed_report(
    context: ReportingContext, scheduled_report: _ScheduledReport
) -> StepResult | None:
    """Hold a report that can no longer get a quorum.

    The result is None if the report may still get a quorum, or if the report is already held.
    """
    if scheduled_report.contract_status.head.quorum == 1:
        return None
    signer_tally = tally_signatures(
        context.quorum, scheduled_report.record, scheduled_report.contract_status
    )
    block_time, reason = scheduled_report.contract_status.block.time, signer_tally.quorum_obstacle
    waited_seconds = block_time - context.quorum.missing.record_statement_without_quorum(
        scheduled_report.record.digest, block_time
    )
    is_late = reason is None and waited_seconds > context.report_settings.period_seconds
    context.quorum.missing.missing_reason = (
        signer_tally.describe_missing_signatures(scheduled_report.record.round)
        if is_late
        else None
    )
    return None if reason is None else hold_report(context, scheduled_report.report, reason)


def record_inherited_reports(context: ReportingContext, uow: UnitOfWork) -> None:
    """Record which reports were built before this process or the last refold."""
    inherited_reports, refold_count = context.inherited_reports, get_refold_count(uow)
    if inherited_reports.refold_count != refold_count:
        inherited_reports.refold_count = refold_count
        inherited_reports.newest_period = uow.reports.find_newest_period()
        inherited_reports.compared_roots.clear()


def find_wrong_leaves_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    """Return why the leaves of an unsigned report are wrong, if they are.

    A report with wrong leaves must never be signed. A report that this process has cut or compared
    since the last refold is not compared again.
    """
    inherited_reports = context.inherited_reports
    if inherited_reports.newest_period is None or report.period > inherited_reports.newest_period:
        return None
    if report.root in inherited_reports.compared_roots:
        return None
    wrong_count = LeafTree(context.policy.rules, context.policy).count_wrong_leaves(uow, report)
    if wrong_count == 0:
        inherited_reports.compared_roots.add(report.root)
        return None
    return f"{wrong_count}{WRONG_LEAVES_SUFFIX}"
