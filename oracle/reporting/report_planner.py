"""Signs the scheduled report and plans a push once a quorum has signed it.

The signed content follows from the chain alone (decision 0088). When the report is sent, and
whether it is worth its gas, is decided by the transmitter and changes no byte of it.
"""

from dataclasses import dataclass

from oracle.bindings.qos_oracle import ContractStatus, push_call
from oracle.chain.heads import Heads
from oracle.domain.reports.report import Report, ReportSettings
from oracle.domain.reports.round_schedule import (
    ScheduleMoment,
    scheduled_cut_at,
    submission_window,
)
from oracle.errors import TransientError
from oracle.quorum.collector import signatures, why_not_counted
from oracle.quorum.gatherer import review
from oracle.quorum.sign_once import sign_once
from oracle.quorum.statement_tally import tally
from oracle.quorum.statements import report_record, statement_of
from oracle.reporting.landing import is_awaiting_finality, mark_landed_reports, mark_missed_reports
from oracle.reporting.push_retries import (
    LOOKED_BACK,
    MAY_GO_AGAIN,
    MOST_TRIES,
    may_go_again,
    why_hopeless,
)
from oracle.reporting.readiness import MISSED, in_words, why_blind, why_missed
from oracle.reporting.reporting_context import PUSH, ReportingContext
from oracle.reporting.sanity_gate import hold_reason, hold_report, show, without_held
from oracle.reporting.submission import submission_value
from oracle.signing.typed_data import ReportStatement
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import (
    ON_ITS_WAY,
    CallRequest,
    Intent,
    IntentState,
    SignedStatement,
)
from oracle.store.reports.report_repository import ReportState, StoredCut, StoredReport
from oracle.telemetry.tracing import span
from oracle.txmgr.context import StepResult
from oracle.txmgr.inclusion_time import why_too_late


@dataclass(frozen=True, slots=True)
class _ScheduledReport:
    """The scheduled report, bound to its round, and the contract status."""

    report: Report
    contract_status: ContractStatus
    statement: ReportStatement
    record: SignedStatement


def plan_push(
    context: ReportingContext, heads: Heads, *, clears: bool = True
) -> StepResult | None:
    """Sign the scheduled report, collect a quorum and plan its push; return None if idle.

    Outcomes of other reports are stored first if `marks_outcomes`; a read-only caller leaves it
    unset.

    Raises:
        TransientError: no endpoint answers; or the contract's rules differ from ours.
    """
    if context.tx.is_stopped():
        return None
    with context.tx.store.reading() as uow:
        # A report that landed may have ended a hold.
        show(uow.holds.waiting())
        cuts = cuts_now(uow, context.settings)
        pushing = _pushing(context, uow)
        is_idle = not any(_is_wanted(context, uow, one, heads) for one in cuts)
    if is_idle:
        context.quorum.missing.nothing()
    step = (
        (mark_landed_reports(context, heads, cuts) or mark_missed_reports(context, cuts))
        if clears
        else None
    )
    if step is None and not is_idle:
        step = _plan_beside(context, heads, cuts, pushing, clears=clears)
    if step is None:
        review(context.quorum, cuts)
    return step


def _plan_beside(
    context: ReportingContext,
    heads: Heads,
    cuts: list[StoredCut],
    pushing: Intent | None,
    *,
    clears: bool,
) -> StepResult | None:
    """Sign the report, and plan a push unless one is in flight that may still land.

    A push in flight does not prevent signing: the other reporters may be ahead.
    """
    status = context.quorum.contract_status()
    step = _miss(context, cuts, status) if clears else None
    if step is not None:
        return step
    turn = _scheduled_report(context, heads, cuts, status)
    if turn is None:
        return None
    is_free = pushing is None or _is_stuck(context, pushing, status)
    return _sign(context, turn) or (_push(context, turn) if is_free else None)


