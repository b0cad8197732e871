"""The sanity gate, which holds a report with too many changes until an operator reviews it.

The gate only decides whether this reporter signs. It never changes the content of a report.
"""

from collections.abc import Sequence
from itertools import pairwise

from oracle.domain.coverage import VerificationLevel
from oracle.domain.reports.report import Report
from oracle.domain.reports.round_schedule import ReportHeader
from oracle.domain.reports.sanity_limits import (
    Activity,
    find_excessive_change_reason,
    find_quiet_period_reason,
)
from oracle.domain.roots.leaves import LeafFlag, read_leaf_flags, read_leaf_lane, split_leaves
from oracle.domain.state import Membership
from oracle.errors import InputError
from oracle.indexer.rules_binding import get_rules_replacement_block
from oracle.reporting.leaf_storage import (
    find_released_report,
    load_last_round_leaves,
    load_report_leaves,
)
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork
from oracle.store.outbox.records import Stamp
from oracle.store.report_repository import ReportHold, StoredReportHeader
from oracle.telemetry import quorum_metrics
from oracle.telemetry.logger import get_logger
from oracle.txmgr.context import StepResult, describe_write


def load_period_activity(uow: UnitOfWork, report: Report, periods: int) -> list[Activity]:
    """Return the activity in a report's period and in up to `periods` earlier ones.

    The oldest period comes first.

    A period ends at the block of its report. If some periods between two reports have no report
    (because they had no block, or because the daemon was not at the head), the tasks that ended in
    these periods are distributed evenly over them. The list is empty if this is the first report.
    """
    period_activity = []
    for (previous_period, first_end), (period, last_end) in pairwise(
        _load_period_end_blocks(uow, report, periods + 2)
    ):
        if last_end > first_end:
            task_count, node_count = uow.activity.count_ended_tasks_and_nodes(
                first_end + 1, last_end
            )
            period_activity.append(Activity(task_count // (period - previous_period), node_count))
    return period_activity[-periods - 1 :]


def _load_period_end_blocks(uow: UnitOfWork, report: Report, limit: int) -> list[tuple[int, int]]:
    """Return the period and as-of block of a report and of up to `limit` earlier reports.

    The pairs are sorted, oldest first.
    """
    earlier_periods_and_blocks = [
        (stored_report.report.period, stored_report.report.as_of.number)
        for stored_report in uow.reports.list_newest(limit)
        if stored_report.report.period < report.period
    ]
    return [*earlier_periods_and_blocks, (report.period, report.as_of.number)]


def find_hold_reason(context: ReportingContext, uow: UnitOfWork, report: Report) -> str | None:
    """Return why a report needs an operator's release before it is signed.

    The result is None if it needs none. A released period is not held for these reasons again.
    This function only reads, and `hold_report` writes.
    """
    hold = uow.holds.get(report.period)
    if hold is not None:
        return hold.reason if hold.released_at is None else None
    return _find_change_hold_reason(context, uow, report) or _find_quiet_period_hold_reason(
        context, uow, report
    )


def mark_unsignable_reports_not_due(
    uow: UnitOfWork, stored_reports: Sequence[StoredReportHeader]
) -> list[ReportHeader]:
    """Return the report headers, with unsignable reports marked as not due.

    A report that was cut under replaced rules is not due either. A disputed report stays due,
    because it was already signed. No other report may take its round until the disputed report can
    no longer land.
    """
    held_periods = {hold.period for hold in uow.holds.list_held() if not hold.is_disputed}
    replacement_block = get_rules_replacement_block(uow)
    return [
        stored_report.header._replace(is_due=False)
        if stored_report.header.period in held_periods
        or stored_report.header.as_of <= replacement_block
        else stored_report.header
        for stored_report in stored_reports
    ]


def hold_report(context: ReportingContext, report: Report, reason: str) -> StepResult | None:
    """Store and log that a report is held.

    The result is None if the hold was already stored.
    """
    with context.account_context.store.read_transaction() as uow:
        if not uow.holds.can_hold(report.period, reason):
            return None
    dry_run_text = f"the report would be held: {reason}"
    with describe_write(dry_run_text), context.account_context.write_transaction() as uow:
        activity = load_period_activity(uow, report, context.sanity.periods)
        hold_facts = {
            "as_of": report.as_of.number,
            "head_round": report.head_round,
            "members": _count_members(uow),
            "changed_nodes": report.change.node_count,
            "tasks_ended": activity[-1].tasks if activity else None,
        }
        uow.holds.hold(report.period, reason, hold_facts, context.account_context.stamp)
        update_hold_metrics(uow.holds.list_awaiting_operator())
    get_logger().error("report_held", period=report.period, reason=reason, **hold_facts)
    return StepResult("report held", None, f"period {report.period}: {reason}")


def update_hold_metrics(holds: list[ReportHold]) -> None:
    """Set the gauges of held and disputed reports."""
    disputed_count = sum(hold.is_disputed for hold in holds)
    quorum_metrics.HELD.set(len(holds) - disputed_count)
    quorum_metrics.DISPUTED.set(disputed_count > 0)


def _find_change_hold_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    """Return why the report's changes affect too many members.

    The result is None if they do not.

    The report is compared with the last round, or with a report released after that round. The
    released report's leaves are no longer stored if the contract accepted another as of its block.
    """
    released_report = find_released_report(uow)
    old_leaves = None
    if released_report is not None and released_report.period < report.period:
        old_leaves = load_report_leaves(context, uow, released_report)
    if old_leaves is None:
        old_leaves = load_last_round_leaves(context, uow, report)
    new_leaves = load_report_leaves(context, uow, report)
    if old_leaves is None:
        return (
            f"round {report.head_round} on the chain has another root than the leaves of this "
            "database; `qos-oracle report diff` names the first leaf that differs"
        )
    if new_leaves is None:
        return "its leaves are not stored; `qos-oracle resync rebuild` computes them"
    # A node without an old leaf does not count as changed. Because the old leaves are fewer, `zip`
    # leaves it out.
    lane_changes = [
        (read_leaf_lane(old_leaf), read_leaf_lane(new_leaf))
        for old_leaf, new_leaf in zip(
            split_leaves(old_leaves), split_leaves(new_leaves), strict=False
        )
        if LeafFlag.MEMBER in read_leaf_flags(new_leaf)
        and read_leaf_lane(old_leaf) != read_leaf_lane(new_leaf)
    ]
    return find_excessive_change_reason(
        lane_changes, _count_members(uow), context.report_settings.kick_line, context.sanity
    )


def _find_quiet_period_hold_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    activity = load_period_activity(uow, report, context.sanity.periods)
    if not activity:
        return None
    reason = find_quiet_period_reason(
        activity[-1], activity[:-1], _count_members(uow), context.sanity
    )
    if reason is None:
        return None
    (_, previous_end), (_, own_end) = _load_period_end_blocks(
        uow, report, context.sanity.periods + 2
    )[-2:]
    return None if _are_all_logs_indexed(uow, previous_end + 1, own_end) else reason


def _are_all_logs_indexed(uow: UnitOfWork, first: int, last: int) -> bool:
    """Return whether the logs of these blocks are proven to be complete.

    Either the block headers prove that the logs are complete, or a second endpoint later returned
    the same logs.
    """
    scope = uow.coverage.get_current_scope()
    if scope is None:
        return False
    intervals = uow.coverage.list_intervals(scope.id, first, last)
    has_no_gaps = not uow.coverage.list_gaps(scope.id, first, last)
    return has_no_gaps and all(
        span.level >= VerificationLevel.BLOOMED or span.audited_by is not None
        for span in intervals
    )


def _count_members(uow: UnitOfWork) -> int:
    counts = uow.nodes.count_by_state().items()
    return sum(number for (membership, *_), number in counts if membership is Membership.MEMBER)


def release_held_report(uow: UnitOfWork, period: int, stamp: Stamp) -> ReportHold:
    """Release a period's held report, so that it is signed if it can still land.

    Until a later report lands, reports are compared with the released report, even if that report
    expires.

    Raises:
        InputError: no report of this period is held, or its leaves are wrong.
    """
    hold = get_releasable_hold(uow, period)
    uow.holds.release(period, stamp)
    update_hold_metrics(uow.holds.list_awaiting_operator())
    return hold


def get_releasable_hold(uow: UnitOfWork, period: int) -> ReportHold:
    """Return a period's hold, after checking that an operator may release it.

    A report with wrong leaves is never signed, and later reports must not be compared with it.

    Raises:
        InputError: no report of this period is held, or its leaves are wrong.
    """
    hold = uow.holds.get(period)
    if hold is None or hold.released_at is not None:
        held_periods = (
            ", ".join(
                str(waiting_hold.period) for waiting_hold in uow.holds.list_awaiting_operator()
            )
            or "none"
        )
        state_text = "was released already" if hold is not None else "is not held"
        raise InputError(
            f"the report of period {period} {state_text}; held periods: {held_periods}"
        )
    if hold.has_wrong_leaves:
        raise InputError(
            f"the report of period {period} cannot be released: {hold.reason}; wait for the next "
            "report, which is computed again; if later reports are held for this reason, too, run "
            "`qos-oracle resync rebuild`"
        )
    return hold
