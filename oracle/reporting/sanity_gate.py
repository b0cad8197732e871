"""The sanity gate: a report that would change too much at once is held until a human looks.

Everything here concerns this reporter alone: it decides whether to sign, never what a report says.
"""

from itertools import pairwise

import structlog

from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_data import decode
from oracle.domain.reports.sanity_limits import EventCounts, Move, why_too_much, why_too_quiet
from oracle.domain.state.node import Membership
from oracle.errors import InputError
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.reports.hold_repository import ReportHold
from oracle.store.reports.report_repository import StoredReport
from oracle.telemetry import quorum_metrics
from oracle.txmgr.context import StepResult


def counted(uow: UnitOfWork, report: Report, periods: int) -> EventCounts | None:
    """Count the network's logs and calls of a report's period, and of up to `periods` before.

    A period ends where its report was cut. Where some between two reports were never cut (no
    block, or nobody was at the head), what came in them is shared out evenly. The oracle
    contract's own logs do not count: they are ours. None: there is no report before this one.
    """
    ends = [
        (one.report.period, one.report.as_of.number)
        for one in uow.reports.latest(periods + 2)
        if one.report.period < report.period
    ]
    ends.append((report.period, report.as_of.number))
    spans = [
        (first, last, later - earlier)
        for (earlier, first), (later, last) in pairwise(ends)
        if last > first
    ]
    if not spans:
        return None
    identity = uow.identity.get()
    ours = None if identity is None else identity.oracle
    logs = uow.logs.counts_without(ours, spans[0][0] + 1, report.as_of.number)
    calls = uow.calls.counts(spans[0][0] + 1, report.as_of.number)
    rates = [
        sum(logs.get(block, 0) + calls.get(block, 0) for block in range(first + 1, last + 1))
        // length
        for first, last, length in spans
    ]
    return EventCounts(rates[-1], rates[:-1][-periods:])


def why_held(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    """Tell why a report must not be signed before a human has released it; None: it may.

    A period that was released is never held again. It reads only; `hold` writes it down.
    """
    hold = uow.holds.at(report.period)
    if hold is not None:
        return hold.reason if hold.released_at is None else None
    members = _members(uow)
    moves = _moves(uow, report, None)
    reason = why_too_much(
        list(moves.values()), members, context.settings.bands.kick_below, context.sanity
    )
    if reason is not None:
        reason = _looked_at_closely(context, uow, report)
    return reason or _why_quiet(context, uow, report)


def hold(context: ReportingContext, report: Report, why: str) -> StepResult | None:
    """Write down that a report is held, and tell of it; None: it is written down already."""
    with context.tx.writing() as uow:
        events = counted(uow, report, context.sanity.periods)
        facts = {
            "as_of": report.as_of.number,
            "head_round": report.head_round,
            "members": _members(uow),
            "words": len(decode(report.records)),
            "registers": len(report.registrations.fresh),
            "events": None if events is None else events.now,
        }
        is_news = uow.holds.hold(report.period, why, facts, context.tx.stamp)
        show(uow.holds.waiting())
    if not is_news:
        return None
    structlog.get_logger().error("report_held", period=report.period, reason=why, **facts)
    return StepResult("report held", None, f"period {report.period}: {why}")


def show(held: list[ReportHold]) -> None:
    """Set the gauges: what looks wrong, and what others signed otherwise."""
    disputed = sum(hold.is_disputed for hold in held)
    quorum_metrics.HELD.set(len(held) - disputed)
    quorum_metrics.DISPUTED.set(disputed > 0)


def _looked_at_closely(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    """Judge again without nodes that are no members, and on top of what a human let go."""
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
    return why_too_much(theirs, _members(uow), context.settings.bands.kick_below, context.sanity)


def _why_quiet(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    members = _members(uow)
    events = counted(uow, report, context.sanity.periods)
    if events is None or why_too_quiet(events, members, context.sanity) is None:
        return None
    released = _released(context, uow, report)
    hold = None if released is None else uow.holds.at(released.report.period)
    passed = None if hold is None else hold.facts.get("events")
    return why_too_quiet(events._replace(excused=passed), members, context.sanity)


def _members(uow: UnitOfWork) -> int:
    counts = uow.nodes.counts().items()
    return sum(number for (membership, *_), number in counts if membership is Membership.MEMBER)


def _moves(uow: UnitOfWork, report: Report, released: Report | None) -> dict[int, Move]:
    """Return the lanes that the report would change, by index.

    They are compared with what is on chain; or with what a human let go, where that is newer.
    """
    records = decode(report.records)
    words = uow.rounds.words(number for number, _ in records)
    before = {number: word.value for number, word in words.items()}
    if released is not None:
        before |= {
            number: word
            for number, word in decode(released.records)
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
    """Return the newest report before this one that a human let go, of the last periods."""
    for stored in reversed(uow.reports.latest(context.sanity.periods)):
        hold = uow.holds.at(stored.report.period)
        is_released = hold is not None and hold.released_at is not None
        if stored.report.period < report.period and is_released:
            return stored
    return None


def release(uow: UnitOfWork, period: int, stamp: Stamp) -> ReportHold:
    """Let the report of a period be signed, as far as the contract still takes it.

    Whatever becomes of it, later reports are held only for what they change on top of its words.

    Raises:
        InputError: nothing is held of this period.
    """
    hold = held_at(uow, period)
    uow.holds.release(period, stamp)
    show(uow.holds.waiting())
    return hold


def held_at(uow: UnitOfWork, period: int) -> ReportHold:
    """Return what is held of a period. Raises InputError: nothing is."""
    hold = uow.holds.at(period)
    if hold is None or hold.released_at is not None:
        held = ", ".join(str(one.period) for one in uow.holds.waiting()) or "none"
        state = "was released already" if hold is not None else "is not held"
        raise InputError(f"the report of period {period} {state}; held are: {held}")
    return hold
