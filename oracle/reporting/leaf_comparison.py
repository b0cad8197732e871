"""Compares the leaves of reports from an earlier process or state with the nodes before signing.

The process that cut a report may have been faulty, or a refold may have repaired the state since.
A report that this process cuts from the present state needs no comparison, because its tree was
compared once (`oracle.reporting.leaf_tree`).
"""

from oracle.domain.reports.report import Report
from oracle.indexer.provenance import get_refold_count
from oracle.reporting.leaf_tree import LeafTree
from oracle.reporting.reporting_context import ReportingContext
from oracle.store.database import UnitOfWork


def record_inherited_reports(context: ReportingContext, uow: UnitOfWork) -> None:
    """Record which reports were cut before this process began to plan, or before a refold."""
    inherited, refold_count = context.inherited_reports, get_refold_count(uow)
    if inherited.refold_count != refold_count:
        inherited.refold_count = refold_count
        inherited.newest_period = uow.reports.find_newest_period()
        inherited.compared_roots.clear()


def find_wrong_leaves_reason(
    context: ReportingContext, uow: UnitOfWork, report: Report
) -> str | None:
    """Return why an unsigned report must not be signed, even if it is released, or None.

    A report that this process has cut or compared since the last refold is not compared again.
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
