"""Computes what a report would change, and whether the change is worth its gas.

Evaluated when a report is planned, after its simulation, and in the commit that assigns a nonce.
"""

from dataclasses import replace

from oracle.bindings.qos_oracle import ContractStatus
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_data import decode_records
from oracle.domain.reports.submission_policy import (
    ReportChange,
    SubmissionValue,
    change_between,
    submission_value_of,
)
from oracle.reporting.reporting_context import ReportingContext
from oracle.reporting.sanity_gate import hold_reason, hold_report
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Intent


def submission_value(
    context: ReportingContext, report: Report, contract_status: ContractStatus
) -> SubmissionValue:
    """Tell whether to send a report now, and the most wei per gas to pay.

    Not now: wait, and ask again at the next block. The most is within the cap whatever it says.
    What the sanity gate holds is not sent, whoever signed it; that is written down here.
    See docs/explanation/reports.md#when-to-publish.
    See docs/explanation/reports.md#when-to-publish.
    """
    with context.tx.store.reading() as uow:
        reason = hold_reason(context, uow, report)
        times = contract_status.head.pushed_at, contract_status.block.time
        worth = _weighed(context, uow, report, times)
    if reason is not None:
        hold_report(context, report, reason)
        return SubmissionValue(now=False, why=f"held: {reason}", most_per_gas=0)
    if worth.now and _is_too_dear(context, worth):
        return replace(worth, now=False, why="gas is dearer than the news is worth yet")
    return worth


def _is_too_dear(context: ReportingContext, worth: SubmissionValue) -> bool:
    """Return whether the market exceeds the fee that the report is worth so far."""
    if worth.most_per_gas >= context.tx.publisher.caps.fee_per_gas:
        # Nothing is asked where only the cap counts: whoever prices the call will see.
        return False
    market = context.tx.market()
    return market.base_fee + market.tip > worth.most_per_gas


def why_not_worth(
    context: ReportingContext, uow: UnitOfWork, intent: Intent, now: int
) -> tuple[str, str] | None:
    """Return why a planned push may not be sent now, as (class, text), or None.

    Used by later steps, including the commit that assigns the nonce, so it queries no endpoint.
    `now` is the newest block's time.
    """
    found = push_worth(context, uow, intent, now)
    if found is None or found.now:
        return None
    return "not_worth", found.why


def push_worth(
    context: ReportingContext, uow: UnitOfWork, intent: Intent, now: int
) -> SubmissionValue | None:
    """Compute the value of a planned push from the indexed state; None if its report is gone."""
    period = intent.request.period
    stored = None if period is None else uow.reports.at(period)
    if stored is None:
        return None
    hold = uow.holds.at(stored.report.period)
    if hold is not None and hold.released_at is None:
        return SubmissionValue(now=False, why=f"held: {hold.reason}", most_per_gas=0)
    newest = uow.rounds.accepted(1)
    return _weighed(context, uow, stored.report, (newest[-1].time if newest else 0, now))


def _weighed(
    context: ReportingContext, uow: UnitOfWork, report: Report, times: tuple[int, int]
) -> SubmissionValue:
    """Compute a report's value; `times`: when the last round was accepted, and now (chain time)."""
    pushed_at, now = times
    records = decode_records(report.records)
    words = uow.rounds.words(number for number, _ in records)
    on_chain = {number: word.value for number, word in words.items()}
    change, is_urgent = change_between(on_chain, records, context.settings.kick_line)
    news = ReportChange(
        words=sum(on_chain.get(number) != word for number, word in records),
        change=change,
        is_urgent=is_urgent,
        age=now - min([pushed_at, *(word.time for word in words.values())]),
    )
    return submission_value_of(
        news,
        context.submission_policy,
        heartbeat=context.settings.heartbeat_seconds,
        cap=context.tx.publisher.caps.fee_per_gas,
    )
