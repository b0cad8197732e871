"""The sanity gate holds a report that changes too much at once until an operator reviews it.

The gate concerns only this reporter: it decides whether to sign, never the content of a report.
"""

from collections.abc import Sequence
from itertools import pairwise

import structlog

from oracle.domain.coverage import Level
from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_data import decode_records
from oracle.domain.reports.round_schedule import Cut
from oracle.domain.reports.sanity_limits import (
    Activity,
    Move,
    excess_change_reason,
    quiet_period_reason,
)
from oracle.domain.state.node import Membership
from oracle.errors import InputError
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.reports.hold_repository import ReportHold
from oracle.store.reports.report_repository import StoredCut, StoredReport
from oracle.telemetry import quorum_metrics
from oracle.txmgr.context import StepResult


def read_activity(uow: UnitOfWork, report: Report, periods: int) -> list[Activity]:
    """Return the activity of up to `periods` periods before a report's, oldest first, and its own.

    A period ends where its report was cut. Where some between two reports were never cut (no
    block, or nobody was at the head), the tasks that ended in them are shared out evenly. The
    list is empty if there is no report before this one.
    """
    activity = []
    for (earlier, first), (later, last) in pairwise(_period_ends(uow, report, periods + 2)):
        if last > first:
            tasks, nodes = uow.activity.count_ended(first + 1, last)
            activity.append(Activity(tasks // (later - earlier), nodes))
    return activity[-periods - 1 :]


def _period_ends(uow: UnitOfWork, report: Report, limit: int) -> list[tuple[int, int]]:
    """Return the periods of up to `limit` reports before this one, and its own, with their blocks.

    The oldest is first.
    """
    before = [
        (stored.report.period, stored.report.as_of.number)
        for stored in uow.reports.latest(limit)
        if stored.report.period < report.period
    ]
    return [*before, (report.period, report.as_of.number)]


def hold_reason(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    """Return why a report must be released by an operator before it is signed, or None.

    A released period is never held again. The function only reads; `hold_report` writes.
    """
    hold = uow.holds.at(report.period)
    if hold is not None:
        return hold.reason if hold.released_at is None else None
    members = _members(uow)
    moves = _moves(uow, report, None)
    reason = excess_change_reason(
        list(moves.values()), members, context.settings.kick_line, context.sanity
    )
    if reason is not None:
        reason = _looked_at_closely(context, uow, report)
    return reason or _why_quiet(context, uow, report)


def without_held(uow: UnitOfWork, cuts: Sequence[StoredCut]) -> list[Cut]:
    """Return the cuts with held ones silenced, so that the next report is scheduled.

    A disputed report was signed already: its round is taken until the report can no longer land.
    """
    held = {hold.period for hold in uow.holds.held() if not hold.is_disputed}
    return [
        stored.cut._replace(speaks=False) if stored.cut.period in held else stored.cut
        for stored in cuts
    ]


def hold_report(context: ReportingContext, report: Report, why: str) -> StepResult | None:
    """Store and log that a report is held; return None if that is stored already."""
    with context.tx.writing() as uow:
        activity = read_activity(uow, report, context.sanity.periods)
        facts = {
            "as_of": report.as_of.number,
            "head_round": report.head_round,
            "members": _members(uow),
            "words": len(decode_records(report.records)),
            "registers": len(report.registrations.fresh),
            "tasks_ended": activity[-1].tasks if activity else None,
        }
        is_news = uow.holds.hold(report.period, why, facts, context.tx.stamp)
        show(uow.holds.waiting())
    if not is_news:
        return None
    structlog.get_logger().error("report_held", period=report.period, reason=why, **facts)
    return StepResult("report held", None, f"period {report.period}: {why}")


def show(held: list[ReportHold]) -> None:
    """Set the gauges of held and disputed reports."""
    disputed = sum(hold.is_disputed for hold in held)
    quorum_metrics.HELD.set(len(held) - disputed)
    quorum_metrics.DISPUTED.set(disputed > 0)


def _looked_at_closely(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    """Check again without nodes that are no members, and relative to the last released report."""
    released = _released(context, uow, report)
    moves = _moves(uow, report, None if released is None else released.report)
    indexes = uow.rounds.load().indexes
    nodes = uow.nodes.named({indexes[index].node for index in moves if index in indexes})
    theirs = [
        move
        for index, move in moves.items()
        if index in indexes
        and indexes[index].node in nodes
        and nodes[indexes[index].node].membership is Membership.MEMBER
    ]
    return excess_change_reason(theirs, _members(uow), context.settings.kick_line, context.sanity)


def _why_quiet(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    activity = read_activity(uow, report, context.sanity.periods)
    if not activity:
        return None
    reason = quiet_period_reason(activity[-1], activity[:-1], _members(uow), context.sanity)
    if reason is None:
        return None
    (_, before), (_, last) = _period_ends(uow, report, context.sanity.periods + 2)[-2:]
    return None if _are_logs_complete(uow, before + 1, last) else reason


def _are_logs_complete(uow: UnitOfWork, first: int, last: int) -> bool:
    """Return whether no log of these blocks can be missing.

    Their headers prove it, or a second endpoint was asked about them later and returned the same.
    """
    scope = uow.coverage.current()
    if scope is None:
        return False
    spans = uow.coverage.spans(scope.id, first, last)
    is_whole = not uow.coverage.gaps(scope.id, first, last)
    return is_whole and all(
        span.level >= Level.BLOOMED or span.audited_by is not None for span in spans
    )


def _members(uow: UnitOfWork) -> int:
    counts = uow.nodes.counts().items()
    return sum(number for (membership, *_), number in counts if membership is Membership.MEMBER)


def _moves(uow: UnitOfWork, report: Report, released: Report | None) -> dict[int, Move]:
    """Return the lanes that the report would change, by index.

    The baseline is the on-chain state, or a released report where that is newer.
    """
    records = decode_records(report.records)
    words = uow.rounds.words(number for number, _ in records)
    before = {number: word.value for number, word in words.items()}
    if released is not None:
        before |= {
            number: word
            for number, word in decode_records(released.records)
            if number not in words or words[number].time < released.as_of.time
        }
    return {
        number * LANES_PER_WORD + place: Move(old, new)
        for number, word in records
        for place, (old, new) in enumerate(
            zip(lanes_of(before.get(number, 0)), lanes_of(word), strict=True)
        )
        if old != new
    }


def _released(context: ReportingContext, uow: UnitOfWork, report: Report) -> StoredReport | None:
    """Return the newest released report before this one, of the last periods."""
    for stored in reversed(uow.reports.latest(context.sanity.periods)):
        hold = uow.holds.at(stored.report.period)
        is_released = hold is not None and hold.released_at is not None
        if stored.report.period < report.period and is_released:
            return stored
    return None


def release(uow: UnitOfWork, period: int, stamp: Stamp) -> ReportHold:
    """Release the report of a period for signing, as far as the contract still accepts it.

    Later reports are held only for changes on top of its words, whatever its outcome.

    Raises:
        InputError: no report of this period is held.
    """
    hold = held_at(uow, period)
    uow.holds.release(period, stamp)
    show(uow.holds.waiting())
    return hold


def held_at(uow: UnitOfWork, period: int) -> ReportHold:
    """Return the active hold of a period. Raises InputError if there is none."""
    hold = uow.holds.at(period)
    if hold is None or hold.released_at is not None:
        held = ", ".join(str(one.period) for one in uow.holds.waiting()) or "none"
        state = "was released already" if hold is not None else "is not held"
        raise InputError(f"the report of period {period} {state}; held are: {held}")
    return hold
