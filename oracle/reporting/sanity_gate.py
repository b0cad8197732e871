"""The sanity gate: holds a report that changes too much at once until an operator reviews it.

The gate only decides whether this reporter signs. It never changes the content of a report.
"""

from collections.abc import Sequence
from itertools import pairwise

import structlog

from oracle.domain.coverage import VerificationLevel
from oracle.domain.reports.lanes import LANES_PER_WORD, unpack_lanes
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_data import decode_records
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.domain.reports.sanity_limits import (
    Activity,
    LaneChange,
    find_excess_change_reason,
    find_quiet_period_reason,
)
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.report_repository import ReportHold, StoredReport, StoredReportHeader
from oracle.telemetry import quorum_metrics
from oracle.txmgr.context import StepResult


def load_activity(uow: UnitOfWork, report: Report, periods: int) -> list[Activity]:
    """Return the activity of a report's period and of up to `periods` earlier ones, oldest first.

    A period ends at the block where its report was cut. If no report was cut for some periods
    between two reports (no block, or the daemon was not at the head), the tasks that ended in them
    are distributed evenly. The list is empty if this is the first report.
    """
    activity = []
    for (earlier, first_end), (later, last_end) in pairwise(
        _load_period_ends(uow, report, periods + 2)
    ):
        if last_end > first_end:
            task_count, node_count = uow.activity.count_ended_tasks(first_end + 1, last_end)
            activity.append(Activity(task_count // (later - earlier), node_count))
    return activity[-periods - 1 :]


def _load_period_ends(uow: UnitOfWork, report: Report, limit: int) -> list[tuple[int, int]]:
    """Return (period, as-of block) of a report and of up to `limit` earlier ones, oldest first."""
    earlier_ends = [
        (stored.report.period, stored.report.as_of.number)
        for stored in uow.reports.list_latest(limit)
        if stored.report.period < report.period
    ]
    return [*earlier_ends, (report.period, report.as_of.number)]


def find_hold_reason(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    """Return why an operator must release a report before it is signed, or None.

    A released period is never held again. The function only reads; `hold_report` writes.
    """
    hold = uow.holds.get(report.period)
    if hold is not None:
        return hold.reason if hold.released_at is None else None
    member_count = _count_members(uow)
    moves = _find_lane_changes(uow, report, None)
    reason = find_excess_change_reason(
        list(moves.values()), member_count, context.settings.kick_line, context.sanity
    )
    if reason is not None:
        reason = _find_member_hold_reason(context, uow, report)
    return reason or _find_quiet_period_hold_reason(context, uow, report)


def drop_held_records(uow: UnitOfWork, cuts: Sequence[StoredReportHeader]) -> list[ReportHeader]:
    """Return the headers of cut reports; a held report has no records, so the next is scheduled.

    A disputed report keeps its records, because it was already signed. No other report may take
    its round until the disputed report can no longer land.
    """
    held_periods = {hold.period for hold in uow.holds.list_held() if not hold.is_disputed}
    return [
        stored.cut._replace(has_records=False) if stored.cut.period in held_periods else stored.cut
        for stored in cuts
    ]


def hold_report(context: ReportingContext, report: Report, reason: str) -> StepResult | None:
    """Store and log that a report is held; return None if the hold is already stored."""
    with context.account_context.write_transaction() as uow:
        activity = load_activity(uow, report, context.sanity.periods)
        facts = {
            "as_of": report.as_of.number,
            "head_round": report.head_round,
            "members": _count_members(uow),
            "words": len(decode_records(report.records)),
            "registers": len(report.registrations.new_nodes),
            "tasks_ended": activity[-1].tasks if activity else None,
        }
        is_news = uow.holds.hold(report.period, reason, facts, context.account_context.stamp)
        update_hold_metrics(uow.holds.list_awaiting_operator())
    if not is_news:
        return None
    structlog.get_logger().error("report_held", period=report.period, reason=reason, **facts)
    return StepResult("report held", None, f"period {report.period}: {reason}")


def update_hold_metrics(holds: list[ReportHold]) -> None:
    """Set the gauges of held and disputed reports."""
    disputed = sum(hold.is_disputed for hold in holds)
    quorum_metrics.HELD.set(len(holds) - disputed)
    quorum_metrics.DISPUTED.set(disputed > 0)


def _find_member_hold_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    """Return why the report changes too many members, or None.

    Only members are compared. If a recent report was released, it is the basis of the comparison.
    """
    released_report = _find_released_report(context, uow, report)
    moves = _find_lane_changes(
        uow, report, None if released_report is None else released_report.report
    )
    indexes = uow.rounds.load().indexes
    nodes = uow.nodes.get_many({indexes[index].node for index in moves if index in indexes})
    member_moves = [
        move
        for index, move in moves.items()
        if index in indexes
        and indexes[index].node in nodes
        and nodes[indexes[index].node].membership is Membership.MEMBER
    ]
    return find_excess_change_reason(
        member_moves, _count_members(uow), context.settings.kick_line, context.sanity
    )


def _find_quiet_period_hold_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    activity = load_activity(uow, report, context.sanity.periods)
    if not activity:
        return None
    reason = find_quiet_period_reason(
        activity[-1], activity[:-1], _count_members(uow), context.sanity
    )
    if reason is None:
        return None
    (_, previous_end), (_, own_end) = _load_period_ends(uow, report, context.sanity.periods + 2)[
        -2:
    ]
    return None if _are_logs_complete(uow, previous_end + 1, own_end) else reason


def _are_logs_complete(uow: UnitOfWork, first: int, last: int) -> bool:
    """Return whether no log of these blocks can be missing.

    Either the block headers prove that the logs are complete, or a second endpoint later returned
    the same logs.
    """
    scope = uow.coverage.get_current_scope()
    if scope is None:
        return False
    spans = uow.coverage.list_spans(scope.id, first, last)
    has_no_gaps = not uow.coverage.list_gaps(scope.id, first, last)
    return has_no_gaps and all(
        span.level >= VerificationLevel.BLOOMED or span.audited_by is not None for span in spans
    )


def _count_members(uow: UnitOfWork) -> int:
    counts = uow.nodes.count_by_state().items()
    return sum(number for (membership, *_), number in counts if membership is Membership.MEMBER)


def _find_lane_changes(
    uow: UnitOfWork, report: Report, released: Report | None
) -> dict[int, LaneChange]:
    """Return the lanes that the report would change, by index.

    The report is compared with the on-chain state, or with a released report that is newer.
    """
    records = decode_records(report.records)
    words = uow.rounds.get_words(word_index for word_index, _ in records)
    words_before = {word_index: word.value for word_index, word in words.items()}
    if released is not None:
        words_before |= {
            word_index: word
            for word_index, word in decode_records(released.records)
            if word_index not in words or words[word_index].time < released.as_of.time
        }
    return {
        word_index * LANES_PER_WORD + lane_offset: LaneChange(old, new)
        for word_index, word in records
        for lane_offset, (old, new) in enumerate(
            zip(unpack_lanes(words_before.get(word_index, 0)), unpack_lanes(word), strict=True)
        )
        if old != new
    }


def _find_released_report(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> StoredReport | None:
    """Return the newest released report before this one among the last reports, or None."""
    for stored in reversed(uow.reports.list_latest(context.sanity.periods)):
        hold = uow.holds.get(stored.report.period)
        is_released = hold is not None and hold.released_at is not None
        if stored.report.period < report.period and is_released:
            return stored
    return None


def release_held_report(uow: UnitOfWork, period: int, stamp: Stamp) -> ReportHold:
    """Release the report of a period, so that it is signed if it can still land.

    Later reports are then held only for changes relative to the released report, whatever its
    outcome.

    Raises:
        InputError: no report of this period is held.
    """
    hold = get_active_hold(uow, period)
    uow.holds.release(period, stamp)
    update_hold_metrics(uow.holds.list_awaiting_operator())
    return hold


def get_active_hold(uow: UnitOfWork, period: int) -> ReportHold:
    """Return the active hold of a period; raise InputError if there is none."""
    hold = uow.holds.get(period)
    if hold is None or hold.released_at is not None:
        held_periods = (
            ", ".join(
                str(waiting_hold.period) for waiting_hold in uow.holds.list_awaiting_operator()
            )
            or "none"
        )
        state = "was released already" if hold is not None else "is not held"
        raise InputError(f"the report of period {period} {state}; held periods: {held_periods}")
    return hold