def cuts_now(uow: UnitOfWork, settings: ReportSettings) -> list[StoredCut]:
    """Return the cuts of the shifts that may still be scheduled, or that are due from before."""
    newest, due = uow.reports.newest_period(), uow.reports.first_due()
    if newest is None:
        return []
    length = submission_window(settings)
    start = (newest // length - 2) * length
    return uow.reports.cuts_since(start if due is None else min(start, due))


def _is_wanted(context: ReportingContext, uow: UnitOfWork, one: StoredCut, heads: Heads) -> bool:
    """Return whether a report still needs work; only then is the contract queried."""
    if one.state is not ReportState.DUE or one.cut.as_of > context.newest_as_of(heads):
        return False
    return one.digest is None or not is_awaiting_finality(uow, one)


def _pushing(context: ReportingContext, uow: UnitOfWork) -> Intent | None:
    """Return the newest push in flight, or None; no other push is planned while it may land."""
    if not context.tx.publisher.has_payer:
        return None
    pushes = [
        one
        for one in uow.outbox.intents.in_states(context.tx.account, ON_ITS_WAY)
        if one.request.kind == PUSH
    ]
    return max(pushes, key=lambda one: one.id, default=None)


def _is_stuck(context: ReportingContext, push: Intent, status: ContractStatus) -> bool:
    """Return whether a sent push can no longer land, so that the next one takes its nonce."""
    if push.state is not IntentState.LIVE:
        return False
    with context.tx.store.reading() as uow:
        return why_hopeless(uow, push, status) is not None


def _miss(
    context: ReportingContext, cuts: list[StoredCut], status: ContractStatus
) -> StepResult | None:
    """Mark unsigned reports that can never be accepted any more."""
    unsigned = [one.cut for one in cuts if one.state is ReportState.DUE and one.digest is None]
    missed = [(cut.period, why_missed(cut, status)) for cut in unsigned]
    gone = [(period, reason) for period, reason in missed if reason is not None]
    if not gone:
        return None
    with context.tx.writing() as uow:
        for period, reason in gone:
            uow.reports.mark(period, ReportState.MISSED, reason)
    return StepResult(MISSED, None, in_words(gone))


def _scheduled_report(
    context: ReportingContext, heads: Heads, cuts: list[StoredCut], status: ContractStatus
) -> _ScheduledReport | None:
    """Return the scheduled report, or None if there is none or the state is incomplete.

    Raises:
        TransientError: the contract's rules differ from ours.
    """
    with context.tx.store.reading() as uow:
        if why_blind(context, uow, heads, status) is not None:
            return None
    turn = _load_scheduled_report(context, heads, cuts, status)
    if turn is None:
        return None
    if status.rules_hash != context.rules_hash:
        raise TransientError(
            f"the contract asks for rules {status.rules_hash}, "
            f"ours are {context.rules_hash}: nothing is published until they agree"
        )
    return turn


def _load_scheduled_report(
    context: ReportingContext, heads: Heads, cuts: list[StoredCut], status: ContractStatus
) -> _ScheduledReport | None:
    with context.tx.store.reading() as uow:
        stored = scheduled_cut_now(uow, context.settings, cuts, status)
    if stored is None or stored.report.as_of.number > context.newest_as_of(heads):
        return None
    statement = statement_of(stored.report, status)
    return _ScheduledReport(
        stored.report, status, statement, report_record(context.quorum, statement)
    )


def scheduled_cut_now(
    uow: UnitOfWork,
    settings: ReportSettings,
    cuts: list[StoredCut],
    status: ContractStatus,
) -> StoredReport | None:
    """Return the scheduled report, or None. `cuts` come from `load_current_cuts`.

    A report that is held for an operator does not keep its slot.
    """
    cursor = uow.cursor.get()
    if cursor is None:
        return None
    moment = ScheduleMoment(
        number=cursor.number,
        time=cursor.time,
        head_round=status.head.round,
        last_report=status.last_report,
        anchor_window=status.limits.anchor_window,
    )
    chosen = scheduled_cut_at(
        without_held(uow, cuts), uow.reports.complete_from(), moment, settings
    )
    return None if chosen is None else uow.reports.at(chosen.period)


def _sign(context: ReportingContext, turn: _ScheduledReport) -> StepResult | None:
    """Sign the report if a signer exists and nothing holds it; return None if nothing is new."""
    if not context.tx.publisher.has_signer:
        return None
    with context.tx.store.reading() as uow:
        live = uow.statements.live(turn.record)
        reason = None if live is not None else hold_reason(context, uow, turn.report)
        stored = uow.reports.at(turn.report.period)
    if reason is not None:
        return hold_report(context, turn.report, reason)
    with span("report", round=turn.statement.round, period=turn.report.period) as traced:
        signed = sign_once(context.quorum, turn.statement, turn.record, turn.contract_status)
        traced.did({} if signed is None else {"digest": signed.digest})
    if signed is None or (stored is not None and stored.digest == signed.digest):
        return None
    with context.tx.writing() as uow:
        uow.reports.bind(turn.report.period, signed.round, signed.digest)
    context.quorum.missing.contract_status = why_not_counted(context.quorum, turn.contract_status)
    return StepResult("report signed", None, f"round {signed.round}, period {turn.report.period}")


def _push(context: ReportingContext, turn: _ScheduledReport) -> StepResult | None:
    """Plan the push of a report that a quorum has signed, if this reporter transmits."""
    gathered = signatures(context.quorum, turn.record, turn.contract_status)
    if gathered is None:
        return _hold_disputed_report(context, turn)
    context.quorum.missing.nothing()
    if not context.tx.publisher.has_payer or not turn.contract_status.is_open:
        return None
    report, record = turn.report, turn.record
    calldata = push_call(turn.statement, turn.contract_status.head.config_count, gathered)
    tries = _tries(context, record)
    if tries is None or not submission_value(context, report, turn.contract_status).now:
        return None
    now, head_start = turn.contract_status.block.time, context.tx.rank.head_start
    with context.tx.store.reading() as uow:
        if why_too_late(context.tx, uow, report.deadline, now) is not None:
            return None
    request = CallRequest(
        account=context.tx.account,
        contract=record.contract,
        kind=PUSH,
        dedup_key=f"push:round={record.round}:{record.digest}:try={tries + 1}",
        calldata=calldata,
        period=report.period,
        round=record.round,
        as_of_block=report.as_of.number,
        as_of_hash=report.as_of.hash,
        digest=record.digest,
        not_before=now + head_start if head_start else None,
        deadline=report.deadline,
        exclusive_key=PUSH,
    )
    with context.tx.writing() as uow:
        uow.reports.bind(report.period, record.round, record.digest)
        intent_id = uow.outbox.intents.add(request, context.tx.stamp)
    return StepResult("push planned", intent_id, f"round {record.round}, period {report.period}")


def _tries(context: ReportingContext, record: SignedStatement) -> int | None:
    """Count the pushes of this statement so far; return None if no other may be tried.

    An unsent push whose round was taken is tried again, because a reorg may have freed the round;
    so is one that was mined while the contract was paused. After any other end the next statement
    or an operator decides.
    """
    with context.tx.store.reading() as uow:
        pushes = uow.outbox.intents.newest(LOOKED_BACK, kind=PUSH)
    same = [one for one in pushes if one.request.digest == record.digest]
    if len(same) >= MOST_TRIES:
        return None
    is_over = not same or same[0].state in MAY_GO_AGAIN
    return len(same) if is_over or may_go_again(context, same[0]) else None


def _hold_disputed_report(context: ReportingContext, turn: _ScheduledReport) -> StepResult | None:
    """Hold a report that can get no quorum any more; return None if it may or is held already."""
    if turn.contract_status.head.quorum == 1:
        return None
    found = tally(context.quorum, turn.record, turn.contract_status)
    now, reason = turn.contract_status.block.time, found.why_hopeless
    lasted = now - context.quorum.missing.began(turn.record.digest, now)
    is_late = reason is None and lasted > context.settings.period_seconds
    context.quorum.missing.signatures = found.missing_of(turn.record.round) if is_late else None
    return None if reason is None else hold_report(context, turn.report, reason)
