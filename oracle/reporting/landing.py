"""Records the outcome of reports that any transmitter brought to the contract."""

from oracle.chain.heads import Heads
from oracle.domain.reports.round_data import encode_records, encode_round
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.reports.report_repository import ReportState, StoredCut
from oracle.txmgr.context import StepResult


def mark_landed_reports(
    context: ReportingContext, heads: Heads, cuts: list[StoredCut]
) -> StepResult | None:
    """Mark reports as landed once their round is final; return None if there are none.

    Any accepted round counts, whoever sent it, even if the report is stored as `missed` because
    our own push was too late.
    """
    open_ = [one for one in cuts if one.cut.speaks and _may_have_landed(one)]
    if not open_:
        return None
    with context.tx.store.reading() as uow:
        landed = [one.cut.period for one in open_ if _has_landed(context, uow, one, heads)]
    if not landed:
        return None
    with context.tx.writing() as uow:
        for period in landed:
            uow.reports.mark(period, ReportState.LANDED)
    return StepResult("report landed", None, f"period {', '.join(map(str, landed))}")


def mark_missed_reports(context: ReportingContext, cuts: list[StoredCut]) -> StepResult | None:
    """Mark signed reports as missed that can no longer land; return None if there are none.

    Reports whose push is still unfinished are left to that push.
    """
    signed = [one for one in cuts if one.state is ReportState.DUE and one.digest is not None]
    if not signed:
        return None
    with context.tx.store.reading() as uow:
        account = context.tx.account if context.tx.publisher.has_payer else None
        open_ = [] if account is None else uow.outbox.intents.unfinished(account)
        pushed = {intent.request.digest for intent in open_}
        fates = [
            (one.cut.period, _why_lost(uow, one)) for one in signed if one.digest not in pushed
        ]
    lost = [(period, reason) for period, reason in fates if reason is not None]
    if not lost:
        return None
    with context.tx.writing() as uow:
        for period, reason in lost:
            uow.reports.mark(period, ReportState.MISSED, reason)
    told = "; ".join(f"period {period}: {reason}" for period, reason in lost)
    return StepResult("report missed", None, told)


def is_awaiting_finality(uow: UnitOfWork, one: StoredCut) -> bool:
    """Return whether the contract accepted the signed report, which only waits for finality."""
    accepted = uow.rounds.accepted_round(one.cut.head_round + 1)
    return accepted is not None and accepted.digest == one.digest


def _why_lost(uow: UnitOfWork, one: StoredCut) -> str | None:
    if is_awaiting_finality(uow, one):
        return None
    number, cursor = one.cut.head_round + 1, uow.cursor.get()
    if uow.rounds.accepted_round(number) is not None:
        return f"another report became round {number}"
    is_late = cursor is not None and cursor.time > one.cut.deadline
    return "its deadline passed" if is_late else None


def _may_have_landed(one: StoredCut) -> bool:
    is_missed = one.state is ReportState.MISSED and one.digest is not None
    return is_missed or one.state is ReportState.DUE


def _has_landed(context: ReportingContext, uow: UnitOfWork, one: StoredCut, heads: Heads) -> bool:
    accepted = uow.rounds.accepted_round(one.cut.head_round + 1)
    if accepted is None or accepted.as_of != one.cut.as_of:
        return False
    if not context.tx.is_final(accepted.at.block, heads):
        return False
    if one.digest is not None:
        return one.digest == accepted.digest
    stored = uow.reports.at(one.cut.period)
    return (
        stored is not None
        and stored.report.as_of.hash == accepted.as_of_hash
        and stored.report.data
        == encode_round(accepted.registrations, encode_records(accepted.words))
    )
