"""The sanity gate: a report that would change too much at once is held until a human looks.

Everything here concerns this reporter alone: it decides whether to sign, never what a report says.
"""

import structlog

from oracle.domain.reports.lanes import LANES_PER_WORD, lanes_of
from oracle.domain.reports.report import Report, decode
from oracle.domain.reports.sanity_limits import Move, why_too_much, why_too_quiet
from oracle.domain.state.node import Membership
from oracle.reporting.activity import counted
from oracle.store.database import UnitOfWork
from oracle.store.reports.hold_repository import ReportHold
from oracle.store.reports.report_repository import StoredReport
from oracle.telemetry import gate_metrics
from oracle.txmgr.context import StepResult, TxContext


def why_held(context: TxContext, uow: UnitOfWork, report: Report) -> str | None:
    """Tell why a report must not be signed before a human has released it; None: it may.

    A period that was released is never held again. It reads only; `hold` writes it down.
    """
    gate = uow.gates.at(report.period)
    if gate is not None:
        return gate.reason if gate.released_at is None else None
    members = _members(uow)
    moves = _moves(uow, report, None)
    reason = why_too_much(
        list(moves.values()), members, context.settings.bands.kick_below, context.sanity
    )
    if reason is not None:
        reason = _looked_at_closely(context, uow, report)
    return reason or _why_quiet(context, uow, report)


def hold(context: TxContext, report: Report, why: str) -> StepResult | None:
    """Write down that a report is held, and tell of it; None: it is written down already."""
    with context.writing() as uow:
        events = counted(uow, report, context.sanity.periods)
        facts = {
            "as_of": report.as_of.number,
            "head_round": report.head_round,
            "members": _members(uow),
            "words": len(decode(report.records)),
            "events": None if events is None else events.now,
        }
        is_news = uow.gates.hold(report.period, why, facts, context.stamp)
        show(holding(uow))
    if not is_news:
        return None
    structlog.get_logger().error("report_held", period=report.period, reason=why, **facts)
    return StepResult("report held", None, f"period {report.period}: {why}")


def holding(uow: UnitOfWork) -> list[ReportHold]:
    """Return the periods that wait for a human, but for those that a landed report followed."""
    held = uow.gates.held()
    # Mostly there is none, and nothing else is read.
    newest = uow.reports.newest_landed() if held else None
    return [gate for gate in held if newest is None or gate.period > newest]


def is_holding(uow: UnitOfWork) -> bool:
    """Tell whether a report is held, and show it to whoever watches."""
    held = holding(uow)
    show(held)
    return bool(held)


def show(held: list[ReportHold]) -> None:
    """Set the gauges: what looks wrong, and what others signed otherwise."""
    disputed = sum(gate.is_disputed for gate in held)
    gate_metrics.HELD.set(len(held) - disputed)
    gate_metrics.DISPUTED.set(disputed > 0)


def _looked_at_closely(context: TxContext, uow: UnitOfWork, report: Report) -> str | None:
    """Judge again without nodes that are no members, and on top of what a human let go."""
    released = _released(context, uow, report)
    moves = _moves(uow, report, None if released is None else released.report)
    indexes = uow.rounds.load().indexes
    nodes = uow.nodes.named({indexes[index].node for index in moves if index in indexes})
    theirs = [
        move
        for index, move in moves.items()
        if index in indexes
        and not indexes[index].retired
        and indexes[index].node in nodes
        and nodes[indexes[index].node].membership is Membership.MEMBER
    ]
    return why_too_much(theirs, _members(uow), context.settings.bands.kick_below, context.sanity)


def _why_quiet(context: TxContext, uow: UnitOfWork, report: Report) -> str | None:
    members = _members(uow)
    events = counted(uow, report, context.sanity.periods)
    if events is None or why_too_quiet(events, members, context.sanity) is None:
        return None
    released = _released(context, uow, report)
    gate = None if released is None else uow.gates.at(released.report.period)
    passed = None if gate is None else gate.facts.get("events")
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


def _released(context: TxContext, uow: UnitOfWork, report: Report) -> StoredReport | None:
    """Return the newest report before this one that a human let go, of the last periods."""
    for stored in reversed(uow.reports.latest(context.sanity.periods)):
        gate = uow.gates.at(stored.report.period)
        is_released = gate is not None and gate.released_at is not None
        if stored.report.period < report.period and is_released:
            return stored
    return None
