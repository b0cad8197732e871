"""Compares the leaves of reports that an earlier process cut with the nodes before signing.

The process that cut a report may have been faulty, or may have had a false state that was repaired
since. A report that this process cuts needs no comparison, because its tree was compared once
(`oracle.reporting.leaf_tree`).
"""

from oracle.domain.reports.report import Report
from oracle.reporting.leaf_tree import LeafTree
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork


def record_inherited_reports(context: ReportingContext, uow: UnitOfWork) -> None:
    """Record which reports were cut before this process began to plan; later calls do nothing."""
    if context.inherited_reports.newest_period is None:
        context.inherited_reports.newest_period = uow.reports.find_newest_period()


def find_wrong_leaves_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    """Return why an unsigned report must not be signed, even if it is released, or None.

    A report that this process has cut or compared is not compared again.
    """
    inherited = context.inherited_reports
    if inherited.newest_period is None or report.period > inherited.newest_period:
        return None
    if report.root in inherited.compared_roots:
        return None
    wrong_count = LeafTree(context.policy.rules, context.policy).count_wrong_leaves(uow, report)
    if wrong_count == 0:
        inherited.compared_roots.add(report.root)
        return None
    return f"{wrong_count} of its leaves differ from the nodes; it is never signed"
